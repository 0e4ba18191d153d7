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
    /// Inner packets stand half in the kernel's queue and half in its reassembly, which it does not tell.
    #[error("it is of IP-TFS mode, and the kernel holds parts of packets of it")]
    Iptfs,
    /// Neither end is this host's, or both are.
    #[error("not exactly one of its ends is an address of this host")]
    Ends,
    /// Packets that ports take have no marks.
    #[error("it has a mark, which packets that culvert takes do not have")]
    Mark,
    /// The policy or SA belongs to an interface that is not taken.
    #[error("{0}")]
    Interface(Cow<'static, str>),
    /// The policy or SA has an end, or is for packets, in a VRF, whose routes are not followed.
    #[error("it is in the VRF {0}, which stays with the kernel")]
    Vrf(String),
    /// Packets of one interface alone: only policies know their packets' interface.
    #[error("its selector names an interface")]
    Selector,
    /// Routes may ask for the mark, which culvert's do not.
    #[error("it has an if_id, and sets a mark")]
    SetMark,
    /// No policy asks for it.
    #[error("no policy asks for it")]
    NoPolicy,
    /// A policy that asks for it is the kernel's.
    #[error("policy {index} asks for it, and stays with the kernel: {reason}")]
    Policy {
        /// Index of the policy.
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
    /// The SA is being handed back.
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
    /// The interface is down.
    pub const DOWN: &str = "the XFRM interface with its if_id is down";
    /// The routes of the interface are not followed.
    pub const ENSLAVED: &str = "the XFRM interface with its if_id belongs to a bridge or the like";

    /// Nor are those of a VRF.
    pub fn in_vrf(name: &str) -> String {
        format!(
            "the XFRM interface with its if_id is in the VRF {name}, which stays with the kernel"
        )
    }
}

/// Why a policy stays with the kernel.
pub mod policy {
    use xfrm::Failure;

    use super::Why;
    use crate::texts::spi_text;

    /// The policy cannot be carried.
    pub fn failed(failure: &Failure) -> String {
        format!("it is not carried: {failure}")
    }
    /// The policy is for a mark.
    pub const MARK: &str = "it is for packets with a mark";
    /// The policy is for a VRF.
    pub fn of_vrf(name: &str) -> String {
        format!("it is for the VRF {name}, which stays with the kernel")
    }
    /// Another policy with its `if_id` stays: one encryptor has what is routed to the interface.
    pub const TOGETHER: &str = "another outbound policy with its if_id stays with the kernel";
    /// A template may be left out.
    pub const OPTIONAL: &str = "a template is optional";
    /// Linux asks its policies about packets of its own before it is known by which interface they leave.
    pub const OWN_IPV6: &str = "only this host sends by it, and IPv6 of this host is the kernel's";
    /// A template has no SA.
    pub const NO_SA: &str = "a template has no SA";
    /// One of the SAs stays with the kernel for another policy's sake.
    pub const SA: &str = "an SA of it stays with the kernel";
    /// One of the SAs stays with the kernel.
    pub fn sa(spi: u32, why: &Why) -> String {
        format!("its SA {} stays with the kernel: {why}", spi_text(spi))
    }
    /// The policy will be taken with its SAs, or has been and goes back.
    pub const CROSSING: &str = "its SAs are on their way between the kernel and the fast path";
}
