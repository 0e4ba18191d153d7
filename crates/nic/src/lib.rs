//! Models of NICs that do IPsec, each with the driver that makes an [`offload::Device`] of it.
//!
//! | module | what the NIC does | device |
//! | --- | --- | --- |
//! | [`inline_crypto`] | the cipher, in line: software writes headers, numbers and padding | [`NicDevice`] |
//! | [`packet_offload`] | all of IPsec, policies too | [`PacketNic`] |
//!
//! They stand in for hardware in tests, and in the daemon for who wants to try offload without it.
#![forbid(unsafe_code)]

pub mod inline_crypto;
pub mod packet_offload;

pub use inline_crypto::{
    Counters, EngineError, Fault, Nic, NicDevice, SharedNic, TransmitError, UnknownFault,
};
pub use packet_offload::{Cord, PacketNic, PacketNicError, Policies, SaIndex, Sizes};
