//! The private interface: packets between the worker and Linux's own stack.
//!
//! A TUN device with vnet headers both ways. What Linux sends may be a super-packet of up to
//! 64 KiB, which [`segment`] cuts into frames; consecutive TCP segments for Linux are joined by
//! [`coalesce`] and written as one. Partial checksums are completed on the way in.
//!
//! Packets here are IP packets without a link header, but for those that [`back`] gives back to the
//! interface that they came in by: these have their Ethernet header, and a tag in front of it. What Linux
//! sends with a mark comes with it in front, see [`mark`].
//!
//! A read or written record begins with `struct tun_pi` (4 bytes: flags, EtherType), then comes the
//! vnet header, then the packet.
//!
//! The interface is not persistent: it disappears when its last descriptor is closed, by drop or
//! by the death of the process.
//!
//! # Several workers
//!
//! [`Tun::open_queues`] makes an interface of several queues (`IFF_MULTI_QUEUE`), each a port of its own for
//! one worker. Linux puts a packet into the queue on which packets of its flow were written last, else
//! into one by the flow's hash: all packets of a flow in one direction come by one queue, as long as one worker
//! writes those of the other direction. A queue that is dropped gives its flows to the others. A program may
//! choose in Linux's place ([`QueueChoice`]).
//!
//! Each opening makes a new interface, or fails. One of the same name that is there already, of whichever
//! number of queues, belongs to a daemon that runs or was set up by hand (`ip tuntap add`): then the error says
//! so, and nothing of it is changed.

mod around;
pub mod back;
mod checks;
mod choice;
pub mod coalesce;
mod inside;
mod ioctl;
pub(crate) mod layout;
pub mod mark;
pub mod segment;
mod tap;
pub mod vnet;

use std::fs::File;
use std::io::{self, IoSlice, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use arrayvec::ArrayVec;
use wire::Span;
use wire::ethernet::EtherType;

use crate::counters::PortCounters;
use crate::port::{Port, PortError};
use crate::umem::{BURST_LEN, Burst, FramePool, MAX_HEADROOM, Packet};
use around::Ends;
pub use choice::QueueChoice;
use coalesce::{Joined, Plan, Run};
use segment::{Limits, Segmenter};
pub use tap::{Tap, TapConfig};
use vnet::VNET_LONG_HEADER_LEN;
pub use vnet::{VNET_HEADER_LEN, VnetHeader};

/// Name and MTU of the interface to be made.
#[derive(Clone, Debug)]
pub struct TunConfig {
    /// Name of the interface, 1 to 15 bytes.
    pub name: String,
    /// MTU in bytes, 68 to 65535. Segments are never longer.
    pub mtu: u32,
}

/// Super-packets that the kernel hands over whole, beside those of TCP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offloads {
    /// UDP datagrams (Linux 6.2).
    pub udp: bool,
    /// Both kinds inside of a tunnel in UDP, as VXLAN and GENEVE are (Linux 6.17).
    pub udp_tunnels: bool,
}

impl Offloads {
    /// Offers as much as the kernel knows.
    fn negotiate(file: &File) -> io::Result<Self> {
        let tcp = libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6 | libc::TUN_F_TSO_ECN;
        let udp = tcp | libc::TUN_F_USO4 | libc::TUN_F_USO6;
        let all = [
            (udp | TUN_F_UDP_TUNNEL, Self { udp: true, udp_tunnels: true }),
            (udp, Self { udp: true, udp_tunnels: false }),
        ];
        let known = all.into_iter().find(|&(flags, _)| ioctl::set_offloads(file, flags).is_ok());
        match known {
            Some((_, offloads)) => Ok(offloads),
            None => ioctl::set_offloads(file, tcp).map(|()| Self::default()),
        }
    }
}

/// Why the interface could not be made.
#[derive(Debug, thiserror::Error)]
#[error("{name}: {call} failed: {source}; {hint}")]
pub struct TunError {
    /// Name of the interface.
    pub name: String,
    /// The system call, with its request.
    pub call: &'static str,
    /// The kernel's answer.
    pub source: io::Error,
    /// A remedy, for the operator.
    pub hint: &'static str,
}

/// A packet that is being cut.
struct Cutting {
    segmenter: Segmenter,
    /// Length of the super-packet, which lies at the end of the bytes that were read.
    len: usize,
    mark: u32,
}

