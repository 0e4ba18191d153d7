//! `culvert app`: what is asked, and what is answered.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

/// Applications of flows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Apps {
    /// True if flows are told apart (`[applications]`).
    pub enabled: bool,
    /// Why flows are not recognised though they should be.
    pub trouble: Option<String>,
    /// Applications that flows were seen of.
    pub applications: Vec<App>,
    /// Packets that were looked at.
    pub copied: u64,
    /// Packets that were not, as they came too fast.
    pub lost: u64,
    /// Packets that tell nothing: fragments, and such as are damaged.
    pub odd: u64,
    /// Answers of name servers that were believed.
    pub answers: u64,
    /// Answers that were not: no question waited for them.
    pub strange_answers: u64,
    /// Flows that were given up for others, as there were too many.
    pub displaced: u64,
    /// The second classifier, where it is on (`applications.ndpi`).
    pub ndpi: Option<AppsNdpi>,
    /// The last verdicts, if they were asked for; the newest first.
    pub recent: Vec<AppFlow>,
}

/// The process that asks nDPI about flows that culvert does not read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AppsNdpi {
    /// Version of the library, while the process answers.
    pub version: Option<String>,
    /// Why it does not.
    pub trouble: Option<String>,
    /// Packets that it was asked about.
    pub asked: u64,
    /// Packets that it was not, as too many waited or there was no process.
    pub unasked: u64,
    /// Processes that were begun.
    pub begun: u64,
    /// Processes that crashed.
    pub crashes: u64,
    /// Processes that gave no answer, and were ended.
    pub hangs: u64,
    /// Processes that had no library, or said what is no answer.
    pub refused: u64,
}

/// Counts of an application.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct App {
    /// Name of the application.
    pub name: String,
    /// Flows with a verdict.
    pub flows: u64,
    /// The same by what they are known by.
    pub known_by: BTreeMap<String, u64>,
    /// Packets that were looked at, and those behind the verdict.
    pub packets: u64,
    /// Bytes of these packets, as IP packets.
    pub bytes: u64,
    /// Those of them that took a path (`[[path]]`), by its name.
    #[serde(default)]
    pub paths: BTreeMap<String, AppOnPath>,
}

/// Counts of an application on one path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AppOnPath {
    /// Packets that went by the path.
    pub packets: u64,
    /// Bytes of these packets.
    pub bytes: u64,
}

/// A verdict on a flow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AppFlow {
    /// Name of the application.
    pub application: String,
    /// Host that the client asked for, if it said so.
    pub host: Option<String>,
    /// Source of the verdict: `tls-name`, `dns-answer`, ...
    pub known_by: String,
    /// IP protocol of the flow.
    pub protocol: u8,
    /// Address of the client, as far as it is known which end that is.
    pub client: IpAddr,
    /// Port of the client.
    pub client_port: u16,
    /// Address of the server.
    pub server: IpAddr,
    /// Port of the server.
    pub server_port: u16,
}
