//! `[srv6]` and `[[sid]]`: SRv6 that Linux has no word for.
//!
//! A segment is written as iproute2 writes it behind `encap seg6local`: `action End.DT46 table 100`. Flavours that
//! this Linux does not have (`usp`, `usd`, `replace-csid`) are taken here.

use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

use mirror::{Seg6Local, SidAction};
use serde::Deserialize;

use super::prefix::AddressPrefix;

/// Section `[srv6]` of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Srv6Config {
    /// The source of packets that get outer headers; an address of the interface they leave by where there is none
    /// (as `ip sr tunsrc set`).
    pub source: Option<Ipv6Addr>,
    /// Interfaces inside the domain. Packets for a segment that come in by another one are dropped (RFC 8754 §5.1).
    pub domain: Vec<String>,
    /// True if all packets that SAs decrypt are inside the domain, and not only those of the
    /// tunnel interfaces among `domain`.
    pub trust_sas: bool,
}

impl Srv6Config {
    /// Settings that keep packets from segments, for people; `is_there` tells if an interface
    /// exists.
    pub fn closed(&self, is_there: impl Fn(&str) -> bool) -> impl Iterator<Item = String> {
        let is_closed = self.domain.is_empty() && !self.trust_sas;
        let closed = is_closed.then(|| {
            "srv6: no interface is inside the domain, so packets for segments are dropped (srv6-edge)".to_owned()
        });
        let missing = self.domain.iter().filter(move |name| !is_there(name)).map(|name| {
            format!("srv6.domain = {name:?}: there is no such interface, so no packet for a segment comes in by it")
        });
        closed.into_iter().chain(missing)
    }

    /// The first name of `domain` that no interface can have.
    pub(super) fn wrong_name(&self, is_interface: fn(&str) -> bool) -> Option<(usize, &String)> {
        self.domain.iter().enumerate().find(|(_, name)| !is_interface(name))
    }
}

/// Section `[[sid]]` of the file.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SidConfig {
    /// The destinations that are this segment.
    pub prefix: AddressPrefix,
    /// Behaviour of the segment.
    pub action: SidText,
    /// The interface that packets count as received by, and that link-local next hops are on.
    #[serde(default)]
    pub dev: Option<String>,
}

/// A segment as iproute2 writes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SidText {
    /// The part for which Linux has words; without the interface.
    pub local: Seg6Local,
    /// The name of its interface.
    pub oif: Option<String>,
    /// REPLACE-CSID, with the lengths of block and of node and function, in bits.
    pub replace_csid: Option<(u8, u8)>,
    /// True if segments of `End.B6.Encaps` are put on reduced.
    pub is_reduced: bool,
}

impl<'de> Deserialize<'de> for SidText {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let wrong = |wrong| {
            let example = "write it as iproute2 does, such as \"End.DT4 vrftable 100\"";
            serde::de::Error::custom(format!("{wrong}; {example}"))
        };
        text.parse().map_err(wrong)
    }
}

impl FromStr for SidText {
    type Err = String;

    fn from_str(text: &str) -> Result<SidText, String> {
        let mut words = text.split_whitespace().peekable();
        words.next_if_eq(&"action");
        let name = words.next().ok_or("no action")?;
        let (action, is_reduced) = action(name).ok_or_else(|| {
            format!(
                "unknown action {name}; there are End, End.X, End.T, End.DX2, End.DX4, End.DX6, \
                     End.DT4, End.DT6, End.DT46, End.B6.Encaps and End.B6.Encaps.Red"
            )
        })?;
        let mut local = Seg6Local::new(action);
        let (mut oif, mut lengths, mut csid) = (None, (None, None), None);
        while let Some(key) = words.next() {
            if key == "srh" {
                continue;
            }
            let value = words.next().ok_or_else(|| format!("{key} has no value"))?;
            let wrong = || format!("{key} {value} is none");
            match key {
                "table" | "vrftable" => local.table = Some(value.parse().map_err(|_| wrong())?),
                "nh4" => local.nh4 = Some(value.parse().map_err(|_| wrong())?),
                "nh6" => local.nh6 = Some(value.parse().map_err(|_| wrong())?),
                "oif" => oif = Some(value.to_owned()),
                "segs" => {
                    let segments = value.split(',').map(str::parse).collect::<Result<_, _>>();
                    local.segments = segments.map_err(|_| wrong())?;
                }
                "flavors" => {
                    for flavour in value.split(',') {
                        match flavour {
                            "psp" => local.flavours[0] = true,
                            "usp" => local.flavours[1] = true,
                            "usd" => local.flavours[2] = true,
                            "next-csid" | "replace-csid" if csid.is_none() => csid = Some(flavour),
                            _ => {
                                return Err(format!(
                                    "unknown flavor {flavour}; there are psp, usp, usd, and one of \
                                 next-csid and replace-csid"
                                ));
                            }
                        }
                    }
                }
                "lblen" => lengths.0 = Some(value.parse().map_err(|_| wrong())?),
                "nflen" => lengths.1 = Some(value.parse().map_err(|_| wrong())?),
                _ => return Err(format!("unknown word {key}")),
            }
        }
        let lengths = (lengths.0.unwrap_or(32), lengths.1.unwrap_or(16));
        let replace_csid = (csid == Some("replace-csid")).then_some(lengths);
        local.next_csid = (csid == Some("next-csid")).then_some(lengths);
        let sid = SidText { local, oif, replace_csid, is_reduced };
        sid.check().map(|()| sid)
    }
}

