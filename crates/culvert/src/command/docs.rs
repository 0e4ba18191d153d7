//! Man pages and completions, from the command line's definition.

use std::io;
use std::path::Path;

use clap::CommandFactory;
use clap_complete::Shell;

use crate::cli::Cli;

/// Writes `culvert.1`, `culvert-*.1` and the completions of three shells into a directory.
pub fn write(directory: &Path) -> io::Result<()> {
    std::fs::create_dir_all(directory)?;
    let command = Cli::command();
    clap_mangen::generate_to(command.clone(), directory)?;
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        clap_complete::generate_to(shell, &mut command.clone(), "culvert", directory)?;
    }
    Ok(())
}
