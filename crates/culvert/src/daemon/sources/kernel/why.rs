//! Why an SA or a policy stays with the kernel.

use std::borrow::Cow;

use thiserror::Error;
use xfrm::Failure;

/// Why an SA stays with the kernel, as an operator reads it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Why {
    /// Culvert cannot carry it.
    #[error("{0}")]
    Failure(Failure),
    /// No engine has its algorithms, or they are weak.
    #[error("{0}")]
    Refused(String),
    /// A device has it.
    #[error("a device has it (offload)")]
    Offloaded,
    /// Neither end is this host's, or both are.
    #[error("not exactly one of its ends is an address of this host")]
    Ends,
    /// Packets that ports take have no marks.
    #[error("it has a mark, which packets that culvert takes do not have")]
    Mark,
    /// It belongs to an interface that is not taken.
    #[error("{0}")]
    Interface(&'static str),
    /// Routes may ask for the mark, which culvert's do not.
    #[error("it has an if_id, and sets a mark")]
    SetMark,
    /// No policy asks for it.
    #[error("no policy asks for it")]
    NoPolicy,
    /// A policy that asks for it is the kernel's.
    #[error("policy {index} asks for it, and stays with the kernel: {reason}")]
    Policy {
        /// The policy.
        index: u32,
        /// Why that one stays.
        reason: Cow<'static, str>,
    },
    /// The kernel encrypts by it: packets of this host that do not come by the private interface.
    #[error("the kernel encrypts by it, too: IPv6 of this host, or a socket bound to a device")]
    InUse,
    /// The kernel did not take or tell its numbers.
    #[error("the kernel did not take its numbers: {0}")]
    Numbers(String),
    /// It is being handed back.
    #[error("culvert stops")]
    Stopping,
}

/// Why an XFRM interface is not taken.
pub mod interface {
    /// There is none, or it is in another namespace.
    pub const MISSING: &str = "no XFRM interface here has its if_id";
    /// There is none with this `if_id` alone.
    pub const EXTERNAL: &str =
        "no XFRM interface here has its if_id; one takes that of each packet (external)";
    /// It is down.
    pub const DOWN: &str = "the XFRM interface with its if_id is down";
    /// Its routes are not followed.
    pub const ENSLAVED: &str = "the XFRM interface with its if_id belongs to a VRF or the like";
}

/// Why a policy stays with the kernel.
pub mod policy {
    /// Its templates cannot be carried.
    pub const FAILURE: &str = "its templates are not carried";
    /// It is for a mark.
    pub const MARK: &str = "it is for packets with a mark";
    /// Another policy with its `if_id` stays: one encryptor has what is routed to the interface.
    pub const TOGETHER: &str = "another outbound policy with its if_id stays with the kernel";
    /// A template may be left out.
    pub const OPTIONAL: &str = "a template is optional";
    /// A template has no SA.
    pub const NO_SA: &str = "a template has no SA";
    /// One of the SAs stays with the kernel.
    pub const SA: &str = "an SA of it stays with the kernel";
}
