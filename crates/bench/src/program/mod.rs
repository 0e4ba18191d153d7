//! The command line, and what its commands print.
//!
//! | module | what it is |
//! | --- | --- |
//! | `cli` | the command line |
//! | `run` | which benchmark runs with what, and their report |
//! | `limits`, `requests` | the two that have options and rows of their own |
//! | `live`, `growing` | rows as they come, and their table |

mod cli;
mod growing;
mod limits;
mod live;
mod requests;
mod run;

pub use cli::Cli;
pub use run::run;
