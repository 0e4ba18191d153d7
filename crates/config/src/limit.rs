//! `[[limit]]`: rate limits.

use std::collections::HashMap;
use std::net::IpAddr;

use dataplane::Each;
use limit::{
    Algorithm, MAX_LEVELS, Settings, SettingsError, Sharing, Treatment, Treatments, units,
};
use serde::Deserialize;

use super::limit_shape::{Mode, Shape};
use super::limit_values::{Action, Burst, Rate};
use super::packets::with_packet_keys;
use super::prefix::AddressPrefix;

with_packet_keys! {
    /// `[[limit]]`: a limiter, and which packets are under it. The first entry that is about a packet decides.
    #[derive(Clone, Debug, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct LimitConfig {
        /// Name of the limit.
        pub name: String,
        /// The committed rate.
        pub rate: Rate,
        /// The committed burst; 10 ms of the rate, at least 10 packets, when left out.
        #[serde(default)]
        pub burst: Option<Burst>,
        /// The peak rate: RFC 2698.
        #[serde(default)]
        pub peak: Option<Rate>,
        /// The peak burst.
        #[serde(default)]
        pub peak_burst: Option<Burst>,
        /// The excess rate: RFC 4115.
        #[serde(default)]
        pub excess: Option<Rate>,
        /// The excess burst; without an excess rate: RFC 2697.
        #[serde(default)]
        pub excess_burst: Option<Burst>,
        /// True if the colour that a packet comes with counts.
        #[serde(default)]
        pub aware: bool,
        /// Treatment of green packets.
        #[serde(default = "pass")]
        pub green: Action,
        /// Treatment of yellow packets.
        #[serde(default = "pass")]
        pub yellow: Action,
        /// Treatment of red packets.
        #[serde(default = "drop_it")]
        pub red: Action,
        /// Bytes that are counted for each packet beyond its own length.
        #[serde(default)]
        pub overhead: u16,
        /// How workers have it in common.
        #[serde(default)]
        pub by: By,
        /// Treatment of packets for which there are no tokens.
        #[serde(default)]
        pub mode: Mode,
        /// Bytes that wait at most; 100 ms of the rate when left out.
        #[serde(default)]
        pub queue: Option<Burst>,
        /// Packets that wait at most.
        #[serde(default)]
        pub queue_packets: Option<u32>,
        /// The limit that its packets are under as well.
        #[serde(default)]
        pub parent: Option<String>,
        /// Owner of buckets: each flow or tunnel. All share them when left out.
        #[serde(default)]
        pub each: Option<EachOf>,
        /// Every packet is under it that no entry before is about.
        #[serde(default)]
        pub all: bool,
        /// The VLAN that they come in by.
        #[serde(default)]
        pub vlan: Option<u16>,
        /// The `if_id` of their SA.
        #[serde(default)]
        pub if_id: Option<u32>,
        /// The reqid of their SA.
        #[serde(default)]
        pub reqid: Option<u32>,
        /// The other end of their SA.
        #[serde(default)]
        pub peer: Option<IpAddr>,
    }
}

/// How workers have a limit in common.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum By {
    /// Each leases tokens ahead.
    #[default]
    Leases,
    /// One has it at a time.
    Atomic,
}

/// Owner of buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EachOf {
    /// Each flow has buckets.
    Flow,
    /// Each tunnel has buckets.
    Tunnel,
}

const fn pass() -> Action {
    Action(Treatment::Pass)
}

const fn drop_it() -> Action {
    Action(Treatment::Drop)
}

impl core::fmt::Display for By {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            By::Leases => "leases",
            By::Atomic => "atomic",
        })
    }
}

impl LimitConfig {
    /// Settings of rates and colours.
    pub fn settings(&self) -> Settings {
        let committed = self.rate.fill(self.burst);
        let algorithm = match (self.peak, self.excess, self.excess_burst) {
            (Some(peak), ..) => Algorithm::TwoRates { committed, peak: peak.fill(self.peak_burst) },
            (None, Some(excess), burst) => {
                Algorithm::Differentiated { committed, excess: excess.fill(burst) }
            }
            (None, None, Some(burst)) => {
                Algorithm::OneRate { committed, excess_burst: burst.tokens() }
            }
            (None, None, None) => Algorithm::Single(committed),
        };
        Settings {
            unit: self.rate.1,
            algorithm,
            is_aware: self.aware,
            overhead: self.overhead,
            treatments: Treatments([self.green.0, self.yellow.0, self.red.0]),
            queue: self.shape().bounds(),
            sharing: match self.by {
                By::Leases => Sharing::Leases,
                By::Atomic => Sharing::Atomic,
            },
        }
    }

