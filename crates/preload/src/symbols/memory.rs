//! Memory that the program's pointers lead to: its buffers, addresses and option values.

use std::ffi::{c_int, c_void};
use std::{ptr, slice};

use libc::{iovec, size_t, sockaddr, sockaddr_nl, socklen_t};

use super::fail;

/// The program's buffers as a slice of `iovec`.
///
/// # Safety
///
/// `buffers` points at `count` of them, or `count` is 0.
pub(super) unsafe fn vectors<'a>(buffers: *const iovec, count: size_t) -> &'a [iovec] {
    if buffers.is_null() || count == 0 {
        return &[];
    }
    // SAFETY: not null, and the caller vouches for the count.
    unsafe { slice::from_raw_parts(buffers, count) }
}

/// The program's data, in one piece.
///
/// # Safety
///
/// Each buffer is readable at its length.
pub(super) unsafe fn gather(buffers: &[iovec]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(buffers.iter().map(|b| b.iov_len).sum());
    for b in buffers.iter().filter(|b| b.iov_len > 0) {
        // SAFETY: as the caller vouches for.
        bytes.extend_from_slice(unsafe { slice::from_raw_parts(b.iov_base.cast(), b.iov_len) });
    }
    bytes
}

/// Fills the program's buffers one after the other; returns how many bytes had room.
///
/// # Safety
///
/// Each buffer is writable at its length.
pub(super) unsafe fn scatter(mut bytes: &[u8], buffers: &[iovec]) -> usize {
    let len = bytes.len();
    for b in buffers {
        let (now, rest) = bytes.split_at(bytes.len().min(b.iov_len));
        if !now.is_empty() {
            // SAFETY: as the caller vouches for; the program's memory is not the library's.
            unsafe { ptr::copy_nonoverlapping(now.as_ptr(), b.iov_base.cast(), now.len()) };
        }
        bytes = rest;
    }
    len - bytes.len()
}

/// Writes a netlink address as the kernel does: cut to the room there is, with its full length.
///
/// # Safety
///
/// `len` is null or valid, and `address` is null or has room for `*len` bytes.
pub(super) unsafe fn put_address(
    port_id: u32,
    groups: u32,
    address: *mut c_void,
    len: *mut socklen_t,
) {
    if address.is_null() || len.is_null() {
        return;
    }
    // SAFETY: all zeros is a valid netlink address.
    let mut own: sockaddr_nl = unsafe { std::mem::zeroed() };
    own.nl_family = libc::AF_NETLINK as libc::sa_family_t;
    own.nl_pid = port_id;
    own.nl_groups = groups;
    // SAFETY: not null, so valid.
    let room = unsafe { *len } as usize;
    let full = size_of::<sockaddr_nl>();
    // SAFETY: copies no more than both sides have.
    unsafe {
        ptr::copy_nonoverlapping((&raw const own).cast::<u8>(), address.cast(), room.min(full));
    }
    // SAFETY: as above.
    unsafe { *len = full as socklen_t };
}

/// Reads a netlink address: port id and groups.
///
/// # Safety
///
/// `address` is null or has `len` readable bytes.
pub(super) unsafe fn take_address(
    address: *const sockaddr,
    len: socklen_t,
) -> Result<(u32, u32), c_int> {
    if address.is_null() || (len as usize) < size_of::<sockaddr_nl>() {
        return Err(libc::EINVAL);
    }
    // SAFETY: there are enough bytes, and any bytes are a valid netlink address.
    let own = unsafe { address.cast::<sockaddr_nl>().read_unaligned() };
    if i32::from(own.nl_family) != libc::AF_NETLINK {
        return Err(libc::EINVAL);
    }
    Ok((own.nl_pid, own.nl_groups))
}

/// Checks that the destination is the kernel's: port id 0, no group.
///
/// # Safety
///
/// `address` is null or has `len` readable bytes.
pub(super) unsafe fn check_destination(
    address: *const sockaddr,
    len: socklen_t,
) -> Result<(), c_int> {
    if address.is_null() || len == 0 {
        return Ok(());
    }
    // SAFETY: as the caller vouches for.
    match unsafe { take_address(address, len) }? {
        (0, 0) => Ok(()),
        // Nobody listens there.
        _ => Err(libc::ECONNREFUSED),
    }
}

/// The first four bytes of an option's value; 0 if there are fewer.
///
/// # Safety
///
/// `value` is null or has `len` readable bytes.
pub(super) unsafe fn int_value(value: *const c_void, len: socklen_t) -> Option<c_int> {
    if value.is_null() || (len as usize) < size_of::<c_int>() {
        return None;
    }
    // SAFETY: there are enough bytes.
    Some(unsafe { value.cast::<c_int>().read_unaligned() })
}

/// # Safety
///
/// `len` is null or valid, and `value` is null or has room for `*len` bytes.
pub(super) unsafe fn put_int(number: c_int, value: *mut c_void, len: *mut socklen_t) -> c_int {
    if value.is_null() || len.is_null() {
        return fail(libc::EFAULT);
    }
    // SAFETY: not null, so valid.
    let room = (unsafe { *len }) as usize;
    if room < size_of::<c_int>() {
        return fail(libc::EINVAL);
    }
    // SAFETY: there is room for it.
    unsafe { value.cast::<c_int>().write_unaligned(number) };
    // SAFETY: as above.
    unsafe { *len = size_of::<c_int>() as socklen_t };
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datagrams_are_gathered_and_scattered_across_buffers() {
        let (mut a, mut b, mut c) = ([0u8; 3], [0u8; 0], [0u8; 4]);
        let vector = |s: &mut [u8]| iovec { iov_base: s.as_mut_ptr().cast(), iov_len: s.len() };
        let buffers = [vector(&mut a), vector(&mut b), vector(&mut c)];
        // SAFETY: the buffers are the arrays above.
        assert_eq!(unsafe { scatter(b"12345", &buffers) }, 5);
        // SAFETY: the buffers are the arrays above.
        assert_eq!(unsafe { scatter(b"123456789", &buffers) }, 7);
        // SAFETY: the buffers are the arrays above.
        assert_eq!(unsafe { gather(&buffers) }, b"1234567");
        // SAFETY: the count is 0.
        assert!(unsafe { vectors(ptr::null(), 0) }.is_empty());
    }

    #[test]
    fn addresses_are_cut_to_the_room_there_is() {
        let mut room = [0xffu8; 16];
        let mut len = 6;
        // SAFETY: the array has more room than the length says.
        unsafe { put_address(0x0403_0201, 7, room.as_mut_ptr().cast(), &raw mut len) };
        assert_eq!((len, room[6]), (12, 0xff));
        // SAFETY: the array is as long as said.
        assert_eq!(unsafe { take_address(room.as_ptr().cast(), 11) }, Err(libc::EINVAL));
        let mut len = 16;
        // SAFETY: the array is as long as said.
        unsafe { put_address(4711, 7, room.as_mut_ptr().cast(), &raw mut len) };
        assert_eq!(len, 12);
        // SAFETY: the array is as long as said.
        assert_eq!(unsafe { take_address(room.as_ptr().cast(), 12) }, Ok((4711, 7)));
        // SAFETY: the array is as long as said.
        assert_eq!(unsafe { check_destination(room.as_ptr().cast(), 12) }, Err(libc::ECONNREFUSED));
    }
}
