//! The two calls of `bpf(2)` that aya does not make: it loads no program that is bound to a device.

#![allow(unsafe_code, reason = "a system call on structures that live here; the exports are safe")]

use core::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use aya_obj::generated::{BPF_F_XDP_DEV_BOUND_ONLY, BPF_F_XDP_HAS_FRAGS, bpf_insn};

/// The beginning of `union bpf_attr` for `BPF_PROG_LOAD`.
#[repr(C)]
struct ProgramLoad {
    kind: u32,
    instruction_count: u32,
    instructions: u64,
    license: u64,
    log_level: u32,
    log_len: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
    name: [u8; 16],
    ifindex: u32,
    expected_attach_type: u32,
}

/// The beginning of `union bpf_attr` for `BPF_LINK_CREATE`.
#[repr(C)]
struct LinkCreate {
    program: u32,
    ifindex: u32,
    attach_type: u32,
    flags: u32,
}

const _: () = assert!(size_of::<ProgramLoad>() == 72);
const _: () = assert!(size_of::<LinkCreate>() == 16);

/// Loads an XDP program for one device; the verifier writes into `log` unless that is empty.
pub(super) fn load(
    instructions: &[bpf_insn],
    license: &CStr,
    ifindex: u32,
    has_frags: bool,
    log: &mut [u8],
) -> io::Result<OwnedFd> {
    let frags = if has_frags { BPF_F_XDP_HAS_FRAGS } else { 0 };
    let mut attributes = ProgramLoad {
        kind: BPF_PROG_TYPE_XDP,
        instruction_count: instructions.len() as u32,
        instructions: instructions.as_ptr().addr() as u64,
        license: license.as_ptr().addr() as u64,
        log_level: u32::from(!log.is_empty()),
        log_len: log.len() as u32,
        log: if log.is_empty() { 0 } else { log.as_mut_ptr().expose_provenance() as u64 },
        kernel_version: 0,
        flags: BPF_F_XDP_DEV_BOUND_ONLY | frags,
        name: *b"tags\0\0\0\0\0\0\0\0\0\0\0\0",
        ifindex,
        expected_attach_type: BPF_XDP,
    };
    // SAFETY: instructions and license are only read, and the log is written within its length; all outlive the
    // call.
    unsafe { call(BPF_PROG_LOAD, &mut attributes) }
}

/// Attaches a program to its device's driver, for as long as the link is open.
pub(super) fn attach(program: BorrowedFd<'_>, ifindex: u32) -> io::Result<OwnedFd> {
    let mut attributes = LinkCreate {
        program: program.as_raw_fd() as u32,
        ifindex,
        attach_type: BPF_XDP,
        flags: XDP_FLAGS_DRV_MODE,
    };
    // SAFETY: there are no pointers in it.
    unsafe { call(BPF_LINK_CREATE, &mut attributes) }
}

/// # Safety
///
/// `T` must be the command's argument, and the pointers in it valid for the command's accesses.
unsafe fn call<T>(command: libc::c_int, attributes: &mut T) -> io::Result<OwnedFd> {
    let (attributes, len) = (core::ptr::from_mut(attributes), size_of::<T>());
    // SAFETY: the pointer and the length describe the attributes; the caller answers for what is in them.
    let fd = unsafe { libc::syscall(libc::SYS_bpf, command, attributes, len) };
    let fd = i32::try_from(fd).map_err(io::Error::other)?;
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new, and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

const BPF_PROG_LOAD: libc::c_int = 5;
const BPF_LINK_CREATE: libc::c_int = 28;
const BPF_PROG_TYPE_XDP: u32 = 6;
const BPF_XDP: u32 = 37;
const XDP_FLAGS_DRV_MODE: u32 = 1 << 2;
