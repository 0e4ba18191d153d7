//! A peer that lies: in messages, in rings, in descriptors.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use memif::message::{AddRing, Init, Message, Mode, Name, Secret, TO_SERVER, VERSION};
use memif::region::Region;
use memif::ring::{Descriptor, NEXT, Ring};
use memif::{Channel, ClientConfig, Fault, Faults, Link, LinkError, Queue, ServerConfig, Trust};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{MemfdFlags, fstat, ftruncate, memfd_create};

/// A server of ours, and a client that says what it likes.
struct Scene {
    link: Link,
    channel: Channel,
    faults: Arc<Faults>,
    region: Arc<Region>,
    file: OwnedFd,
}

const LEN: usize = 65536;

/// Bytes that the server takes.
const MOST: u64 = 1 << 20;

/// Where the ring to the client lies; that to the server is at 0.
const TO_CLIENT: u32 = 1024;

const INIT: Init = Init {
    version: VERSION,
    id: 0,
    mode: Mode::Ethernet,
    secret: Secret { 0: [0; 24] },
    name: Name { 0: [b'x'; 32] },
};

fn ring(flags: u16, offset: u32) -> AddRing {
    AddRing { flags, index: 0, region: 0, offset, log2_size: 4, private_header_len: 0 }
}

fn interrupt() -> OwnedFd {
    eventfd(0, EventfdFlags::empty()).unwrap()
}

impl Scene {
    fn new() -> Self {
        let config = ServerConfig {
            id: 0,
            name: Name::new("server"),
            secret: None,
            queues: 1,
            log2_ring_size: 10,
            trust: Trust::Sealed,
            most_bytes: MOST,
        };
        let (one, channel) = Channel::pair().unwrap();
        let faults = Faults::new();
        let link = Link::serve(one, &config, &faults).unwrap();
        let (region, file) = Region::create(LEN).unwrap();
        for offset in [0, TO_CLIENT] {
            Ring::new(&region, offset, 4).unwrap().set_up();
        }
        Self { link, channel, faults, region, file }
    }

    fn send(
        &mut self,
        message: Message,
        fd: Option<&OwnedFd>,
    ) -> Result<Option<Vec<Queue>>, String> {
        self.channel.send(&message, fd.map(AsFd::as_fd)).unwrap();
        self.link.advance().map_err(|error| error.to_string())
    }

    /// All messages up to connect.
    fn begin(&mut self) -> Queue {
        let file = self.file.try_clone().unwrap();
        self.send(Message::Init(INIT), None).ok().unwrap();
        self.send(Message::AddRegion { index: 0, size: LEN as u64 }, Some(&file)).ok().unwrap();
        for (flags, offset) in [(TO_SERVER, 0), (0, TO_CLIENT)] {
            let message = Message::AddRing(ring(flags, offset));
            self.send(message, Some(&interrupt())).ok().unwrap();
        }
        let queues = self.send(Message::Connect { name: Name::new("x") }, None);
        queues.ok().unwrap().unwrap().remove(0)
    }

    fn ring(&self, offset: u32) -> Ring {
        Ring::new(&self.region, offset, 4).unwrap()
    }

    fn count(&self, fault: Fault) -> u64 {
        self.faults.read().find(|(f, _)| *f == fault).unwrap().1
    }

    fn is_broken(&mut self) -> bool {
        matches!(self.link.advance(), Err(LinkError::Broken))
    }
}

