//! Knowledge about a flow.

use core::fmt;

use crate::application::AppId;
use crate::flow_id::{End, FlowId};
use crate::name::Name;

/// Source of what is known about a flow, the surest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum KnownBy {
    /// An operator's prefix, port, protocol or DSCP.
    Rule,
    /// Server name of a TLS ClientHello.
    Tls,
    /// Server name of a QUIC ClientHello.
    Quic,
    /// Host of an HTTP request.
    Http,
    /// Question to a name server.
    Dns,
    /// An encrypted ClientHello: nothing more can be known.
    Hidden,
    /// An answer that a name server gave the flow's client.
    Answer,
    /// Earlier flows to the same server and port.
    Earlier,
    /// A second classifier, nDPI, which read the flow's first packets.
    Ndpi,
    /// Protocol of the flow, which names no host.
    Protocol,
    /// Nothing told anything.
    Nothing,
}

impl KnownBy {
    /// All of them, in their order.
    pub const ALL: [KnownBy; 11] = [
        KnownBy::Rule,
        KnownBy::Tls,
        KnownBy::Quic,
        KnownBy::Http,
        KnownBy::Dns,
        KnownBy::Hidden,
        KnownBy::Answer,
        KnownBy::Earlier,
        KnownBy::Ndpi,
        KnownBy::Protocol,
        KnownBy::Nothing,
    ];

    /// Word for it in answers and metrics.
    pub const fn word(self) -> &'static str {
        match self {
            KnownBy::Rule => "rule",
            KnownBy::Tls => "tls-name",
            KnownBy::Quic => "quic-name",
            KnownBy::Http => "http-host",
            KnownBy::Dns => "dns-question",
            KnownBy::Hidden => "encrypted-hello",
            KnownBy::Answer => "dns-answer",
            KnownBy::Earlier => "earlier-flow",
            KnownBy::Ndpi => "ndpi",
            KnownBy::Protocol => "protocol",
            KnownBy::Nothing => "nothing",
        }
    }

    /// True if the flow itself said it, so that later flows to its server may be known by it.
    pub(crate) const fn is_content(self) -> bool {
        matches!(self, KnownBy::Tls | KnownBy::Quic | KnownBy::Http | KnownBy::Hidden)
    }
}

impl fmt::Display for KnownBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// Verdict on a flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The flow, both directions of it.
    pub flow: FlowId,
    /// End that the flow began at, as far as is known.
    pub client: End,
    /// Application of the flow.
    pub application: AppId,
    /// Host that the client asked for; of [`AppId::HIDDEN`] the name that all clients of that server show.
    pub host: Option<Name>,
    /// Source of it.
    pub known_by: KnownBy,
}