/// A worker's end of the private interface: its only queue, or one of several.
pub struct Tun {
    name: String,
    file: File,
    ifindex: u32,
    mtu: usize,
    offloads: Offloads,
    /// The headers and the packet that were read last.
    buffer: Box<[u8]>,
    /// How many bytes these are.
    read_len: usize,
    /// The packet in `buffer` is still being cut.
    cutting: Option<Cutting>,
    /// Where Linux's own tunnels end, as far as it has sent by them.
    ends: Ends,
    counters: Arc<PortCounters>,
    joined: u64,
}

impl Tun {
    /// Makes the interface, with one queue and its MTU set, down and without addresses.
    ///
    /// # Errors
    ///
    /// [`TunError`] names the system call and what to do.
    pub fn open(config: &TunConfig) -> Result<Self, TunError> {
        Self::open_queue(config, libc::IFF_TUN_EXCL)
    }

    /// As [`Self::open`], but with `queues` queues, of which each can go to another worker, and with room for more
    /// ([`Self::add_queue`]). With none nothing is made.
    ///
    /// # Errors
    ///
    /// [`TunError`], as for [`Self::open`], and if the kernel does not take so many queues (256). No interface
    /// is left then.
    pub fn open_queues(config: &TunConfig, queues: usize) -> Result<Vec<Self>, TunError> {
        let mut all = Vec::with_capacity(queues);
        for queue in 0..queues {
            // The first makes the interface: then it is ours, and the others join it.
            let new = if queue == 0 { libc::IFF_TUN_EXCL } else { 0 };
            all.push(Self::open_queue(config, libc::IFF_MULTI_QUEUE | new)?);
        }
        Ok(all)
    }

    /// Another queue of the interface `ifindex`, which [`Self::open_queues`] has made. From then on Linux spreads
    /// flows over all queues: packets of a flow may come by the new one while earlier ones still lie in another.
    ///
    /// # Errors
    ///
    /// [`TunError`], also if the interface is gone: none is made in its place.
    pub fn add_queue(config: &TunConfig, ifindex: u32) -> Result<Self, TunError> {
        let queue = Self::open_queue(config, libc::IFF_MULTI_QUEUE)?;
        if queue.ifindex == ifindex {
            return Ok(queue);
        }
        let (name, call) = (config.name.clone(), "TUNSETIFF");
        let source = io::Error::from_raw_os_error(libc::ENODEV);
        let hint = hint(call, &source);
        Err(TunError { name, call, source, hint })
    }

    /// As [`Self::open`], but the interface outlives its descriptor: it keeps its addresses and routes, and
    /// what Linux sends to it meanwhile is dropped. One of that name that an earlier process has left, or
    /// `ip tuntap add` made, is taken if nobody has it open.
    ///
    /// # Errors
    ///
    /// [`TunError`], also if the interface is of another kind or in use.
    pub fn open_lasting(config: &TunConfig) -> Result<Self, TunError> {
        let tun = Self::open_queue(config, 0)?;
        ioctl::set_persistent(&tun.file, true).map_err(|source| {
            let (name, call) = (config.name.clone(), "TUNSETPERSIST");
            TunError { name, call, hint: hint(call, &source), source }
        })?;
        Ok(tun)
    }

