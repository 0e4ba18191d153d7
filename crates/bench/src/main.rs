//! The program `culvert-bench`: the benchmarks by name, as tables or JSON.
#![forbid(unsafe_code)]

mod program;

use std::io::{Write, stderr};
use std::process::ExitCode;

use clap::Parser;

use crate::program::Cli;

/// The daemon's allocator. Counts what each thread allocates: one instruction for each allocation.
#[global_allocator]
static ALLOCATOR: bench::allocation::Counting<mem::OrExit<mem::Allocator>> =
    bench::allocation::Counting(mem::OrExit(mem::Allocator::new()));

fn main() -> ExitCode {
    let cli = Cli::parse();
    match program::run(&cli.command, cli.json) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // A closed standard error has nobody who could be told.
            let _ = writeln!(stderr(), "culvert-bench: {error}");
            ExitCode::FAILURE
        }
    }
}
