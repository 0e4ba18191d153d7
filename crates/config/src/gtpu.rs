//! `[[gtpu]]`: whose the GTP-U of an address is.

use std::net::IpAddr;
use std::ops::RangeInclusive;

use serde::Deserialize;

use super::memif::MemifConfig;
use super::port::mac;

/// `[[gtpu]]`: an application that has tunnels of an address.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GtpuConfig {
    /// The address that decrypted packets have to be for. It may be this host's.
    pub address: IpAddr,
    /// The memif port of the application.
    pub port: String,
    /// TEIDs of its tunnels; all when left out.
    #[serde(default)]
    teid: Option<Teids>,
    /// The port's queue that gets all of it; as other packets to the port when left out.
    #[serde(default)]
    pub queue: Option<u16>,
    /// The application's Ethernet address; all stations when left out.
    #[serde(default)]
    pub mac: Option<Station>,
    /// A neighbour at the port, in the place of `mac`.
    #[serde(default)]
    pub via: Option<IpAddr>,
    /// True if it gets echoes. When left out: true if it has all tunnels.
    #[serde(default)]
    echo: Option<bool>,
    /// True if it gets error indications. When left out: true if it has all tunnels.
    #[serde(default)]
    error_indications: Option<bool>,
    /// Treatment of malformed messages to the address.
    #[serde(default = "drop_them")]
    pub malformed: GtpuOtherwise,
    /// Treatment of messages whose TEID no application has.
    #[serde(default)]
    pub unknown: GtpuOtherwise,
}

/// Treatment of messages that belong to no application.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GtpuOtherwise {
    /// Linux gets them.
    #[default]
    Linux,
    /// They are dropped.
    Drop,
}

fn drop_them() -> GtpuOtherwise {
    GtpuOtherwise::Drop
}

/// The address of one station.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Station(pub [u8; 6]);

impl<'de> Deserialize<'de> for Station {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let allowed = "six bytes such as \"02:00:00:00:00:01\", of one station";
        mac(&text).map(Station).ok_or_else(|| {
            serde::de::Error::custom(format!("{text:?} is no Ethernet address; write {allowed}"))
        })
    }
}

/// A range of TEIDs, or one: `"0x1000-0x1fff"`, `"4096"`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Teids(RangeInclusive<u32>);

impl<'de> Deserialize<'de> for Teids {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        teids(&text).map(Teids).ok_or_else(|| {
            serde::de::Error::custom(format!(
                "{text:?} is no range of TEIDs; write for instance \"0x1000-0x1fff\", or one TEID"
            ))
        })
    }
}

fn teids(text: &str) -> Option<RangeInclusive<u32>> {
    let number = |text: &str| {
        let text = text.trim();
        match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
            Some(digits) => u32::from_str_radix(digits, 16).ok(),
            None => text.parse().ok(),
        }
    };
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let range = number(first)?..=number(last)?;
    (!range.is_empty()).then_some(range)
}

impl GtpuConfig {
    /// TEIDs of its tunnels.
    pub fn teids(&self) -> RangeInclusive<u32> {
        self.teid.as_ref().map_or(0..=u32::MAX, |teids| teids.0.clone())
    }

    /// True if it gets echoes.
    pub fn takes_echo(&self) -> bool {
        self.echo.unwrap_or(self.teid.is_none())
    }

    /// True if it gets error indications.
    pub fn takes_errors(&self) -> bool {
        self.error_indications.unwrap_or(self.teid.is_none())
    }
}

/// A value that cannot be: its entry, its key, itself, and what is allowed.
pub(super) type Wrong = (usize, &'static str, String, &'static str);

/// Of each entry the first value that cannot be.
pub(super) fn problems(
    entries: &[GtpuConfig],
    memifs: &[MemifConfig],
) -> impl Iterator<Item = Wrong> {
    entries.iter().enumerate().filter_map(move |(at, entry)| {
        let (key, value, allowed) = one(entry, entries.get(..at)?, memifs)?;
        Some((at, key, value, allowed))
    })
}