impl SidText {
    /// Checks that it has what its action needs.
    fn check(&self) -> Result<(), String> {
        let local = &self.local;
        let (has, needs) = match local.action {
            SidAction::End => (true, ""),
            SidAction::EndX | SidAction::EndDx6 => (local.nh6.is_some(), "nh6"),
            SidAction::EndDx4 => (local.nh4.is_some(), "nh4"),
            SidAction::EndDx2 => (self.oif.is_some(), "oif"),
            SidAction::EndT | SidAction::EndDt4 | SidAction::EndDt6 | SidAction::EndDt46 => {
                (local.table.is_some(), "table")
            }
            SidAction::EndB6Encaps => {
                ((1..=srv6::MAX_SEGMENTS).contains(&local.segments.len()), "segs, 1 to 8 of them")
            }
            SidAction::Other(_) => (false, "another action"),
        };
        let lengths = match (local.next_csid, self.replace_csid) {
            (Some((block, function)), _) => srv6::Csid::next(block, function).is_some(),
            (_, Some((block, function))) => srv6::Csid::replace(block, function).is_some(),
            (None, None) => true,
        };
        match (has, lengths) {
            (false, _) => Err(format!("the action needs {needs}")),
            (true, false) => {
                Err("lblen and nflen are whole bytes, and leave room for an argument; \
                                  nflen of replace-csid is 8, 16, 32 or 64"
                    .into())
            }
            (true, true) => Ok(()),
        }
    }
}

fn action(name: &str) -> Option<(SidAction, bool)> {
    Some(match name {
        "End" => (SidAction::End, false),
        "End.X" => (SidAction::EndX, false),
        "End.T" => (SidAction::EndT, false),
        "End.DX2" => (SidAction::EndDx2, false),
        "End.DX4" => (SidAction::EndDx4, false),
        "End.DX6" => (SidAction::EndDx6, false),
        "End.DT4" => (SidAction::EndDt4, false),
        "End.DT6" => (SidAction::EndDt6, false),
        "End.DT46" => (SidAction::EndDt46, false),
        "End.B6.Encaps" => (SidAction::EndB6Encaps, false),
        "End.B6.Encaps.Red" => (SidAction::EndB6Encaps, true),
        _ => return None,
    })
}

/// Problems of the list: entry, key, value, and what is allowed. `is_interface` tells the names
/// that an interface may have.
pub(super) fn problems(
    sids: &[SidConfig],
    is_interface: fn(&str) -> bool,
) -> impl Iterator<Item = (usize, &'static str, String, &'static str)> {
    sids.iter().enumerate().filter_map(move |(at, sid)| {
        let addr = sid.prefix.0.addr;
        let is_wrong = match addr {
            IpAddr::V4(_) => true,
            IpAddr::V6(addr) => addr.is_multicast() || addr.is_unicast_link_local(),
        };
        let name = sid.dev.as_ref().filter(|name| !is_interface(name));
        match (is_wrong, name) {
            (true, _) => Some((at, "prefix", addr.to_string(), "IPv6, and not of a link alone")),
            (_, Some(name)) => Some((at, "dev", name.clone(), "an interface's name")),
            _ => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_domain_without_interfaces_is_told_and_so_are_names_of_none() {
        let of = |text: &str| toml::from_str::<Srv6Config>(text).expect("good");
        let closed = |text: &str| of(text).closed(|name| name == "wan").collect::<Vec<_>>();
        let [none] = &closed("")[..] else { panic!("one") };
        assert!(none.contains("no interface is inside the domain"), "{none}");
        assert!(closed("domain = [\"wan\"]").is_empty());
        assert!(closed("trust_sas = true").is_empty());
        let [missing] = &closed("domain = [\"wan\", \"wam\"]")[..] else { panic!("one") };
        assert!(missing.starts_with("srv6.domain = \"wam\": there is no such"), "{missing}");
        assert!(toml::from_str::<Srv6Config>("edge = [\"lan\"]").is_err());
    }

    #[test]
    fn segments_are_written_as_iproute2_writes_them() {
        let dt46: SidText = "action End.DT46 vrftable 100".parse().expect("good");
        let expected = Seg6Local { table: Some(100), ..Seg6Local::new(SidAction::EndDt46) };
        assert_eq!(dt46.local, expected);
        let b6: SidText = "End.B6.Encaps.Red srh segs fc00::1,fc00::2".parse().expect("good");
        assert!(b6.is_reduced && b6.local.segments.len() == 2);
        let text = "End.X nh6 fe80::1 flavors psp,usd,replace-csid lblen 64 nflen 32";
        let x: SidText = text.parse().expect("good");
        assert_eq!((x.replace_csid, x.local.flavours), (Some((64, 32)), [true, false, true]));
        let next: SidText = "End flavors next-csid".parse().expect("good");
        assert_eq!(next.local.next_csid, Some((32, 16)));
        for (text, says) in [
            ("", "no action"),
            ("End.Y", "unknown action"),
            ("End.X", "needs nh6"),
            ("End.DT4 table red", "is none"),
            ("End.DX4 nh4", "no value"),
            ("End flavors psp,x", "unknown flavor"),
            ("End flavors next-csid,replace-csid", "unknown flavor"),
            ("End flavors replace-csid nflen 24", "whole bytes"),
            ("End color 5", "unknown word"),
        ] {
            let wrong = text.parse::<SidText>().expect_err(text);
            assert!(wrong.contains(says), "{text}: {wrong}");
        }
    }
}