/// Messages that are sent one after the other, and the answer to the last one.
type Row<'a> = (&'a [(Message, Option<&'a OwnedFd>)], &'a str);

#[test]
fn messages_that_cannot_be() {
    let (memory, file) = Region::create(LEN).unwrap();
    Ring::new(&memory, TO_CLIENT, 4).unwrap().set_up();
    let flags = MemfdFlags::ALLOW_SEALING;
    let open = memfd_create("open", flags).unwrap();
    ftruncate(&open, LEN as u64).unwrap();
    let (pipe, _writer) = std::io::pipe().unwrap();
    let pipe = OwnedFd::from(pipe);
    let bell = interrupt();
    let init = (Message::Init(INIT), None);
    let region = (Message::AddRegion { index: 0, size: LEN as u64 }, Some(&file));
    let sized = |index, size| Message::AddRegion { index, size };
    let good = ring(TO_SERVER, 0);
    let connect = (Message::Connect { name: INIT.name }, None);
    let rows: &[Row<'_>] = &[
        (&[(Message::Ack, None)], "init is the first"),
        (&[region], "init is the first"),
        (&[init, init], "init came twice"),
        (&[init, (Message::Connected { name: INIT.name }, None)], "it is the server's"),
        (&[(Message::Init(Init { version: 0x300, ..INIT }), None)], "version 0x300"),
        (&[(Message::Init(Init { mode: Mode::Ip, ..INIT }), None)], "mode Ip"),
        (&[init, (sized(0, 4096), None)], "no descriptor"),
        (&[init, (sized(1, 4096), Some(&file))], "region 1 out of turn"),
        (&[init, (sized(0, 0), Some(&file))], "a region of 0 bytes"),
        (&[init, (sized(0, u64::MAX), Some(&file))], "18446744073709551615 bytes in all"),
        (&[init, (sized(0, MOST + 1), Some(&file))], "1048577 bytes in all; 1048576 at most"),
        (&[init, region, (sized(1, MOST), Some(&file))], "1114112 bytes in all; 1048576 at most"),
        (&[init, region, (sized(1, u64::MAX), Some(&file))], "bytes in all; 1048576 at most"),
        (&[init, (sized(0, LEN as u64 + 1), Some(&file))], "65537 bytes in a file of 65536"),
        (&[init, (sized(0, 4096), Some(&open))], "not sealed"),
        (&[init, (sized(0, 4096), Some(&pipe))], "not sealed"),
        (&[init, region, (Message::AddRing(good), None)], "no descriptor"),
        (&[init, region, (Message::AddRing(ring(0, TO_CLIENT)), Some(&pipe))], "not an eventfd"),
        (&[init, (Message::AddRing(good), Some(&bell))], "does not lie in its region"),
        (
            &[
                init,
                region,
                (Message::AddRing(AddRing { offset: 65536 - 256, ..good }), Some(&bell)),
            ],
            "does not lie in its region",
        ),
        (
            &[init, region, (Message::AddRing(AddRing { log2_size: 11, ..good }), Some(&bell))],
            "does not lie in its region",
        ),
        (
            &[init, region, (Message::AddRing(AddRing { index: 1, ..good }), Some(&bell))],
            "ring 1 out of turn",
        ),
        (
            &[
                init,
                region,
                (Message::AddRing(AddRing { private_header_len: 8, ..good }), Some(&bell)),
            ],
            "private headers",
        ),
        (&[init, region, (Message::AddRing(good), Some(&bell))], "no cookie"),
        (&[init, region, connect], "0 rings to the server and 0 back"),
    ];
    for (messages, answer) in rows {
        let mut scene = Scene::new();
        let (last, before) = messages.split_last().unwrap();
        for (message, fd) in before {
            assert!(scene.send(*message, *fd).is_ok(), "{message:?} before {answer}");
        }
        let error = scene.send(last.0, last.1).err();
        assert!(error.as_ref().is_some_and(|e| e.contains(answer)), "{answer}: {error:?}");
        // And the peer is told.
        let mut told = None;
        while let Ok(Some((message, _))) = scene.channel.receive() {
            told = Some(message);
        }
        assert!(
            matches!(told, Some(Message::Disconnect { text, .. }) if text.to_string().contains(answer))
        );
    }
}

#[test]
fn a_connection_takes_no_more_messages() {
    let mut scene = Scene::new();
    let _queue = scene.begin();
    let file = scene.file.try_clone().unwrap();
    let error = scene.send(Message::AddRegion { index: 1, size: 4096 }, Some(&file)).err().unwrap();
    assert!(error.contains("the connection stands"), "{error}");
}

#[test]
fn bad_descriptors_cost_their_packet_alone() {
    let sound = Descriptor { flags: 0, region: 0, length: 60, offset: 4096 };
    let rows: &[(&[Descriptor], Fault)] = &[
        (&[Descriptor { region: 1, ..sound }], Fault::Buffer),
        (&[Descriptor { region: u16::MAX, ..sound }], Fault::Buffer),
        (&[Descriptor { offset: LEN as u32 - 59, ..sound }], Fault::Buffer),
        (&[Descriptor { offset: u32::MAX, ..sound }], Fault::Buffer),
        (&[Descriptor { length: u32::MAX, ..sound }], Fault::TooLong),
        (&[Descriptor { length: 1501, ..sound }], Fault::TooLong),
        (
            &[
                Descriptor { flags: NEXT, length: 1000, ..sound },
                Descriptor { flags: NEXT, length: 1000, ..sound },
                sound,
            ],
            Fault::TooLong,
        ),
        (&[Descriptor { flags: NEXT, ..sound }, Descriptor { region: 7, ..sound }], Fault::Buffer),
    ];
    let mut into = [0; 1500];
    for (bad, fault) in rows {
        let mut scene = Scene::new();
        let mut queue = scene.begin();
        let theirs = scene.ring(0);
        for (index, descriptor) in (0..).zip(bad.iter().chain([&sound])) {
            theirs.set_descriptor(index, *descriptor);
        }
        theirs.set_head(bad.len() as u16 + 1);
        let mut filled = queue.receiver.filled();
        assert_eq!(usize::from(filled), bad.len() + 1);
        assert_eq!(queue.receiver.packet(&mut filled, &mut into), Err(*fault), "{bad:?}");
        assert_eq!((filled, queue.receiver.packet(&mut filled.clone(), &mut into)), (1, Ok(60)));
        queue.receiver.release();
        assert_eq!(usize::from(theirs.tail()), bad.len() + 1, "all are given back");
        assert!(!scene.is_broken());
    }
    // One that never ends.
    let mut scene = Scene::new();
    let mut queue = scene.begin();
    let theirs = scene.ring(0);
    for index in 0..16 {
        theirs.set_descriptor(index, Descriptor { flags: NEXT, ..sound });
    }
    theirs.set_head(16);
    let mut filled = queue.receiver.filled();
    assert_eq!(queue.receiver.packet(&mut filled, &mut into), Err(Fault::OpenChain));
    assert_eq!(filled, 0);
}

#[test]
fn indices_that_cannot_be_end_the_connection() {
    for head in [17, 0x7fff, u16::MAX] {
        let mut scene = Scene::new();
        let queue = scene.begin();
        assert!(!scene.is_broken());
        scene.ring(0).set_head(head);
        assert_eq!((queue.receiver.filled(), queue.receiver.filled()), (0, 0));
        assert_eq!(scene.count(Fault::RingIndex), 1, "once");
        assert!(scene.is_broken());

        let mut scene = Scene::new();
        let queue = scene.begin();
        scene.ring(TO_CLIENT).set_head(head);
        assert_eq!(queue.transmitter.room(), 0);
        assert!(scene.is_broken() && scene.count(Fault::RingIndex) == 1);
    }
}

/// Our client, and a server that answers it by hand.
struct Joined {
    link: Link,
    queue: Queue,
    to_server: Ring,
    to_client: Ring,
    faults: Arc<Faults>,
    _channel: Channel,
}

impl Joined {
    fn new() -> Self {
        let faults = Faults::new();
        let (one, channel) = Channel::pair().unwrap();
        let config = ClientConfig {
            id: 0,
            name: Name::new("client"),
            secret: None,
            queues: 1,
            log2_ring_size: 4,
            buffer_len: 256,
        };
        let mut link = Link::join(one, &config, &faults);
        let hello = memif::message::Hello {
            name: Name::new("server"),
            min_version: VERSION,
            max_version: VERSION,
            max_region: 0,
            max_to_client: 0,
            max_to_server: 0,
            max_log2_ring_size: 14,
        };
        let mut message = Message::Hello(hello);
        let mut fds = Vec::new();
        let mut rings = Vec::new();
        let queue = loop {
            channel.send(&message, None).unwrap();
            if let Some(mut queues) = link.advance().ok().unwrap() {
                break queues.remove(0);
            }
            let (asked, fd) = channel.receive().unwrap().unwrap();
            if let Message::AddRing(ring) = asked {
                rings.push(ring);
            }
            fds.extend(fd);
            message = match asked {
                Message::Connect { .. } => Message::Connected { name: Name::new("server") },
                _ => Message::Ack,
            };
        };
        let len = 2 * (128 + 16 * 16 + 16 * 256);
        let region = Region::map(fds[0].as_fd(), len, Trust::Sealed).unwrap();
        assert_eq!((rings.len(), rings[0].flags, rings[1].flags), (2, TO_SERVER, 0));
        let [to_server, to_client] =
            [0, 1].map(|n: usize| Ring::new(&region, rings[n].offset, rings[n].log2_size).unwrap());
        Self { link, queue, to_server, to_client, faults, _channel: channel }
    }
}

/// Where a peer puts an index, from where it ought to be at least: all that is near a bound, and far.
const STEPS: [i32; 15] = [-32768, -18, -17, -16, -15, -1, 0, 1, 8, 15, 16, 17, 18, 255, 32767];

/// Packets that have gone before, one by one, so that indices have wrapped.
const GONE: [u32; 5] = [0, 1, 15, 17, 65530];

/// VPP had a count of free slots that was the difference of two indices, one of them the peer's, and went below nothing.
#[test]
fn the_count_of_free_slots_does_not_underflow() {
    for (gone, step) in GONE.into_iter().flat_map(|gone| STEPS.map(|step| (gone, step))) {
        let case = format!("{gone} gone, then {step}");
        let mut scene = Scene::new();
        let mut queue = scene.begin();
        let theirs = scene.ring(TO_CLIENT);
        for index in 0..16 {
            let sound = Descriptor { flags: 0, region: 0, length: 2048, offset: 8192 };
            theirs.set_descriptor(index, sound);
        }
        for number in 0..gone {
            theirs.set_head((number + 1) as u16);
            let mut room = queue.transmitter.room();
            assert!(room == 1 && queue.transmitter.packet(&mut room, &[1; 60]));
            queue.transmitter.publish();
        }
        theirs.set_head((gone as u16).wrapping_add(step as u16));
        let mut room = queue.transmitter.room();
        let expected = u16::try_from(step).ok().filter(|room| *room <= 16);
        assert_eq!(room, expected.unwrap_or(0), "{case}");
        assert_eq!(scene.is_broken(), expected.is_none(), "{case}");
        // As many packets as there are slots, and no more, wherever the index goes meanwhile.
        theirs.set_head(gone as u16);
        let sent = (0..32).filter(|_| queue.transmitter.packet(&mut room, &[1; 60])).count();
        assert_eq!((sent, room), (usize::from(expected.unwrap_or(0)), 0), "{case}");

        // The same of the other role, whose peer moves the tail behind what was sent.
        let mut joined = Joined::new();
        for number in 0..gone {
            let mut room = joined.queue.transmitter.room();
            assert!(room == 16 && joined.queue.transmitter.packet(&mut room, &[1; 60]));
            joined.queue.transmitter.publish();
            joined.to_server.set_tail((number + 1) as u16);
        }
        joined.to_server.set_tail((gone as u16).wrapping_add(step as u16));
        let room = joined.queue.transmitter.room();
        let expected = (-16..=0).contains(&step).then(|| (16 + step) as u16);
        assert_eq!(room, expected.unwrap_or(0), "{case}");
        assert_eq!(joined.link.advance().is_err(), expected.is_none(), "{case}");
    }
}

/// The same of what has been filled.
#[test]
fn the_count_of_filled_slots_does_not_underflow() {
    for (gone, step) in GONE.into_iter().flat_map(|gone| STEPS.map(|step| (gone, step))) {
        let case = format!("{gone} gone, then {step}");
        let sound = Descriptor { flags: 0, region: 0, length: 60, offset: 8192 };
        let mut into = [0; 256];
        let mut scene = Scene::new();
        let mut queue = scene.begin();
        let theirs = scene.ring(0);
        (0..16).for_each(|index| theirs.set_descriptor(index, sound));
        for number in 0..gone {
            theirs.set_head((number + 1) as u16);
            let mut filled = queue.receiver.filled();
            assert_eq!(queue.receiver.packet(&mut filled, &mut into), Ok(60));
            queue.receiver.release();
        }
        theirs.set_head((gone as u16).wrapping_add(step as u16));
        let mut filled = queue.receiver.filled();
        let expected = u16::try_from(step).ok().filter(|filled| *filled <= 16);
        assert_eq!(filled, expected.unwrap_or(0), "{case}");
        assert_eq!(scene.is_broken(), expected.is_none(), "{case}");
        theirs.set_head(gone as u16);
        let got = (0..32).filter(|_| queue.receiver.packet(&mut filled, &mut into).is_ok()).count();
        assert_eq!((got, filled), (usize::from(expected.unwrap_or(0)), 0), "{case}");

        let mut joined = Joined::new();
        for number in 0..gone {
            let at = number as u16;
            let ours = joined.to_client.descriptor(at);
            joined.to_client.set_descriptor(at, Descriptor { length: 60, ..ours });
            joined.to_client.set_tail(at.wrapping_add(1));
            let mut filled = joined.queue.receiver.filled();
            assert_eq!(joined.queue.receiver.packet(&mut filled, &mut into), Ok(60));
            joined.queue.receiver.release();
        }
        joined.to_client.set_tail((gone as u16).wrapping_add(step as u16));
        assert_eq!(joined.queue.receiver.filled(), expected.unwrap_or(0), "{case}");
        assert_eq!(joined.link.advance().is_err(), expected.is_none(), "{case}");
        let count = |fault| joined.faults.read().find(|(f, _)| *f == fault).unwrap().1;
        assert_eq!(count(Fault::RingIndex), u64::from(expected.is_none()), "{case}");
    }
}

/// A peer whose memory has holes wherever it can: what becomes of them is bounded.
#[test]
fn holes_become_no_more_memory_than_the_bound() {
    let mut scene = Scene::new();
    let file = scene.file.try_clone().unwrap();
    scene.send(Message::Init(INIT), None).ok().unwrap();
    scene.send(Message::AddRegion { index: 0, size: LEN as u64 }, Some(&file)).ok().unwrap();
    // Sparse regions, of which the whole is more than is taken.
    let size = MOST / 4;
    let mut files = Vec::new();
    let refused = loop {
        let (_, file) = Region::create(size as usize).unwrap();
        let message = Message::AddRegion { index: files.len() as u16 + 1, size };
        match scene.send(message, Some(&file)) {
            Ok(_) => files.push(file),
            Err(error) => break error,
        }
        assert!(files.len() < 64, "each is taken");
    };
    assert!(refused.contains("1114112 bytes in all; 1048576 at most"), "{refused}");
    assert_eq!(files.len(), 3);
    // Each page of what was taken is touched by a descriptor into it.
    for (flags, offset) in [(TO_SERVER, 0), (0, TO_CLIENT)] {
        let message = Message::AddRing(ring(flags, offset));
        scene.send(message, Some(&interrupt())).ok().unwrap();
    }
    let queues = scene.send(Message::Connect { name: Name::new("x") }, None);
    let mut queue = queues.ok().unwrap().unwrap().remove(0);
    let theirs = scene.ring(0);
    let pages = (1..=3).flat_map(|region| (0..size).step_by(4096).map(move |at| (region, at)));
    for (number, (region, at)) in (0_u16..).zip(pages) {
        let into_a_hole = Descriptor { flags: 0, region, length: 60, offset: at as u32 };
        theirs.set_descriptor(number, into_a_hole);
        theirs.set_head(number + 1);
        let mut filled = queue.receiver.filled();
        assert_eq!(queue.receiver.packet(&mut filled, &mut [0; 1500]), Ok(60));
        queue.receiver.release();
    }
    let bytes = |file: &OwnedFd| fstat(file).unwrap().st_blocks as u64 * 512;
    assert_eq!(files.iter().map(bytes).sum::<u64>(), 3 * size, "all holes are filled");
    assert!(3 * size + LEN as u64 <= MOST);
}

#[test]
fn a_bad_buffer_to_write_to_ends_the_connection() {
    let sound = Descriptor { flags: 0, region: 0, length: 2048, offset: 8192 };
    for bad in [
        Descriptor { region: 1, ..sound },
        Descriptor { offset: LEN as u32 - 2047, ..sound },
        Descriptor { length: 0, ..sound },
        Descriptor { length: u32::MAX, ..sound },
    ] {
        let mut scene = Scene::new();
        let mut queue = scene.begin();
        let theirs = scene.ring(TO_CLIENT);
        theirs.set_descriptor(0, sound);
        theirs.set_descriptor(1, bad);
        theirs.set_head(2);
        let mut room = queue.transmitter.room();
        assert!(queue.transmitter.packet(&mut room, &[1; 60]));
        assert!(!queue.transmitter.packet(&mut room, &[1; 60]), "{bad:?}");
        queue.transmitter.publish();
        assert_eq!(theirs.tail(), 1);
        assert_eq!(theirs.descriptor(0), Descriptor { length: 60, ..sound });
        assert!(scene.is_broken() && scene.count(Fault::Buffer) == 1);
    }
}

#[test]
fn an_eventfd_that_is_full_stops_nobody() {
    let mut scene = Scene::new();
    let bell = interrupt();
    let full = bell.try_clone().unwrap();
    scene.send(Message::Init(INIT), None).ok().unwrap();
    let file = scene.file.try_clone().unwrap();
    scene.send(Message::AddRegion { index: 0, size: LEN as u64 }, Some(&file)).ok().unwrap();
    for (flags, offset) in [(TO_SERVER, 0), (0, TO_CLIENT)] {
        scene.send(Message::AddRing(ring(flags, offset)), Some(&bell)).ok().unwrap();
    }
    let queues = scene.send(Message::Connect { name: Name::new("x") }, None);
    let mut queue = queues.ok().unwrap().unwrap().remove(0);
    rustix::io::write(&full, &(u64::MAX - 1).to_ne_bytes()).unwrap();
    let theirs = scene.ring(TO_CLIENT);
    theirs.set_descriptor(0, Descriptor { flags: 0, region: 0, length: 2048, offset: 8192 });
    theirs.set_head(1);
    let mut room = queue.transmitter.room();
    assert!(queue.transmitter.packet(&mut room, &[1; 60]));
    queue.transmitter.publish();
    assert_eq!(theirs.tail(), 1, "and we are here");
}

#[test]
fn a_server_that_lies_to_our_client() {
    let Joined { mut link, mut queue, to_server, to_client, _channel, .. } = Joined::new();
    // Its own idea of where a packet lies is not asked for; one of the length is checked.
    assert_eq!(to_client.head(), 16, "all buffers are the server's");
    let sound = to_client.descriptor(0);
    to_client
        .set_descriptor(0, Descriptor { length: 60, region: 9, offset: 0xffff_0000, flags: 0 });
    to_client.set_descriptor(1, Descriptor { length: 257, ..sound });
    to_client.set_tail(2);
    let mut into = [0; 1500];
    let mut filled = queue.receiver.filled();
    assert_eq!(queue.receiver.packet(&mut filled, &mut into), Ok(60));
    assert_eq!(queue.receiver.packet(&mut filled, &mut into), Err(Fault::Buffer));
    queue.receiver.release();
    assert_eq!((to_client.head(), to_client.descriptor(16)), (18, sound), "as it was");
    assert!(link.advance().is_ok());
    to_client.set_tail(19);
    assert_eq!(queue.receiver.filled(), 0);
    assert!(matches!(link.advance(), Err(LinkError::Broken)));
    to_server.set_tail(1);
    assert_eq!(queue.transmitter.room(), 0, "nothing was sent yet");
}

#[test]
fn a_client_that_dies_in_the_middle_is_noticed_wherever_that_is() {
    for said in 0..5 {
        let mut scene = Scene::new();
        let file = scene.file.try_clone().unwrap();
        let bell = interrupt();
        let rings = [ring(TO_SERVER, 0), ring(0, TO_CLIENT)].map(Message::AddRing);
        let all = [
            (Message::Init(INIT), None),
            (Message::AddRegion { index: 0, size: LEN as u64 }, Some(&file)),
            (rings[0], Some(&bell)),
            (rings[1], Some(&bell)),
            (Message::Connect { name: Name::new("x") }, None),
        ];
        for (message, fd) in all.into_iter().take(said) {
            scene.send(message, fd).ok().unwrap();
        }
        let Scene { mut link, channel, faults, .. } = scene;
        drop(channel);
        let error = link.advance().err().map(|error| error.to_string());
        assert_eq!(error.as_deref(), Some("the peer has gone"), "after {said} messages");
        assert_eq!(faults.sum(), 0, "that is no fault");
    }
}

/// It has given its buffers once. What comes then finds no room, is no fault of anybody's, and costs one look; what it
/// sends still comes.
#[test]
fn a_client_that_never_reads_stops_nobody() {
    let mut scene = Scene::new();
    let mut queue = scene.begin();
    let theirs = scene.ring(TO_CLIENT);
    for n in 0..16 {
        let offset = 8192 + u32::from(n) * 256;
        theirs.set_descriptor(n, Descriptor { flags: 0, region: 0, length: 256, offset });
    }
    theirs.set_head(16);
    let mut sent = 0;
    for _ in 0..1000 {
        let mut room = queue.transmitter.room();
        sent += u32::from(queue.transmitter.packet(&mut room, &[1; 60]));
        queue.transmitter.publish();
    }
    assert_eq!((sent, queue.transmitter.room(), theirs.tail()), (16, 0, 16));
    let ours = scene.ring(0);
    ours.set_descriptor(0, Descriptor { flags: 0, region: 0, length: 60, offset: 4096 });
    ours.set_head(1);
    let (mut filled, mut into) = (queue.receiver.filled(), [0; 100]);
    assert_eq!(queue.receiver.packet(&mut filled, &mut into), Ok(60));
    assert!(!scene.is_broken() && scene.faults.sum() == 0);
}
