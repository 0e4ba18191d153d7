//! Linux's XFRM databases in user space: what `net/xfrm` answers to IKE daemons and `ip xfrm`.

pub mod shim_protocol;
