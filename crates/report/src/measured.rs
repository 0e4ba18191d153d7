//! `culvert path`: paths that are measured, and the reflector.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

/// Everything that is measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MeasuredPaths {
    /// Sessions in the order of the configuration: each path in each of its classes.
    pub paths: Vec<MeasuredPath>,
    /// Reflector for the probes of others. `None` without one.
    pub reflector: Option<ReflectorCounts>,
    /// Reflector for the probes of others that come in clear. `None` without one.
    #[serde(default)]
    pub clear_reflector: Option<ReflectorCounts>,
}

/// A path in one class.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MeasuredPath {
    /// Name of the path.
    pub name: String,
    /// Tunnel interface by which probes leave. `None`: as policies and routes lead, or by an uplink.
    pub tunnel: Option<String>,
    /// Interface of the uplink by which probes leave in clear. `None`: they do not.
    pub uplink: Option<String>,
    /// Address of this host.
    pub source: Option<IpAddr>,
    /// Address of the far end.
    pub to: Option<IpAddr>,
    /// Kind of probes: `stamp` or `icmp`.
    pub mode: String,
    /// True if probes and replies have a key.
    pub keyed: bool,
    /// DSCP of the probes.
    pub dscp: u8,
    /// State of the path.
    pub state: PathState,
    /// Seconds for which it has had the state.
    pub since_s: u64,
    /// Cost of the path, and the penalty of its state: the least is the best.
    pub penalty: u64,
    /// Milliseconds from one probe to the next.
    pub interval_ms: u32,
    /// Probes that were sent.
    pub sent: u64,
    /// Probes that were answered.
    pub answered: u64,
    /// Probes of the window, of which the outcome is known.
    pub window: u32,
    /// Probes of the window that were lost.
    pub lost: u32,
    /// Loss in the window, in percent.
    pub loss_percent: f64,
    /// Loss of the path's own packets on their way to the far end. `None`: nobody counts them.
    pub away: Option<TrafficLoss>,
    /// Loss of the path's own packets on their way back. `None`: nobody counts them.
    pub back: Option<TrafficLoss>,
    /// Median of the window's delays, there and back, in milliseconds.
    pub delay_ms: f64,
    /// 99th percentile of the window's delays, in milliseconds.
    pub delay_p99_ms: f64,
    /// Packet delay variation (RFC 5481): the 95th percentile of delays less the shortest, in milliseconds.
    pub jitter_ms: f64,
    /// Replies that measured nothing, and times that cannot be, by kind; only what has occurred.
    pub refused: BTreeMap<String, u64>,
    /// Reason that its probes cannot be answered, as far as this host can see. `None`: it sees none.
    pub trouble: Option<String>,
}

/// Loss of a path's own packets in the last second, in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TrafficLoss {
    /// Packets that were sent, probes among them.
    pub sent: u32,
    /// Those among them that are lost.
    pub lost: u32,
    /// The same, in percent.
    pub loss_percent: f64,
}

/// State of a path in one class, from the best to the worst.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PathState {
    /// Within its bounds.
    Good,
    /// Beyond a bound.
    Degraded,
    /// Beyond twice a bound.
    Bad,
    /// Not known yet.
    #[default]
    Untried,
    /// Without replies for too long.
    Dead,
}

impl PathState {
    /// Name of the state, as it is shown.
    pub const fn name(self) -> &'static str {
        match self {
            PathState::Good => "good",
            PathState::Degraded => "degraded",
            PathState::Bad => "bad",
            PathState::Untried => "untried",
            PathState::Dead => "dead",
        }
    }
}

/// Counts of the reflector.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReflectorCounts {
    /// UDP port of the reflector.
    pub port: u16,
    /// Probes that were sent back.
    pub reflected: u64,
    /// Other probes, and reflections that are less than usual, by kind; only what has occurred.
    pub refused: BTreeMap<String, u64>,
}

#[cfg(test)]
mod tests {
    use super::PathState::{self, Bad, Dead, Degraded, Good, Untried};

    #[test]
    fn a_state_is_written_as_it_is_named() {
        for state in [Good, Degraded, Bad, Untried, Dead] {
            let json = serde_json::to_string(&state).unwrap();
            assert_eq!(json, format!("\"{}\"", state.name()));
            assert_eq!(serde_json::from_str::<PathState>(&json).unwrap(), state);
        }
    }
}
