//! The interposed functions: each takes the C library's place in the program that loads this.
//!
//! Each function first asks the table of descriptors, without lock or memory management, and hands
//! foreign descriptors straight to the next definition of its name (`dlsym(RTLD_NEXT)`, looked up
//! on first use, so before any constructor has run as well).
//!
//! The functions are `extern "C-unwind"` and keep nothing that needs to be dropped across a call
//! of the C library's function: a thread that is cancelled inside unwinds through them. What works
//! on sockets of ours runs behind `sealed`, which a panic does not leave.
//!
//! | Module        | Its functions                                                            |
//! |---------------|--------------------------------------------------------------------------|
//! | `descriptors` | that make, copy, close or watch a descriptor                             |
//! | `addresses`   | that bind, connect, shut down, and tell addresses                        |
//! | `options`     | `setsockopt`, `getsockopt`                                               |
//! | `send`        | that send                                                                |
//! | `receive`     | that receive                                                             |
//! | `device`      | `ioctl`, of an interface's features                                      |
//! | `exec`        | that start another program                                               |
//! | `system`      | `uname`                                                                  |
//! | `memory`      | none: it reads and writes what the program's pointers lead to            |
//!
//! # Safety
//!
//! For all of them: pointers are what the C library's function of that name asks for.
#![allow(
    clippy::missing_safety_doc,
    reason = "each has the contract of the C function it stands for, as said above"
)]

use std::ffi::{CStr, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process;
use std::sync::atomic::AtomicPtr;
use std::sync::atomic::Ordering::{Acquire, Release};

use libc::ssize_t;

/// Calls the C library's function, or fails with ENOSYS where it has none of this name.
macro_rules! libc_call {
    ($name:literal: fn($($arg:expr => $ty:ty),*) -> $ret:ty) => {{
        static CACHE: std::sync::atomic::AtomicPtr<std::ffi::c_void> =
            std::sync::atomic::AtomicPtr::new(std::ptr::null_mut());
        let pointer = $crate::symbols::next($name, &CACHE);
        // SAFETY: the C library's function of this name has this type, and an absent one is null,
        // which is `None`.
        let function = unsafe {
            std::mem::transmute::<*mut std::ffi::c_void, Option<unsafe extern "C-unwind" fn($($ty),*) -> $ret>>(
                pointer,
            )
        };
        match function {
            // SAFETY: the arguments are the caller's, who keeps the function's contract.
            Some(function) => unsafe { function($($arg),*) },
            None => $crate::symbols::fail(libc::ENOSYS) as $ret,
        }
    }};
}

pub mod addresses;
pub mod descriptors;
pub mod device;
pub mod exec;
mod memory;
pub mod options;
pub mod receive;
pub mod send;
pub mod system;

/// The next definition of a function, looked up once.
fn next(name: &CStr, cache: &AtomicPtr<c_void>) -> *mut c_void {
    let known = cache.load(Acquire);
    if !known.is_null() {
        return known;
    }
    // SAFETY: the name ends with a zero byte.
    let found = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    cache.store(found, Release);
    found
}

fn fail(errno: c_int) -> c_int {
    set_errno(errno);
    -1
}

fn set_errno(errno: c_int) {
    // SAFETY: returns the address of this thread's errno, which always exists.
    let location = unsafe { libc::__errno_location() };
    // SAFETY: that address is valid for the life of the thread.
    unsafe { *location = errno };
}

fn errno() -> c_int {
    // SAFETY: returns the address of this thread's errno, which always exists.
    let location = unsafe { libc::__errno_location() };
    // SAFETY: that address is valid for the life of the thread.
    unsafe { *location }
}

/// Runs what must not unwind into the program.
#[inline(never)]
fn sealed<T>(work: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| process::abort())
}

/// The result as C has it.
fn returned<T>(result: Result<T, c_int>, value: impl FnOnce(T) -> ssize_t) -> ssize_t {
    match result {
        Ok(v) => value(v),
        Err(errno) => fail(errno) as ssize_t,
    }
}
