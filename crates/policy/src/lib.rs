//! The security association and policy databases, as the data path reads them (RFC 4301 §4.4).
//!
//! One control thread owns the [`Databases`] and changes them. Each worker has a [`Reader`], which
//! never locks, never allocates, and sees each change whole or not at all:
//!
//! ```text
//!    control thread                                     worker
//!    Databases ── a queue of changes for each reader ──> Reader: slots of its own
//!        │                                                 │
//!        └──── hash indexes, changed in place <─ hints ────┘   an index only says where to look;
//!                                                              what is there is compared in the slots
//! ```
//!
//! | | |
//! | --- | --- |
//! | [`SaConfig`], [`PolicyConfig`], [`Selector`], [`Template`] | SAs and policies as their owner describes them |
//! | [`Databases`] | adds, replaces and removes them; each call is one change |
//! | [`Reader`] | a state of the databases that stands still between two calls of [`refresh`](Reader::refresh) |
//! | [`Reader::outbound`], [`Outbound`] | the verdict on a packet that leaves: bypass, block, leave to Linux, protect with this SA, ask for one |
//! | [`Reader::inbound_sa`], [`Reader::policy`] | the SA of a packet by destination and SPI; the policy that its content has to pass |
//! | [`SaEntry`], [`PolicyEntry`] | what both sides share: state, limits, counters |
//! | [`Stamp`] | whether an answer of before still holds, without asking again |
//! | [`always_bypass`] | IKE and neighbour discovery, which no policy may stop |
//!
//! # Example
//!
//! ```
//! use crypto::{AesKey, IcvLen, Suite};
//! use esp::{Mode, Protocol, SaFlags, SaParams};
//! use policy::{
//!     Action, Databases, Direction, Flow, Mark, Outbound, PolicyConfig, PolicyFlags, Prefix, SaConfig,
//!     Selector, Template, VolumeLimits,
//! };
//!
//! # fn main() -> Result<(), Box<dyn core::error::Error>> {
//! # let headers = wire::Headers {
//! #     src: [10, 1, 0, 1].into(), dst: [10, 2, 0, 1].into(), protocol: 17, ttl: 64,
//! #     traffic_class: 0, dont_fragment: false, fragment: wire::Fragment::Whole,
//! #     header_len: 20, total_len: 100, src_port: 1, dst_port: 2,
//! # };
//! let (here, there) = ("192.0.2.1".parse()?, "192.0.2.2".parse()?);
//! let net = |addr: [u8; 4]| Prefix { addr: addr.into(), len: 16 };
//!
//! let mut databases = Databases::new();
//! let mut reader = databases.reader();
//! databases.put_policy(PolicyConfig {
//!     index: 1, direction: Direction::Out, priority: 100, action: Action::Allow,
//!     selector: Selector::between(net([10, 1, 0, 0]), net([10, 2, 0, 0])),
//!     templates: vec![Template {
//!         src: here, dst: there, spi: 0, protocol: 50, mode: Mode::Tunnel, reqid: 1, optional: false,
//!     }],
//!     flags: PolicyFlags::default(), mark: Mark::default(), if_id: 0,
//! });
//!
//! // A packet from 10.1.0.1 to 10.2.0.1 that would leave by interface 3; once a round:
//! reader.refresh();
//! let flow = Flow::new(&headers, 3);
//! assert!(matches!(reader.outbound(&flow), Outbound::NoState(..)), "the IKE daemon is asked");
//!
//! databases.add_sa(SaConfig {
//!     params: SaParams {
//!         spi: 0x1001, src: here, dst: there, protocol: Protocol::Esp,
//!         mode: Mode::Tunnel, suite: Suite::AesGcm { key: AesKey::Aes128, icv: IcvLen::Icv16 }, encap: None,
//!         esn: false, replay_window: 64, tfc_pad_len: 0, flags: SaFlags::default(),
//!     },
//!     mark: Mark::default(), set_mark: Mark::default(), if_id: 0, reqid: 1, cpu: None, selector: None, iptfs: None,
//!     limits: VolumeLimits::NONE,
//!     added_s: 0, generation: 1,
//! }, "packet work")?;
//! assert!(matches!(reader.outbound(&flow), Outbound::NoState(..)), "the view stands still");
//! reader.refresh();
//! let Outbound::Protect(_, sa) = reader.outbound(&flow) else { panic!("the SA is there") };
//! assert_eq!(reader.sa(sa).unwrap().esp, "packet work");
//! # Ok(())
//! # }
//! ```
//!
//! The packet work of an SA (`esp::Sa`) is only carried: everything here is generic over it.
//!
//! # Threads
//!
//! [`Databases`] is for one thread. A [`Reader`] is one worker's and goes to it. What was removed
//! is freed, keys wiped, once every reader has been refreshed, so a reader that is used no more has
//! to be dropped. A policy's counters have a lane for each worker ([`WorkerIndex`]).
//!
//! # Not handled
//!
//! Lifetimes by time (the owner's timers). Templates of IPComp alone or behind others, and more than three in
//! one policy: such a policy blocks. What the marks of packets are is the caller's to say.
#![forbid(unsafe_code)]

mod bundle;
mod bypass;
mod chosen;
mod class_counts;
mod counters;
mod databases;
mod feed;
mod flow;
mod groups;
mod hash;
mod iptfs;
mod iptfs_counters;
mod model;
mod policy_entry;
mod publisher;
mod reader;
mod reclaim;
mod sa_entry;
mod sa_slot;
mod sad;
mod selector;
mod slots;
mod spd;
mod stamp;
mod table;
mod verify;
mod view;
pub mod workload;

pub use bundle::SaBundle;
pub use bypass::{Ends, always_bypass};
pub use chosen::OutboundKey;
pub use class_counts::ClassCounts;
pub use counters::{PolicyCounters, WorkerIndex};
pub use databases::{Databases, SaExists};
pub use flow::{Flow, Marks};
pub use iptfs::{Iptfs, IptfsBreaker, IptfsLosses, IptfsRate};
pub use iptfs_counters::{IptfsCounter, IptfsCounters, IptfsGauges};
pub use model::{
    Action, Direction, MAX_BUNDLE, Mark, PolicyConfig, PolicyFlags, SaConfig, SaId, Scope,
    Template, VolumeLimits, spi_of_source,
};
pub use policy_entry::PolicyEntry;
pub use reader::{Outbound, Reader};
pub use sa_entry::{Cpu, SaEntry, SaState, Volume};
pub use selector::{PortMask, Prefix, Selector};
pub use stamp::Stamp;
pub use view::{SaHandle, SaIndex, SaTag};
