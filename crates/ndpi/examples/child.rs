//! The child alone, for the tests of the crate.

use std::process::ExitCode;

fn main() -> ExitCode {
    match ndpi::serve() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
