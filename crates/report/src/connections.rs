//! Which connections of charon's are up (`[vici]`).

use serde::{Deserialize, Serialize};

/// What charon says of its connections.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Connections {
    /// Where it is asked.
    pub socket: String,
    /// Whether it answers.
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
    /// Its connection's name.
    pub connection: String,
    /// Its own name.
    pub child: String,
    /// Whether it has SAs.
    pub up: bool,
    /// When it was first seen not to be up, in milliseconds since 1970.
    pub down_since_ms: Option<u64>,
}