    /// Settings of packets that wait.
    fn shape(&self) -> Shape {
        let (mode, rate, queue, packets) = (self.mode, self.rate, self.queue, self.queue_packets);
        Shape { mode, rate, queue, packets }
    }

    /// Owner of buckets, as the data path has it.
    pub fn each(&self) -> Each {
        match self.each {
            None => Each::All,
            Some(EachOf::Flow) => Each::Flow,
            Some(EachOf::Tunnel) => Each::Tunnel,
        }
    }

    /// True if packets are under it by itself. If not, it is another limit's parent alone.
    pub fn is_about_packets(&self) -> bool {
        self.all || self.names_packets()
    }

    fn names_packets(&self) -> bool {
        let of_sa = self.if_id.is_some() || self.reqid.is_some() || self.peer.is_some();
        of_sa || self.vlan.is_some() || self.packets().has_conditions()
    }

    /// Packets that are under it, for people.
    pub fn about(&self) -> String {
        let mut words = Vec::new();
        let mut add = |key: &str, value: Option<String>| {
            words.extend(value.map(|value| format!("{key} {value}")));
        };
        let prefix = |p: &AddressPrefix| format!("{}/{}", p.0.addr, p.0.len);
        add("in by", self.interface.clone());
        add("vlan", self.vlan.map(|id| id.to_string()));
        add("src", self.src.as_ref().map(prefix));
        add("dst", self.dst.as_ref().map(prefix));
        add("dscp", self.dscp.map(|dscp| dscp.0.to_string()));
        add("mark", self.mark.map(|mark| format!("{mark:#x}")));
        add("if_id", self.if_id.map(|id| format!("{id:#x}")));
        add("reqid", self.reqid.map(|id| id.to_string()));
        add("peer", self.peer.map(|peer| peer.to_string()));
        add("application", self.application.clone());
        match (words.is_empty(), self.all) {
            (true, true) => "all".into(),
            (true, false) => String::new(),
            _ => words.join(", "),
        }
    }

    /// The first value that cannot be: its key, itself, and what is allowed.
    fn problem(&self, mtu: u32, names: Names) -> Option<(&'static str, String, &'static str)> {
        if !(names.is_name)(&self.name) {
            let allowed = "a name has 1 to 64 letters, digits, '-' and '_'";
            return Some(("name", self.name.clone(), allowed));
        }
        let rate = |rate: Rate| units::show_rate(rate.0, rate.1);
        let burst = |burst: Burst| units::show_burst(burst.tokens(), burst.1);
        let of_peak = self.peak.is_some() || self.peak_burst.is_some();
        let of_excess = self.excess.is_some() || self.excess_burst.is_some();
        if of_peak && of_excess {
            let value = self.peak.map_or(String::new(), rate);
            return Some(("peak", value, "peak (RFC 2698), or excess (RFC 2697, RFC 4115)"));
        }
        if let (None, Some(of)) = (self.peak, self.peak_burst) {
            return Some(("peak_burst", burst(of), "leave it out, or say the peak rate too"));
        }
        let rates = [("peak", self.peak), ("excess", self.excess)];
        for (key, of) in rates.into_iter().filter_map(|(key, of)| Some((key, of?))) {
            if of.1 != self.rate.1 {
                return Some((key, rate(of), "bits or packets a second, as rate is"));
            }
        }
        let bursts = [
            ("burst", self.burst),
            ("peak_burst", self.peak_burst),
            ("excess_burst", self.excess_burst),
        ];
        for (key, of) in bursts.into_iter().filter_map(|(key, of)| Some((key, of?))) {
            if of.1 != self.rate.1 {
                return Some((
                    key,
                    burst(of),
                    "bytes where rate is in bits, packets where it is in packets",
                ));
            }
        }
        if let Err((error, is_second)) = self.settings().check(mtu.into()) {
            return Some(self.wrong(error, is_second));
        }
        let shape = self.shape().problem(&self.settings(), self.each.is_some(), mtu);
        if shape.is_some() {
            return shape;
        }
        if self.by == By::Atomic && self.mode == Mode::Shape {
            let allowed = "\"leases\" where packets wait: each worker has a queue of its own";
            return Some(("by", "atomic".into(), allowed));
        }
        if self.by == By::Atomic && self.each.is_some() {
            let allowed =
                "\"leases\" where each flow or tunnel has buckets: these are on one worker anyway";
            return Some(("by", "atomic".into(), allowed));
        }
        if let Some(problem) = self.packets().problem(names.is_interface) {
            return Some(problem);
        }
        if self.interface.is_some() && self.vlan.is_some() {
            let value = self.vlan.map_or(String::new(), |id| id.to_string());
            return Some(("vlan", value, "leave it out, or name the VLAN's interface"));
        }
        if let Some(id) = self.vlan.filter(|id| !(1..=4094).contains(id)) {
            return Some(("vlan", id.to_string(), "1 to 4094"));
        }
        if self.all && self.names_packets() {
            return Some(("all", "true".into(), "leave it out where other keys say which packets"));
        }
        None
    }

