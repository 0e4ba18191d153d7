//! The function that tells what system this is.

use std::ffi::c_int;
use std::ptr;

use libc::utsname;

use super::sealed;
use crate::release::raised;
use crate::state;

/// `uname(2)`: charon goes by the kernel's release in what it asks of XFRM (`release`).
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn uname(buffer: *mut utsname) -> c_int {
    let result = libc_call!(c"uname": fn(buffer => *mut utsname) -> c_int);
    if result != 0 || buffer.is_null() || sealed(state::config).is_none() || !has_charon() {
        return result;
    }
    // SAFETY: the C library has just filled it, and only this thread has it.
    let release = unsafe { &mut (*buffer).release };
    sealed(|| {
        let told: Vec<u8> = release.iter().take_while(|c| **c != 0).map(|c| *c as u8).collect();
        // The last byte stays for the end of the string.
        if let Some(raised) = raised(&told, release.len() - 1) {
            release.fill(0);
            release.iter_mut().zip(raised).for_each(|(to, from)| *to = from.cast_signed() as _);
        }
    });
    result
}

/// True if the program is charon, in any of its forms. Others, such as those that its scripts
/// start, are told the kernel's own release, which names the folder of modules.
fn has_charon() -> bool {
    // SAFETY: the name ends with a zero byte, and what is found is not used.
    !ptr::eq(unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"libcharon_init".as_ptr()) }, ptr::null())
}