    fn open_queue(config: &TunConfig, sharing: libc::c_int) -> Result<Self, TunError> {
        let fail = |call: &'static str| {
            let name = config.name.clone();
            move |source: io::Error| {
                let hint = hint(call, &source);
                TunError { name, call, source, hint }
            }
        };
        let invalid = || io::Error::from_raw_os_error(libc::EINVAL);
        if config.name.is_empty() || config.name.len() >= libc::IF_NAMESIZE {
            return Err(fail("TUNSETIFF")(invalid()));
        }
        let file = ioctl::open().map_err(fail("open(/dev/net/tun)"))?;
        let flags = libc::IFF_TUN | libc::IFF_VNET_HDR | sharing;
        ioctl::set_interface(&file, &config.name, flags).map_err(fail("TUNSETIFF"))?;
        // Longer than an older kernel needs, which leaves the rest as it is.
        ioctl::set_vnet_header_len(&file, VNET_LONG_HEADER_LEN as i32)
            .map_err(fail("TUNSETVNETHDRSZ"))?;
        let offloads = Offloads::negotiate(&file).map_err(fail("TUNSETOFFLOAD"))?;
        ioctl::set_mtu(&config.name, config.mtu).map_err(fail("SIOCSIFMTU"))?;
        let ifindex = ioctl::ifindex(&config.name).map_err(fail("SIOCGIFINDEX"))?;
        Ok(Self {
            name: config.name.clone(),
            file,
            ifindex,
            mtu: config.mtu as usize,
            offloads,
            buffer: vec![0; BUFFER_LEN].into_boxed_slice(),
            read_len: 0,
            cutting: None,
            ends: Ends::default(),
            counters: PortCounters::new(),
            joined: 0,
        })
    }

    /// Sets the interface up. Until then what is transmitted to it is refused.
    ///
    /// # Errors
    ///
    /// [`TunError`] when the kernel refuses.
    pub fn bring_up(&self) -> Result<(), TunError> {
        ioctl::set_up(&self.name).map_err(|source| {
            let (name, call) = (self.name.clone(), "SIOCSIFFLAGS");
            TunError { name, call, hint: hint(call, &source), source }
        })
    }

    /// The program that chooses the queue of a packet from Linux, for all queues of the interface.
    ///
    /// # Errors
    ///
    /// There is no descriptor left.
    pub fn choice(&self) -> io::Result<QueueChoice> {
        QueueChoice::of(&self.file)
    }

    /// The interface's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The interface's number.
    pub const fn ifindex(&self) -> u32 {
        self.ifindex
    }

    /// Super-packets that the kernel hands over.
    pub const fn offloads(&self) -> Offloads {
        self.offloads
    }

    /// Packets that were written as part of a super-packet so far.
    pub const fn joined(&self) -> u64 {
        self.joined
    }

    /// Reads one packet; `false` when there is none.
    fn read(&mut self, room: usize) -> Result<bool, PortError> {
        let len = loop {
            match self.file.read(&mut self.buffer) {
                Ok(len) => break len,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(PortError::new(&self.name, "read", error)),
            }
        };
        let limits = Limits { segment: self.mtu.min(room), frame: room };
        let read = self.buffer.get_mut(PI_LEN..len).unwrap_or(&mut []);
        self.cutting =
            read.split_first_chunk_mut::<VNET_LONG_HEADER_LEN>().and_then(|(header, rest)| {
                let before = rest.len();
                let (mark, packet) = mark::split(rest);
                // The kernel counts from what is in front of the packet.
                let prefix = (before - packet.len()) as u16;
                let vnet = VnetHeader::parse_long(header).without_prefix(prefix);
                if self.offloads.udp_tunnels && vnet.needs_csum {
                    self.ends.learn(packet, vnet.csum_start.into());
                }
                let segmenter = Segmenter::new(&vnet, packet, limits).ok()?;
                Some(Cutting { segmenter, len: packet.len(), mark })
            });
        self.read_len = len;
        if self.cutting.is_none() {
            self.counters.refused_rx(1);
        }
        Ok(true)
    }

    /// Writes the next segment of the packet being cut from `start` on, behind its mark if it has one;
    /// none when there is none (left).
    fn cut(&mut self, buffer: &mut [u8], start: usize) -> Option<Span> {
        let Cutting { segmenter, len, mark } = self.cutting.as_mut()?;
        let packet = self.buffer.get(self.read_len - *len..self.read_len).unwrap_or(&[]);
        let made = segmenter.next(packet, buffer.get_mut(start..).unwrap_or(&mut [])).unwrap_or(0);
        let begin = match *mark {
            0 => Some(start),
            mark => mark::put(buffer, start, mark),
        };
        if made == 0 || segmenter.is_done() {
            self.cutting = None;
        }
        begin.filter(|_| made > 0).map(|begin| Span { start: begin, len: start + made - begin })
    }
}

impl Port for Tun {
    // 1. Take a frame, so that nothing is read that has no place to go.
    // 2. Go on with the packet being cut, or read the next.
    // 3. Cut one segment into the frame.
    fn rx(&mut self, pool: &mut FramePool, out: &mut Burst) -> Result<usize, PortError> {
        let before = out.len();
        while !out.is_full() {
            let Some(mut frame) = pool.take() else { break };
            if self.cutting.is_none() {
                let room = frame.bytes().len().saturating_sub(MAX_HEADROOM);
                match self.read(room) {
                    Ok(true) => {}
                    Ok(false) => {
                        pool.put(frame);
                        break;
                    }
                    Err(error) => {
                        pool.put(frame);
                        return Err(error);
                    }
                }
            }
            let start = frame.headroom();
            let Some(span) = self.cut(frame.bytes_mut(), start) else {
                pool.put(frame);
                continue;
            };
            // Each cut has cost a copy already, and most of them a system call.
            self.counters.received(1, (span.start + span.len - start) as u64);
            out.push(Packet { frame, span });
        }
        Ok(out.len() - before)
    }

