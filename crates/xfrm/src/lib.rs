//! Linux's XFRM databases in user space: what `net/xfrm` answers to IKE daemons and `ip xfrm`.
#![deny(unsafe_code)]

pub mod codec;
pub mod shim_protocol;