    /// Which key is behind what the limiter cannot be.
    fn wrong(&self, error: SettingsError, is_second: bool) -> (&'static str, String, &'static str) {
        let second = if self.peak.is_some() { "peak" } else { "excess" };
        let (fill, unit) = match is_second {
            true => (self.settings().second().unwrap_or(self.settings().first()), self.rate.1),
            false => (self.settings().first(), self.rate.1),
        };
        let rate = || units::show_rate(fill.rate, unit);
        let burst = || units::show_burst(fill.burst, unit);
        let rate_key = if is_second { second } else { "rate" };
        let burst_key = match (is_second, self.peak.is_some()) {
            (false, _) => "burst",
            (true, true) => "peak_burst",
            (true, false) => "excess_burst",
        };
        match error {
            SettingsError::ZeroRate => {
                (rate_key, rate(), "above 0; with 0 nothing would ever pass")
            }
            SettingsError::Rate => (rate_key, rate(), "at most 1Tbit, or 1Gpps"),
            SettingsError::PeakBelow => (rate_key, rate(), "not below rate (RFC 2698)"),
            SettingsError::LargeBurst => (burst_key, burst(), "at most 1GiB"),
            SettingsError::SmallBurst { .. } => (
                burst_key,
                burst(),
                "at least tun.mtu (1500B) and overhead, or one packet, or the longest packets never pass; above \
                 500Mbit 80 ns of the rate more",
            ),
        }
    }
}

/// Names that a limit, and an interface, can have.
#[derive(Clone, Copy)]
pub(super) struct Names {
    pub(super) is_name: fn(&str) -> bool,
    pub(super) is_interface: fn(&str) -> bool,
}

/// A value that cannot be: its entry, its key, itself, and what is allowed.
pub(super) type Wrong = (usize, &'static str, String, &'static str);

/// Of each entry the first value that cannot be, and where these are right what does not fit between entries; `mtu` is
/// the length of the longest packet.
pub(super) fn problems(entries: &[LimitConfig], mtu: u32, names: Names) -> Vec<Wrong> {
    let mut places: HashMap<&str, usize> = HashMap::new();
    let mut found = Vec::new();
    for (at, entry) in entries.iter().enumerate() {
        if let Some((key, value, allowed)) = entry.problem(mtu, names) {
            found.push((at, key, value, allowed));
        } else if places.insert(&entry.name, at).is_some() {
            found.push((at, "name", entry.name.clone(), "another name for each limit"));
        }
    }
    if !found.is_empty() {
        return found;
    }
    let mut parents: Vec<bool> = vec![false; entries.len()];
    for at in 0..entries.len() {
        found.extend(of_parents(entries, at, &places, &mut parents));
    }
    let idle = entries
        .iter()
        .zip(parents)
        .enumerate()
        .filter(|(_, (entry, is_parent))| !entry.is_about_packets() && !is_parent);
    let allowed = "true; or say which packets (src, dst, if_id, ...), or name it as a parent";
    found.extend(idle.map(|(at, _)| (at, "all", "false".to_owned(), allowed)));
    found
}

/// First problem of an entry's parents. Marks the entries that are parents.
fn of_parents(
    entries: &[LimitConfig],
    at: usize,
    places: &HashMap<&str, usize>,
    parents: &mut [bool],
) -> Option<Wrong> {
    let entry = entries.get(at)?;
    let parent = entry.parent.as_ref()?;
    let wrong = |allowed| Some((at, "parent", parent.clone(), allowed));
    let mut above = Some(parent);
    for _ in 1..MAX_LEVELS {
        let Some(name) = above else { break };
        let Some(place) = places.get(name.as_str()) else {
            return wrong("the name of another [[limit]]");
        };
        if *place == at {
            return wrong("a limit that is not below this one: the hierarchy has no loops");
        }
        let other = entries.get(*place)?;
        if other.mode == Mode::Shape {
            return wrong(
                "a limit that polices: packets wait at the limit that they are under alone",
            );
        }
        if other.each.is_some() {
            return wrong("a limit without each: a parent has its buckets for all below it");
        }
        if other.by != entry.by {
            let value = format!("{} in {}, {} in {}", entry.by, entry.name, other.by, other.name);
            return Some((at, "by", value, "the same in a limit and all above it"));
        }
        *parents.get_mut(*place)? = true;
        above = other.parent.as_ref();
    }
    match above {
        Some(_) => wrong("at most 4 limits one above the other, without loops"),
        None => None,
    }
}

#[cfg(test)]
mod tests;
