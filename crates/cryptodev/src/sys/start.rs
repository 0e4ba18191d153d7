//! The start of DPDK's environment (EAL).

use core::ffi::CStr;
use std::ffi::CString;
use std::sync::{Mutex, PoisonError};
use std::thread;

use super::raw;
use crate::error::StartError;

/// Result of the start of the environment, once it was tried: it takes no second try.
static STARTED: Mutex<Option<Result<(), StartError>>> = Mutex::new(None);

/// Starts the environment with these arguments, the program's name not among them. A second call has no effect and
/// returns what the first one did.
///
/// The environment pins the thread that starts it to a core, so that is a thread of its own.
///
/// # Errors
/// [`StartError`]; DPDK says more on standard error.
pub fn start(arguments: &[String]) -> Result<(), StartError> {
    let mut started = STARTED.lock().unwrap_or_else(PoisonError::into_inner);
    started.get_or_insert_with(|| start_once(arguments)).clone()
}

fn start_once(arguments: &[String]) -> Result<(), StartError> {
    let program = ["culvert".to_owned()];
    let texts = program
        .iter()
        .chain(arguments)
        .map(|text| CString::new(text.as_str()).map_err(|_| StartError::Argument(text.clone())));
    let texts: Vec<CString> = texts.collect::<Result<_, _>>()?;
    let thread = thread::Builder::new().name("culvert-dpdk".into()).spawn(move || {
        let pointers: Vec<_> = texts.iter().map(|text| text.as_ptr()).collect();
        // SAFETY: as many pointers as are told, to strings that live until the call returns; the shim copies
        // them. Nobody else is in this call: the lock above.
        unsafe { raw::culvert_cd_start(pointers.len() as i32, pointers.as_ptr()) }
    });
    let thread = thread.map_err(|error| StartError::System(error.raw_os_error().unwrap_or(0)))?;
    match thread.join() {
        Ok(0) => Ok(()),
        Ok(error) => Err(StartError::System(error)),
        Err(_) => Err(StartError::System(0)),
    }
}

/// DPDK's name and version.
pub fn version() -> String {
    // SAFETY: the function has no precondition.
    let text = unsafe { raw::culvert_cd_version() };
    // SAFETY: a string of the library's, which stays.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}
