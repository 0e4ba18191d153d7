//! The XDP program that steers frames to AF_XDP sockets or to Linux, and its loader.
//!
//! The program (`bpf/steer.bpf.c`, the table at its top is the whole rule) looks at each frame
//! once. ESP to this host and packets to protected prefixes are redirected to the AF_XDP socket of
//! their queue. Everything else passes to Linux, and so do all frames of a queue without a socket.
//!
//! ```text
//!    frame ──> steer.bpf.c ──┬─ TAKE_* ──> AF_XDP socket of the queue ──> worker
//!              (native XDP)  └─ PASS_* ──> Linux
//!                                            ^
//!    worker ──> private interface ──> back.bpf.c: cleartext for Linux, to its ingress port
//! ```
//!
//! Where the driver takes VLAN tags out of frames and tells them to programs, a variant of it (`bpf/tags.bpf.c`) puts
//! them back into what is taken ([`StrippedTags`]).
//!
//! A port of packet sockets has the same rule ([`Hook::Packet`], `bpf/packet.bpf.c`): as the sockets' filter, and at
//! tc ingress, where what they got ends.
//!
//! | module | what it is |
//! | --- | --- |
//! | [`loader`] | [`Steer`]: the program on one interface, and its tables |
//! | [`back`] | [`GiveBack`]: the program on the private interface, by which packets go back to theirs |
//! | [`marks`] | [`SendMarks`]: the program on the private interface that tells the marks of packets |
//! | [`detour`] | [`Detour`]: the program on the private interface that leads packets past a daemon that hangs |
//! | [`sender`] | [`SenderCpu`]: the program by which the private interface chooses a queue by the sender's CPU |
//! | [`config`] | how to load and attach; prefixes and ports |
//! | [`tags`] | the program that puts back VLAN tags that a driver takes out of frames |
//! | [`verdict`] | what the program decides, and how often it did |
//! | [`device`] | facts about an interface, and what stands in the way of AF_XDP on it |
//!
//! # Example
//!
//! ```
//! use std::os::fd::BorrowedFd;
//! use steer::{Prefix, Steer, SteerConfig, SteerError, Verdict};
//!
//! let protected = Prefix::new([10, 2, 3, 4].into(), 16).expect("16 bits are within the address");
//! assert_eq!(protected.to_string(), "10.2.0.0/16");
//! assert!(Verdict::TakeTransit.is_taken());
//!
//! /// Needs CAP_NET_ADMIN and CAP_BPF. When `Steer` is dropped, frames pass to Linux.
//! fn take(interface: &str, socket: BorrowedFd<'_>, to: Prefix) -> Result<Steer, SteerError> {
//!     // The tables first: nothing is taken before the queue has a socket.
//!     let (mut steer, attached) = Steer::load_and_attach(interface, &SteerConfig::default())?;
//!     steer.add_protected(to)?;
//!     steer.set_socket(0, socket)?;
//!     println!("{interface}: {attached}");
//!     Ok(steer)
//! }
//! ```
//!
//! # Threads
//!
//! [`Steer`], [`GiveBack`], [`SendMarks`], [`Detour`] and [`SenderCpu`] are the control thread's. Loading takes as long as the verifier does
//! and may be done on threads of its own ([`Loader`]). Tables take effect frame by frame, at once;
//! there is no change of several entries that frames see as one.
//!
//! # If the process dies
//!
//! The program is attached by a link that the kernel removes with the process's last descriptor,
//! and the sockets go with the process too: frames pass to the kernel then. Cleartext is then kept
//! from leaving by the kernel policies of the crate `guard`.
//!
//! A process that hangs keeps both. Where the kernel has the SAs too and can carry on, a watchdog
//! ([`Steer::set_watchdog`]) has frames pass from the moment on at which the daemon has not said for too long
//! that it is alive ([`Steer::beat`]). What Linux sends to the private interface it gets back then ([`Detour`]).
//!
//! # Not handled
//!
//! At most two VLAN tags are parsed; frames with more, and PPPoE or MPLS, pass to Linux. A tag that
//! the NIC has stripped and does not tell ([`StrippedTags::Lost`]) is not seen: such a frame is taken for the port's own. A unicast frame's destination MAC address
//! is not compared with the interface's.

#![deny(unsafe_code)]

mod again;
mod attach;
pub mod back;
mod classifier;
pub mod config;
pub mod detour;
pub mod device;
mod error;
pub mod loader;
mod maps;
pub mod marks;
mod packet;
pub mod sender;
mod table;
pub mod tags;
pub mod verdict;

pub use back::GiveBack;
pub use config::{Attached, Flow, Hook, Mode, Prefix, Sizes, SteerConfig, UdpPorts};
pub use detour::Detour;
pub use error::SteerError;
pub use loader::{Loader, Steer};
pub use marks::SendMarks;
pub use sender::SenderCpu;
pub use tags::StrippedTags;
pub use verdict::{Stats, Verdict};

/// The compiled program. Aligned, because the ELF parser reads it in place.
#[repr(C, align(8))]
struct Aligned<Bytes: ?Sized>(Bytes);

static OBJECT: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/steer.bpf.o")));

static TAGS_OBJECT: &Aligned<[u8]> =
    &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/tags.bpf.o")));

static PACKET_OBJECT: &Aligned<[u8]> =
    &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/packet.bpf.o")));

static BACK_OBJECT: &Aligned<[u8]> =
    &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/back.bpf.o")));

static MARKS_OBJECT: &Aligned<[u8]> =
    &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/marks.bpf.o")));

static DETOUR_OBJECT: &Aligned<[u8]> =
    &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/detour.bpf.o")));

static SENDER_OBJECT: &Aligned<[u8]> =
    &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/sender.bpf.o")));
