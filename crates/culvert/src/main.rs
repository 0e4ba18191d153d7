//! The program `culvert`; what it does is in the library beside it.
#![forbid(unsafe_code)]

use std::process::ExitCode;

/// SAs and large tables on huge pages. Without memory the program ends with a message.
#[global_allocator]
static ALLOCATOR: mem::OrExit<mem::Allocator> = mem::OrExit(mem::Allocator::new());

fn main() -> ExitCode {
    culvert::main()
}
