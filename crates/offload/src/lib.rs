//! A device that does IPsec for the data path: a NIC, an accelerator, a gateway in hardware.
//!
//! The interface follows Linux's (`Documentation/networking/xfrm_device.rst`): SAs and policies are put into
//! the device and removed again, packets go through it, and it reports what happens to an SA. It
//! differs in that packets are submitted and polled for, as with DPDK's cryptodevs, because a worker
//! in user space has no driver's transmit function to hang the work on.
//!
//! # Placement
//!
//! | [`Placement`] | Linux's word | the device does | the software does |
//! | --- | --- | --- | --- |
//! | [`Cpu`](Placement::Cpu) | none | nothing | everything |
//! | [`Crypto`](Placement::Crypto) | crypto offload | the cipher and the ICV of one ESP packet | policy, headers, padding, numbers, replay window, lifetimes |
//! | [`Packet`](Placement::Packet) | packet offload | all of that, by SAs and policies of its own | routing; lifetimes by time; IKE |
//!
//! A device has one placement, and an SA lives in one place at a time.
//!
//! # Callbacks
//!
//! | call | by | when |
//! | --- | --- | --- |
//! | [`Device::capabilities`] | control | before an SA is put in; [`Capabilities::check_sa`] needs no device |
//! | [`Device::put_sa`] | control | an IKE daemon adds an SA, or an SA moves here from another place |
//! | [`Device::put_policy`] | control | behind the SA that it names, packet offload only |
//! | [`Device::switch_policy`] | control | rekeying: the policy's packets go through the successor |
//! | [`Device::remove_policy`], [`Device::remove_sa`] | control | deletion, in this order |
//! | [`Device::live`] | control | an answer about an SA (`XFRM_MSG_GETSA`, `GETAE`), once a second at most |
//! | [`Device::reset`], [`Device::counters`], [`Device::tables`] | control | an operator asks |
//! | [`Device::event`] | control | whenever it wakes, until there is none |
//! | [`Device::queue`] | control | once for each worker, which it is handed to |
//! | [`Capabilities::offload_ok`] | the worker | for an SA's outer header, and the length of each packet, crypto offload |
//! | [`Queue::submit`], [`Queue::poll`] | the worker | every round |
//!
//! `docs/internals/offload.md` has Linux's name for each of them.
//!
//! # Flow per event
//!
//! An SA comes: the control thread asks [`Capabilities::check_sa`]; a device that lacks an attribute is passed
//! over, and the SA stays on the CPU. Else `put_sa` with the numbers to start from, then `put_policy`
//! or `switch_policy`.
//!
//! An outbound packet, packet offload: the worker submits the IP packet with [`Work::Outbound`]; it comes back as
//! ESP with its outer header, in clear where the device's policy says so, or dropped. Inbound
//! likewise with [`Work::Inbound`]; it says which SA opened the packet ([`Status::Opened`]), if it can. Crypto offload: the worker leases a number, writes headers, IV and
//! padding, and submits the ESP packet with [`Work::Seal`]; inbound it checks the replay window before
//! [`Work::Open`] and again behind it.
//!
//! An SA is rekeyed: the new SA is put in; `switch_policy` outbound; the old one is removed when the IKE
//! daemon deletes it. Inbound both carry packets meanwhile, under one reqid.
//!
//! An SA leaves the device: `remove_sa` returns its last numbers, and with these it may go on in another place.
//!
//! The device goes: [`Event::Gone`], every buffer comes back as [`Status::Lost`], and every call fails with
//! [`Failure::Gone`]. The numbers that its SAs used are not known then, so none of them may go on anywhere under the
//! same key: that could repeat a nonce. They are to be rekeyed.
//!
//! # Return values
//!
//! | value | whose fault | the caller |
//! | --- | --- | --- |
//! | [`PutError::Unsupported`] | nobody's: the attribute is named | crypto offload: keeps the SA on the CPU; packet offload: refuses it, with the attribute in words (Linux: `-EOPNOTSUPP`) |
//! | [`PutError::Full`] | capacity | crypto offload: keeps the SA on the CPU, and may try again after a removal; packet offload: refuses it (`-ENOSPC`) |
//! | [`PutError::Invalid`] | the caller's | has a mistake (`-EINVAL`, `-EEXIST`) |
//! | [`PutError::Failed`] | the device's | counts it, and stops using the device after [`Failure::Gone`] (`-EIO`, `-ENODEV`) |
//! | [`HandleError::Unknown`], [`HandleError::InUse`] | the caller's | has a mistake (`-ESRCH`, `-EBUSY`) |
//! | fewer taken by `submit` than given | capacity | keeps the rest, in order, and submits it behind the next poll |
//! | [`Status::Done`], [`Status::Opened`] | | goes on with the packet |
//! | `false` of `offload_ok` | nobody's | works on that packet in software |
//! | [`Status::Dropped`] | the packet's | counts the reason; crypto offload works on the packet, which it has kept, in software, to be sure even if the ICV was wrong |
//! | [`Status::Lost`] | the device's | crypto offload: works on it in software, under the same number; packet offload: counts the packet as dropped, never sends it again |
//!
//! A put that fails has changed nothing, unless it is `Failed`.
//!
//! # Threads
//!
//! The device belongs to the control thread and each queue to one worker; they work at the same time. A
//! queue never blocks, allocates or takes a lock that control may hold for long. An SA's packets go through
//! one queue at a time, as its numbers have one writer.
//!
//! # Buffers
//!
//! A buffer belongs to the device from `submit` until `poll` gives it back, once, in any order. With crypto
//! offload it is the very buffer of the request. With packet offload the device may put any packet that
//! comes out into any buffer that it has, as the descriptors of a NIC's receive ring: requests and completions
//! agree in number, and packets of one SA stay in order unless [`Capabilities::is_ordered`] says otherwise.
#![forbid(unsafe_code)]

mod attribute;
mod bounce;
mod capabilities;
pub mod contract;
mod device;
mod doubt;
mod engine;
mod error;
mod event;
mod handle;
mod lane;
mod offloaded;
mod packet_sa;
pub mod place;
mod probe;
mod queue;
mod recovery;
mod watch;

pub use attribute::Attribute;
pub use bounce::Bounce;
pub use capabilities::{Capabilities, Placement};
pub use device::{Device, DeviceCounters, Live, NewPolicy, NewSa, TableUse};
pub use engine::OffloadEngine;
pub use error::{Failure, HandleError, Invalid, PutError};
pub use event::Event;
pub use handle::{PolicyHandle, SaDirection, SaHandle};
pub use lane::Lane;
pub use offloaded::Offloaded;
pub use packet_sa::PacketSa;
pub use probe::{ProbeError, probe};
pub use queue::{
    BURST_LEN, Buffer, Burst, Completion, CryptoWork, NoRoom, Queue, Request, Status, Work,
};
pub use recovery::Recovery;
pub use watch::{Trouble, Watch};
