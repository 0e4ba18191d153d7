//! Packet ports and the memory they share.
//!
//! | module | what it is |
//! | --- | --- |
//! | [`umem`] | one memory region of fixed chunks; [`Frame`] owns one chunk, [`FramePool`] keeps a worker's free ones; [`Packet`] is a frame and where the packet lies in it, [`Burst`] up to 64 of them |
//! | [`counters`] | [`PortCounters`]: written by a port's worker, read by any thread |
//! | [`port`] | [`Port`]: what a worker receives from and transmits to, and its errors |
//! | [`xsk`] | AF_XDP queues on system calls alone: shared UMEM, need-wakeup, zero copy where the driver has it |
//! | [`packet`] | packet sockets: an interface's super-packets, for drivers without zero copy |
//! | [`tun`] | the private TUN interface, with segmentation on read and coalescing on write |
//! | [`udp`] | UDP sockets that ESP in UDP comes by, where there is no interface to take over |
//! | [`memory`] | a port made of two queues, for tests and benches |
//! | [`pcap`] | captures as pcap files |
//!
//! # Frames are conserved
//!
//! Every chunk of a region is in exactly one place: the region's depot, a worker's pool, a packet, a ring
//! that the kernel reads or writes, or quarantine (see [`xsk`]). [`umem::Accounting`] adds the places up.
//! A frame that is merely dropped is not lost: it returns to the depot, and a pool picks it up
//! when it runs dry. [`FramePool::put`] is the cheap way.
//!
//! # Threads
//!
//! All workers share one region. Each worker owns its pool and its ports, which are `Send`; packets may go
//! from worker to worker, and be freed by any. Nothing on a packet's way locks, waits or allocates.

#![deny(unsafe_code)]

pub mod checksum;
pub mod counters;
pub mod memory;
mod messages;
pub mod packet;
pub mod pcap;
pub mod port;
pub mod tun;
pub mod udp;
pub mod umem;
pub mod xsk;

pub use counters::{PortCounters, PortStats};
pub use memory::{MemoryHandle, MemoryPort};
pub use packet::{Fanout, PacketConfig, PacketError, PacketSocket};
pub use port::{Port, PortError};
pub use tun::{QueueChoice, Tun, TunConfig, TunError};
pub use udp::EspSocket;

pub use umem::{
    Accounting, BURST_LEN, Burst, ChunkSize, Frame, FramePool, HEADROOM, MAX_HEADROOM,
    MIN_HEADROOM, POOL_LEN, Packet, Pages, Parcel, Umem, UmemConfig, UmemError,
};
pub use xsk::{
    MIN_READY, TooFewFrames, XskConfig, XskError, XskMode, XskQueue, XskRegion, XskTransfer,
};
