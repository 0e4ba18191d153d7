//! XFRM netlink on the wire: framing, attributes, fixed structs, algorithms, replay state.
//!
//! Every decoder takes bytes from outside and checks every length; every encoder leaves padding
//! zero. Nothing here knows what a request means.

mod algorithm;
mod attributes;
mod bytes;
mod message;
mod replay;
mod structs;

pub use algorithm::{Aead, Auth, Cipher, Compression, Truncation};
pub use attributes::{Attributes, BadAttribute, SpdAttributes, attr};
pub use bytes::{AF_INET, AF_INET6, Address, Be16, Be32, Field, Pad, Reader, TooShort, family_of};
pub use message::{Acknowledgement, Header, Message, MessageWriter, Messages, flag, kind};
pub use replay::{EsnReplay, MAX_BITMAP_WORDS};
pub use structs::{
    Acquire, AddressFilter, AeventId, Encap, Expire, Id, LifetimeConfig, LifetimeCurrent, Mapping,
    MarkAttribute, MigrateEntry, MigrateState, Offload, PolicyDefault, PolicyExpire, PolicyId,
    PolicyInfo, ReplayState, SaFlush, SaId, SaInfo, SadHashInfo, SelectorInfo, SpdHashInfo,
    SpdInfo, SpdThreshold, SpiInfo, Statistics, Template, constant,
};