    // 1. Group the burst into runs.
    // 2. Write each; stop where the kernel has no room.
    // 3. Recycle what was written, keep the rest in order.
    fn tx(&mut self, burst: &mut Burst, pool: &mut FramePool) -> Result<usize, PortError> {
        let mut gone: u64 = 0;
        let mut refuses_tunnels = false;
        let mut result = Ok(());
        let ends = self.offloads.udp_tunnels.then_some(&self.ends);
        let mut plan =
            Plan::with_tunnels(burst.iter().map(|p| back::split(p.data())), Joined::Tcp, ends);
        while let Some(run) = plan.next_run() {
            let bytes: usize = run.members.iter().map(|&at| plan.packet(at).len()).sum();
            let count = run.members.len() as u64;
            match write_run(&self.file, &plan, &run) {
                Ok(()) => {
                    self.counters.sent(count, bytes as u64);
                    self.joined += if count > 1 { count } else { 0 };
                }
                Err(error) => match error.raw_os_error() {
                    Some(libc::EAGAIN | libc::ENOBUFS | libc::ENOMEM) => break,
                    // The segments go one by one, by the next call and from then on.
                    Some(libc::EINVAL) if run.is_in_tunnel(&plan) => {
                        refuses_tunnels = true;
                        break;
                    }
                    // Not an IP packet, or the interface is down: it will never be taken.
                    Some(libc::EINVAL | libc::EIO | libc::EMSGSIZE) => {
                        self.counters.refused_tx(count);
                    }
                    _ => {
                        result = Err(PortError::new(&self.name, "write", error));
                        break;
                    }
                },
            }
            for &member in &run.members {
                gone |= 1 << member;
            }
        }
        drop(plan);
        if refuses_tunnels {
            tracing::warn!(
                port = self.name,
                "Linux takes no super-packets in tunnels: each segment goes by itself"
            );
            self.offloads.udp_tunnels = false;
        }
        let sent = pool.put_gone(burst, gone);
        result.map(|()| sent)
    }

    fn reclaim(&mut self, _pool: &mut FramePool) -> Result<(), PortError> {
        Ok(())
    }

    /// By the descriptor, not by name: an interface that was moved to another network namespace works on.
    fn check(&mut self) -> Result<(), PortError> {
        ioctl::attached(&self.file)
            .map_err(|source| PortError::new(&self.name, "TUNGETIFF", source))
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.file.as_fd())
    }

    fn frames_held(&self) -> usize {
        0
    }

    fn counters(&self) -> Arc<PortCounters> {
        Arc::clone(&self.counters)
    }
}

/// Removes an interface of [`Tun::open_lasting`] that nobody has open any more.
///
/// # Errors
///
/// [`TunError`] names the system call.
pub fn remove(name: &str) -> Result<(), TunError> {
    let fail = |call: &'static str| {
        let name = name.to_owned();
        move |source: io::Error| TunError { name, call, hint: hint(call, &source), source }
    };
    let file = ioctl::open().map_err(fail("open(/dev/net/tun)"))?;
    let flags = libc::IFF_TUN | libc::IFF_VNET_HDR;
    ioctl::set_interface(&file, name, flags).map_err(fail("TUNSETIFF"))?;
    ioctl::set_persistent(&file, false).map_err(fail("TUNSETPERSIST"))
}

