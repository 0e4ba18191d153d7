//! The XDP program that picks the frames which the fast path takes, and its loader.
//!
//! The program (`bpf/steer.bpf.c`) looks at each frame once. ESP for known SAs and packets for
//! protected prefixes go to the AF_XDP socket of their queue; everything else, and everything
//! while no socket stands there, passes to Linux.
//!
//! | module | what it is |
//! | --- | --- |
//! | [`loader`] | [`Steer`]: the program on one interface, and its tables |
//! | [`back`] | [`GiveBack`]: the program on the private interface, by which packets go back to theirs |
//! | [`config`] | how to load and attach; prefixes and ports |
//! | [`verdict`] | what the program decides, and how often it did |
//! | [`device`] | facts about an interface, and what stands in the way of AF_XDP on it |
//!
//! # If the process dies
//!
//! The program is attached by a link that the kernel removes with the process's last descriptor,
//! and the sockets go with the process too: frames pass to the kernel then. What keeps cleartext
//! back in that case is a guard in the kernel, not this crate.
//!
//! # Limits
//!
//! At most two VLAN tags are looked past; frames with more, and PPPoE or MPLS, pass to Linux. A tag
//! that a network card has taken out of the frame is not seen ([`device`] warns). Frames whose
//! destination MAC address is not the interface's are judged like all others.

#![deny(unsafe_code)]

pub mod back;
pub mod config;
pub mod device;
mod error;
pub mod loader;
mod table;
pub mod verdict;

pub use back::GiveBack;
pub use config::{Attached, Mode, Prefix, Sizes, SteerConfig, UdpPorts};
pub use error::SteerError;
pub use loader::{Loader, Steer};
pub use verdict::{Stats, Verdict};

/// The compiled program. Aligned, because the ELF parser reads it in place.
#[repr(C, align(8))]
struct Aligned<Bytes: ?Sized>(Bytes);

static OBJECT: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/steer.bpf.o")));

static BACK_OBJECT: &Aligned<[u8]> =
    &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/back.bpf.o")));
