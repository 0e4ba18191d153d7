//! The command line, and what its commands print.
//!
//! | module | what it is |
//! | --- | --- |
//! | `cli` | the command line |
//! | `run` | which benchmark runs with what, and their report |
//! | `limits`, `moves`, `requests` | those that have options and rows of their own |
//! | `live`, `growing` | rows as they come, and their table |

mod cli;
mod growing;
mod limits;
mod live;
mod moves;
mod requests;
mod run;

pub use cli::Cli;
pub use run::run;
