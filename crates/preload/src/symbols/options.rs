//! `setsockopt` and `getsockopt`: a netlink socket's options, and those of IKE daemons.

use std::ffi::{c_int, c_void};

use libc::socklen_t;

use super::memory::{int_value, put_int};
use super::{errno, fail, returned, sealed};
use crate::calls::{self, Outcome, option};
use crate::{esp_sockets, state, table};

/// `setsockopt(2)`.
///
/// A UDP socket that is to take in ESP is offered to culvert first, which wants it where it has no port.
/// On foreign sockets, the options by which IKE daemons exempt themselves from IPsec and take in
/// UDP-encapsulated ESP succeed also on a kernel that knows none of it: culvert's data path does
/// without them.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn setsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *const c_void,
    len: socklen_t,
) -> c_int {
    if table::is_socket(fd) {
        // SAFETY: the caller's value, of the length the caller says.
        let number = unsafe { int_value(value, len) };
        if let Some(r) = set_own_option(fd, level, name, number) {
            return r;
        }
    }
    if (level, name) == ENCAP
        // SAFETY: the caller's value, of the length the caller says.
        && unsafe { int_value(value, len) } == Some(ESP_IN_UDP)
        && let Some(config) = sealed(state::config)
        && let Some(result) = sealed(|| esp_sockets::offer(fd, config))
    {
        return returned(result, |()| 0) as c_int;
    }
    let r = libc_call!(c"setsockopt": fn(fd => c_int, level => c_int, name => c_int, value => *const c_void, len => socklen_t) -> c_int);
    let missing = [libc::ENOPROTOOPT, libc::EOPNOTSUPP, libc::ENOSYS, libc::EPROTONOSUPPORT];
    if r != 0
        && is_ike_option(level, name)
        && missing.contains(&errno())
        && sealed(state::config).is_some()
    {
        return 0;
    }
    r
}

/// `UDP_ENCAP` of linux/udp.h, and its value for ESP as of RFC 3948.
const ENCAP: (c_int, c_int) = (libc::IPPROTO_UDP, 100);
const ESP_IN_UDP: c_int = 2;

/// True for options that IKE daemons set on their UDP sockets.
fn is_ike_option(level: c_int, name: c_int) -> bool {
    /// `IP_XFRM_POLICY` and `IPV6_XFRM_POLICY` of linux/in.h and linux/in6.h.
    const POLICY: [(c_int, c_int); 2] = [(libc::IPPROTO_IP, 17), (libc::IPPROTO_IPV6, 35)];
    POLICY.contains(&(level, name)) || ENCAP == (level, name)
}

/// `setsockopt` on one of our sockets; `None` if the connection's own option is meant.
fn set_own_option(fd: c_int, level: c_int, name: c_int, value: Option<c_int>) -> Option<c_int> {
    let outcome = match (level, name) {
        (libc::SOL_NETLINK, _) => match value {
            None => Outcome::Done(Err(libc::EINVAL)),
            Some(v) => set_netlink_option(fd, name, v),
        },
        // Larger than the limit only for the privileged; then as large as it may be.
        (libc::SOL_SOCKET, libc::SO_RCVBUFFORCE) => {
            return force_buffer(fd, libc::SO_RCVBUF, value);
        }
        (libc::SOL_SOCKET, libc::SO_SNDBUFFORCE) => {
            return force_buffer(fd, libc::SO_SNDBUF, value);
        }
        // A filter would see the control datagrams. It only spares the program messages.
        (
            libc::SOL_SOCKET,
            libc::SO_ATTACH_FILTER | libc::SO_DETACH_FILTER | libc::SO_LOCK_FILTER,
        ) => Outcome::Done(Ok(())),
        _ => return None,
    };
    match outcome {
        Outcome::Done(result) => Some(returned(result, |()| 0) as c_int),
        _ => None,
    }
}

fn set_netlink_option(fd: c_int, name: c_int, value: c_int) -> Outcome<()> {
    match name {
        option::ADD_MEMBERSHIP | option::DROP_MEMBERSHIP => {
            let joins = name == option::ADD_MEMBERSHIP;
            sealed(|| calls::set_membership(fd, value as u32, joins))
        }
        n if option::SWITCHES.contains(&n) => {
            sealed(|| calls::set_switch(fd, n as u32, value != 0))
        }
        _ => Outcome::Done(Err(libc::ENOPROTOOPT)),
    }
}

fn force_buffer(fd: c_int, name: c_int, value: Option<c_int>) -> Option<c_int> {
    let value = value?;
    let len = size_of::<c_int>() as socklen_t;
    let pointer = (&raw const value).cast::<c_void>();
    Some(
        libc_call!(c"setsockopt": fn(fd => c_int, libc::SOL_SOCKET => c_int, name => c_int, pointer => *const c_void, len => socklen_t) -> c_int),
    )
}

/// `getsockopt(2)`: a socket of ours answers as netlink.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn getsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    len: *mut socklen_t,
) -> c_int {
    if table::is_socket(fd)
        && let Some(answer) = own_option(fd, level, name)
    {
        return match answer {
            // SAFETY: the caller's value, with the room the caller says.
            Ok(number) => unsafe { put_int(number, value, len) },
            Err(errno) => fail(errno),
        };
    }
    libc_call!(c"getsockopt": fn(fd => c_int, level => c_int, name => c_int, value => *mut c_void, len => *mut socklen_t) -> c_int)
}

/// Answer of a netlink socket; `None` where the connection's own answer is right.
fn own_option(fd: c_int, level: c_int, name: c_int) -> Option<Result<c_int, c_int>> {
    let d = sealed(|| calls::describe(fd))?;
    match (level, name) {
        (libc::SOL_SOCKET, libc::SO_DOMAIN) => Some(Ok(libc::AF_NETLINK)),
        (libc::SOL_SOCKET, libc::SO_TYPE) => Some(Ok(d.kind)),
        (libc::SOL_SOCKET, libc::SO_PROTOCOL) => Some(Ok(libc::NETLINK_XFRM)),
        (libc::SOL_SOCKET, libc::SO_ERROR) => sealed(|| calls::take_error(fd)).map(Ok),
        (libc::SOL_NETLINK, option::LIST_MEMBERSHIPS) => Some(Ok(d.groups as c_int)),
        (libc::SOL_NETLINK, n) if option::SWITCHES.contains(&n) => {
            Some(Ok((d.options >> n & 1) as c_int))
        }
        (libc::SOL_NETLINK, _) => Some(Err(libc::ENOPROTOOPT)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_options_of_ike_daemons_are_forgiven() {
        assert!(is_ike_option(libc::IPPROTO_IP, 17));
        assert!(is_ike_option(libc::IPPROTO_IPV6, 35));
        assert!(is_ike_option(libc::IPPROTO_UDP, 100));
        assert!(!is_ike_option(libc::IPPROTO_TCP, 17));
        assert!(!is_ike_option(libc::IPPROTO_IP, 35));
    }
}
