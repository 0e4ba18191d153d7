//! Which way packets go.

use serde::Serialize;

/// Which way a benchmark's packets go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// Cleartext in, ESP out.
    Outbound,
    /// ESP in, cleartext out.
    Inbound,
}

impl Direction {
    /// As rows and tables name it.
    pub const fn name(self) -> &'static str {
        match self {
            Direction::Outbound => "outbound",
            Direction::Inbound => "inbound",
        }
    }
}
