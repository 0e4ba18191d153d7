//! Loading programs while signals come.

use std::io;

use aya::programs::ProgramError;

/// How often a program is loaded before the kernel's answer counts.
const ATTEMPTS: u32 = 10;

/// Loads a program. The kernel's verifier gives up with `EAGAIN` where its thread has a signal, or work for its return from the
/// kernel: both are done before the next attempt, as the call does return.
pub(crate) fn load_again(
    load: impl FnMut() -> Result<(), ProgramError>,
) -> Result<(), ProgramError> {
    again(load, |error| match error {
        ProgramError::LoadError { io_error, .. } => Some(io_error),
        _ => None,
    })
}

/// The same of a system call itself.
pub(crate) fn call_again<T>(call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    again(call, |error| Some(error))
}

fn again<T, E>(
    mut load: impl FnMut() -> Result<T, E>,
    cause: impl Fn(&E) -> Option<&io::Error>,
) -> Result<T, E> {
    for _ in 1..ATTEMPTS {
        match load() {
            Err(error) if cause(&error).and_then(io::Error::raw_os_error) == Some(libc::EAGAIN) => {
            }
            answer => return answer,
        }
    }
    load()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The answer after so many others, and how often it was asked for.
    fn after(others: u32, errno: i32) -> (Result<(), Option<i32>>, u32) {
        let mut calls = 0;
        let answer = call_again(|| {
            calls += 1;
            let is_other = calls <= others;
            if is_other { Err(io::Error::from_raw_os_error(errno)) } else { Ok(()) }
        });
        (answer.map_err(|error| error.raw_os_error()), calls)
    }

    #[test]
    fn an_interrupted_verifier_is_asked_again_and_no_other_answer() {
        assert_eq!(after(0, libc::EAGAIN), (Ok(()), 1));
        assert_eq!(after(ATTEMPTS - 1, libc::EAGAIN), (Ok(()), ATTEMPTS));
        assert_eq!(after(ATTEMPTS, libc::EAGAIN), (Err(Some(libc::EAGAIN)), ATTEMPTS));
        assert_eq!(after(1, libc::EACCES), (Err(Some(libc::EACCES)), 1));
    }
}
