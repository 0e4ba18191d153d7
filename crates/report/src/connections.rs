//! Which connections of charon's are up (`[vici]`).

use serde::{Deserialize, Serialize};

/// Connections that charon knows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Connections {
    /// Where it is asked.
    pub socket: String,
    /// True if charon answers.
    pub reachable: bool,
    /// Why it does not answer.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub why: Option<String>,
    /// The children that are to be up; none while it does not answer.
    pub children: Vec<ConfiguredChild>,
}

/// A child of a connection.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfiguredChild {
    /// Name of the connection.
    pub connection: String,
    /// Name of the child.
    pub child: String,
    /// True if it has SAs.
    pub up: bool,
    /// When it was first seen not to be up, in milliseconds since 1970.
    pub down_since_ms: Option<u64>,
}
