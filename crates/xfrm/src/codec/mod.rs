//! XFRM netlink on the wire: attributes, fixed structs, algorithms, replay state. Framing is [`netlink`]'s.
//!
//! Every decoder takes bytes from outside and checks every length; every encoder leaves padding
//! zero. Nothing here knows what a request means.

mod address;
mod algorithm;
mod attributes;
pub mod kind;
mod replay;
mod structs;

pub use address::{AF_INET, AF_INET6, Address, family_of};
pub use algorithm::{Aead, Auth, Cipher, Compression, Truncation};
pub use attributes::{Attributes, BadAttribute, SpdAttributes, attr};
pub use netlink::{
    Acknowledgement, Be16, Be32, Field, Header, Message, MessageWriter, Messages, Pad, Reader,
    TooShort, flag,
};
pub use replay::{EsnReplay, MAX_BITMAP_WORDS};
pub use structs::{
    Acquire, AddressFilter, AeventId, Encap, Expire, Id, LifetimeConfig, LifetimeCurrent, Mapping,
    MarkAttribute, MigrateEntry, MigrateState, Offload, PolicyDefault, PolicyExpire, PolicyId,
    PolicyInfo, ReplayState, SaFlush, SaId, SaInfo, SadHashInfo, SelectorInfo, SpdHashInfo,
    SpdInfo, SpdThreshold, SpiInfo, Statistics, Template, constant,
};
