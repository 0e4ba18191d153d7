//! The security association and policy databases, as the data path reads them.
//!
//! One control thread owns the [`Databases`] and changes them; each worker has a [`Reader`]. A
//! reader never locks, never allocates, and sees each change whole or not at all. The packet work
//! of an SA (`esp::Sa`) is only carried: everything here is generic over it.
//!
//! ```
//! use policy::{Action, Databases, Direction, Flow, Outbound};
//! # let headers = wire::Headers {
//! #     src: [10, 0, 0, 1].into(), dst: [10, 1, 0, 1].into(), protocol: 17, ttl: 64,
//! #     traffic_class: 0, dont_fragment: false, fragment: wire::Fragment::Whole,
//! #     header_len: 20, total_len: 100, src_port: 1, dst_port: 2,
//! # };
//! let mut databases = Databases::<()>::new();
//! let mut reader = databases.reader();
//! databases.set_default(Direction::Out, Action::Block);
//! // Once a round, before its first burst:
//! reader.refresh();
//! assert!(matches!(reader.outbound(&Flow::new(&headers, 0)), Outbound::DefaultBlock));
//! ```
#![forbid(unsafe_code)]

mod bypass;
mod counters;
mod databases;
mod feed;
mod flow;
mod groups;
mod hash;
mod model;
mod policy_entry;
mod publisher;
mod reader;
mod reclaim;
mod sa_entry;
mod sad;
mod selector;
mod slots;
mod spd;
mod stamp;
mod table;
mod verify;
mod view;
pub mod workload;

pub use bypass::{Ends, always_bypass};
pub use counters::{Tally, WorkerIndex};
pub use databases::{Databases, SaExists};
pub use flow::Flow;
pub use model::{
    Action, Direction, Mark, PolicyConfig, SaConfig, SaId, Scope, Template, VolumeLimits,
};
pub use policy_entry::PolicyEntry;
pub use reader::{Outbound, Reader};
pub use sa_entry::{SaEntry, SaState, Volume};
pub use selector::{PortMask, Prefix, Selector};
pub use stamp::Stamp;
pub use view::{SaHandle, SaSpot, SaTag};