/// Writes the packets of a run as one.
fn write_run(mut file: &File, plan: &Plan<'_>, run: &Run) -> io::Result<()> {
    let joined = plan.super_header(run);
    let (mut vnet, header, payload_at) = match &joined {
        Some((vnet, header, payload_at)) => (*vnet, header.as_slice(), *payload_at),
        None => (VnetHeader::PLAIN, [].as_slice(), 0),
    };
    let first = run.members.first().copied().unwrap_or_default();
    let is_v4 = plan.packet(first).first().is_some_and(|byte| byte >> 4 == 4);
    let (ether_type, link) = match plan.prefix(first) {
        [] if vnet.tunnel.is_some() && is_v4 => (TAGGED, TAGS_V4.as_slice()),
        [] if vnet.tunnel.is_some() => (TAGGED, TAGS_V6.as_slice()),
        [high, low, link @ ..] => ([*high, *low], link),
        _ => match ether_type(plan.packet(first)) {
            Some(ether_type) => (ether_type, [].as_slice()),
            // The kernel does not look, when it is told an EtherType.
            None => return Err(io::Error::from_raw_os_error(libc::EINVAL)),
        },
    };
    if vnet.needs_csum {
        // The kernel counts from what follows its header.
        vnet = vnet.with_prefix(link.len() as u16);
    }
    let vnet = vnet.emit_long();
    let [high, low] = ether_type;
    let pi = [0, 0, high, low];
    let mut parts: ArrayVec<IoSlice<'_>, { BURST_LEN + 4 }> = ArrayVec::new();
    for part in [&pi, vnet.as_slice(), link, header] {
        if !part.is_empty() {
            parts.push(IoSlice::new(part));
        }
    }
    for &member in &run.members {
        parts.push(IoSlice::new(plan.packet(member).get(payload_at..).unwrap_or(&[])));
    }
    loop {
        match file.write_vectored(&parts) {
            Ok(_) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// The EtherType by the version field; none of what is not IP.
fn ether_type(packet: &[u8]) -> Option<[u8; 2]> {
    let ether_type = match packet.first()? >> 4 {
        4 => EtherType::IPV4,
        6 => EtherType::IPV6,
        _ => return None,
    };
    Some(ether_type.0.to_be_bytes())
}

impl core::fmt::Debug for Tun {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Tun({})", self.name)
    }
}

fn hint(call: &str, source: &io::Error) -> &'static str {
    match (call, source.raw_os_error()) {
        (_, Some(libc::EPERM | libc::EACCES)) => "run as root or with CAP_NET_ADMIN",
        ("open(/dev/net/tun)", Some(libc::ENOENT | libc::ENODEV | libc::ENXIO)) => {
            "load the kernel's tun module (CONFIG_TUN), and make /dev/net/tun visible here"
        }
        ("TUNSETIFF", Some(libc::EBUSY)) => {
            "an interface of this name exists: is another culvert running here?"
        }
        ("TUNSETIFF", Some(libc::EINVAL)) => {
            "a name has 1 to 15 bytes, and an interface of another type must not have it"
        }
        ("TUNSETIFF", Some(libc::ENODEV)) => "somebody deleted the interface",
        ("TUNSETIFF", Some(libc::E2BIG)) => "use fewer queues: the kernel takes 256",
        ("SIOCSIFMTU", Some(libc::EINVAL)) => "the MTU must be 68 to 65535 bytes",
        _ => "see the kernel's log",
    }
}

// A queue may go to any worker's thread.
const _: () = {
    const fn is_send<T: Send>() {}
    is_send::<Tun>();
};

/// `TUN_F_UDP_TUNNEL_GSO` and `TUN_F_UDP_TUNNEL_GSO_CSUM`, which libc does not have yet.
const TUN_F_UDP_TUNNEL: core::ffi::c_uint = 0x80 | 0x100;

/// EtherType of a packet with [`TAGS_V4`] or [`TAGS_V6`] in front.
const TAGGED: [u8; 2] = [0x81, 0x00];

/// Priority tags, which Linux takes off and does not look at (VLAN 0, IEEE 802.1Q). It takes a super-packet in a tunnel
/// only where the outer IP header has room for an Ethernet header in front, though a TUN device has none.
const TAGS_V4: [u8; 16] = [0, 0, 0x81, 0, 0, 0, 0x81, 0, 0, 0, 0x81, 0, 0, 0, 0x08, 0];
const TAGS_V6: [u8; 16] = [0, 0, 0x81, 0, 0, 0, 0x81, 0, 0, 0, 0x81, 0, 0, 0, 0x86, 0xdd];

/// Length of `struct tun_pi`.
const PI_LEN: usize = 4;

/// All headers and the longest packet.
const BUFFER_LEN: usize = PI_LEN + VNET_LONG_HEADER_LEN + mark::PREFIX_LEN + 65536;