/// First problem of an entry that follows these.
fn one(
    entry: &GtpuConfig,
    before: &[GtpuConfig],
    memifs: &[MemifConfig],
) -> Option<(&'static str, String, &'static str)> {
    let Some(memif) = memifs.iter().find(|memif| memif.interface == entry.port) else {
        let allowed = "the interface of a [[port]] with kind = \"memif\"";
        return Some(("port", entry.port.clone(), allowed));
    };
    if let Some(queue) = entry.queue.filter(|queue| u32::from(*queue) >= memif.queues) {
        return Some(("queue", queue.to_string(), "below the port's queues, from 0"));
    }
    if entry.mac.is_some() && entry.via.is_some() {
        let via = entry.via.map_or(String::new(), |via| via.to_string());
        return Some(("via", via, "leave it out where there is mac"));
    }
    let teids = entry.teids();
    for other in before.iter().filter(|other| other.address == entry.address) {
        let theirs = other.teids();
        if teids.start() <= theirs.end() && theirs.start() <= teids.end() {
            let value = format!("{:#x}-{:#x}", teids.start(), teids.end());
            return Some(("teid", value, "TEIDs that no other entry of the address has"));
        }
        if entry.takes_echo() && other.takes_echo() {
            return Some(("echo", "true".into(), "true in one entry of an address alone"));
        }
        if entry.takes_errors() && other.takes_errors() {
            let allowed = "true in one entry of an address alone";
            return Some(("error_indications", "true".into(), allowed));
        }
        let allowed = "the same in all entries of an address";
        let word = |otherwise: GtpuOtherwise| format!("{otherwise:?}").to_lowercase();
        if entry.malformed != other.malformed {
            return Some(("malformed", word(entry.malformed), allowed));
        }
        if entry.unknown != other.unknown {
            return Some(("unknown", word(entry.unknown), allowed));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;

    fn parse(entries: &str) -> Result<Vec<GtpuConfig>, String> {
        let ports = "[[port]]\ninterface = \"wan\"\n[[port]]\ninterface = \"app0\"\n\
                     kind = \"memif\"\nsocket = \"/run/a.sock\"\nqueues = 2\n";
        let text = format!("{ports}{entries}");
        Config::parse(&text, std::path::Path::new("culvert.toml"))
            .map(|config| config.gtpu)
            .map_err(|error| error.to_string())
    }

    const APP: &str = "[[gtpu]]\naddress = \"10.1.0.1\"\nport = \"app0\"\n";

    #[test]
    fn who_has_all_tunnels_has_what_is_of_none() {
        let all = parse(APP).unwrap().remove(0);
        assert_eq!(all.teids(), 0..=u32::MAX);
        assert!(all.takes_echo() && all.takes_errors());
        assert_eq!((all.malformed, all.unknown), (GtpuOtherwise::Drop, GtpuOtherwise::Linux));
        let some = parse(&format!("{APP}teid = \"0x1000-0x1fff\"\nerror_indications = true"));
        let some = some.unwrap().remove(0);
        assert_eq!(some.teids(), 0x1000..=0x1fff);
        assert!(!some.takes_echo() && some.takes_errors());
        let all = parse(&format!("{APP}echo = false\n")).unwrap().remove(0);
        assert!(!all.takes_echo() && all.takes_errors());
    }

    #[test]
    fn ranges_as_they_are_written() {
        assert_eq!(teids("0x1000-0x1fff"), Some(0x1000..=0x1fff));
        assert_eq!(teids("1 - 7"), Some(1..=7));
        assert_eq!(teids("0XFFFFFFFF"), Some(u32::MAX..=u32::MAX));
        for text in ["", "-", "5-4", "0x", "1-", "4294967296", "a", "1-2-3"] {
            assert_eq!(teids(text), None, "{text}");
        }
    }

    #[test]
    fn what_cannot_be_is_refused_by_its_key() {
        let second = |keys: &str| format!("{APP}teid = \"1-9\"\n{APP}{keys}");
        assert!(parse(&second("teid = \"10\"\nqueue = 1\nvia = \"10.1.5.2\"")).is_ok());
        assert!(parse(&second("teid = \"0-9\"").replacen("10.1.0.1", "10.1.0.2", 1)).is_ok());
        for (text, named) in [
            (APP.replace("app0", "wan"), "gtpu[0].port"),
            (format!("{APP}queue = 2"), "gtpu[0].queue"),
            (format!("{APP}teid = \"9-1\""), "0x1000-0x1fff"),
            (format!("{APP}mac = \"ff:ff:ff:ff:ff:ff\""), "of one station"),
            (format!("{APP}mac = \"02:00:00:00:00:01\"\nvia = \"10.1.5.2\""), "gtpu[0].via"),
            (second("teid = \"9-11\""), "gtpu[1].teid"),
            (second(""), "gtpu[1].teid"),
            (second("teid = \"10\"\nmalformed = \"linux\""), "gtpu[1].malformed"),
            (second("teid = \"10\"\nunknown = \"drop\""), "gtpu[1].unknown"),
            (
                format!("{APP}teid = \"1\"\necho = true\n{APP}teid = \"2\"\necho = true"),
                "gtpu[1].echo",
            ),
        ] {
            let error = parse(&text).unwrap_err();
            assert!(error.contains(named), "{text}: {error}");
        }
    }
}
