//! Messages and memory of a hostile peer, for the fuzz targets.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use rustix::event::{EventfdFlags, eventfd};

use crate::bell::Bell;
use crate::client::{ClientConfig, ClientSession};
use crate::fault::{Broken, Faults};
use crate::message::{AddRing, Hello, Init, LEN, Message, Mode, Name, Secret, TO_SERVER, VERSION};
use crate::receive::Receiver;
use crate::region::{Region, Trust};
use crate::ring::Ring;
use crate::server::{ServerConfig, ServerSession};
use crate::transmit::{Buffers, Transmitter};

/// Length of the region that messages are about.
const REGION_LEN: usize = 16384;

fn wakeup() -> Option<OwnedFd> {
    eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC).ok()
}

/// Messages for a server and a client. Of each, a byte says what comes before the raw ones: a descriptor, and with
/// its high bits a sound message, so that later stages are reached.
pub fn messages(bytes: &[u8]) {
    let config = ServerConfig {
        id: 0,
        name: Name::new("fuzz"),
        secret: None,
        queues: 2,
        log2_ring_size: 4,
        trust: Trust::Sealed,
        most_bytes: 1 << 20,
    };
    let faults = Faults::new();
    let broken = Broken::default();
    let mut server = ServerSession::new(&config, &faults, &broken);
    let client = ClientConfig {
        id: 0,
        name: config.name,
        secret: None,
        queues: 2,
        log2_ring_size: 4,
        buffer_len: 64,
    };
    let mut client = ClientSession::new(&client, &faults, &broken);
    let Ok((region, file)) = Region::create(REGION_LEN) else { return };
    for offset in [0, 512, 1024] {
        Ring::new(&region, offset, 4).iter().for_each(Ring::set_up);
    }
    for chunk in bytes.chunks(1 + LEN).take(32) {
        let (Some(kind), raw) = (chunk.first(), chunk.get(1..).unwrap_or_default()) else { return };
        let fd = match kind & 3 {
            0 => None,
            1 => wakeup(),
            2 => file.try_clone().ok(),
            _ => std::io::pipe().ok().map(|(reader, _)| reader.into()),
        };
        let mut message = [0; LEN];
        message.iter_mut().zip(raw).for_each(|(to, from)| *to = *from);
        let message = sound(kind >> 4, raw).map_or_else(|| Message::parse(&message), Ok);
        let Ok(message) = message else { continue };
        assert_eq!(Message::parse(&message.emit()), Ok(message), "read as it was written");
        let _ = client.take(message);
        match server.take(message, fd) {
            Ok((_, None)) => {}
            Ok((_, Some(mut queues))) => {
                for queue in &mut queues {
                    exchange(&mut queue.receiver, &mut queue.transmitter);
                }
            }
            Err(refusal) => assert!(!refusal.to_string().is_empty()),
        }
    }
}

/// A message that a peer means well with, but for one byte.
fn sound(kind: u8, raw: &[u8]) -> Option<Message> {
    let byte = |at: usize| raw.get(at).copied().unwrap_or_default();
    let name = Name::new("fuzz");
    match kind {
        1 => Some(Message::Init(Init {
            version: VERSION,
            id: 0,
            mode: Mode::Ethernet,
            secret: Secret::new(""),
            name,
        })),
        2 => Some(Message::AddRegion { index: byte(0).into(), size: REGION_LEN as u64 }),
        3 | 4 => Some(Message::AddRing(AddRing {
            flags: if kind == 3 { TO_SERVER } else { 0 },
            index: 0,
            region: 0,
            offset: u32::from(byte(0)) * 8,
            log2_size: byte(1) & 7,
            private_header_len: 0,
        })),
        5 => Some(Message::Connect { name }),
        6 => Some(Message::Hello(Hello {
            name,
            min_version: VERSION,
            max_version: VERSION,
            max_region: 0,
            max_to_client: byte(0).into(),
            max_to_server: byte(1).into(),
            max_log2_ring_size: byte(2) & 7,
        })),
        7 => Some(Message::Ack),
        8 => Some(Message::Connected { name }),
        _ => None,
    }
}

/// Takes and puts packets as a port does.
fn exchange(receiver: &mut Receiver, transmitter: &mut Transmitter) {
    let mut buffer = [0; 2048];
    for round in 0..4_usize {
        let mut filled = receiver.filled();
        assert!(filled <= receiver.ring.size(), "no more than the ring has");
        while filled > 0 {
            let before = filled;
            match receiver.packet(&mut filled, &mut buffer) {
                Ok(len) => assert!(len <= buffer.len()),
                Err(fault) => receiver.faults.count(fault),
            }
            assert!(filled < before, "each packet has a descriptor");
        }
        receiver.release();
        let mut room = transmitter.room();
        for len in [1, 60, 1500] {
            let before = room;
            let is_sent =
                transmitter.packet(&mut room, buffer.get(..len * (round + 1) / 4).unwrap_or(&[1]));
            assert!(is_sent || room == before);
        }
        transmitter.publish();
    }
}

/// Rings as a peer may leave them: the bytes are the memory, with a ring at its beginning and another in its middle.
/// The first byte says which side we are.
pub fn rings(bytes: &[u8]) {
    const LOG2_SIZE: u8 = 3;
    const LEN: usize = 2048;
    let Some((kind, memory)) = bytes.split_first() else { return };
    let Ok((region, file)) = Region::create(LEN) else { return };
    let Ok(theirs) = Region::map(file.as_fd(), LEN as u64, Trust::Sealed) else { return };
    let regions: Arc<[Arc<Region>]> = Arc::new([Arc::clone(&region)]);
    let rings = (Ring::new(&region, 0, LOG2_SIZE), Ring::new(&region, 1024, LOG2_SIZE));
    let ((Some(from), Some(to)), Some(one), Some(other)) = (rings, wakeup(), wakeup()) else {
        return;
    };
    let is_client = kind & 1 == 1;
    let buffers = |first| is_client.then_some(Buffers { first, len: 64 });
    let (faults, broken) = (Faults::new(), Broken::default());
    let Ok(bell) = Bell::new(other, &faults) else { return };
    let mut receiver = Receiver::new(
        from,
        Arc::clone(&regions),
        buffers(512),
        one,
        Arc::clone(&faults),
        broken.clone(),
    );
    let mut transmitter = Transmitter::new(to, regions, buffers(1536), bell, faults, broken);
    // Written anew before each look, as a peer may at any time.
    for part in memory.chunks(LEN).take(4) {
        assert!(theirs.write(0, part));
        exchange(&mut receiver, &mut transmitter);
    }
}
