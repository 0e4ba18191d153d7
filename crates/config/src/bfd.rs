//! `[bfd]`: the `bfdd` of FRR whose sessions are carried out here.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;

use serde::{Deserialize, Deserializer};

/// Sessions of BFD (`[bfd]`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BfdConfig {
    /// Address at which `bfdd` listens for its data plane; none: there are no sessions.
    pub dataplane: Option<DataPlane>,
}

/// Address at which `bfdd` listens for its data plane, as its `--dplaneaddr` has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DataPlane {
    /// A Unix socket: `unix:/run/frr/bfdd_dplane.sock`.
    Unix(PathBuf),
    /// An address and a port: `ipv4:127.0.0.1:50700`, `ipv6:[::1]:50700`.
    Tcp(SocketAddr),
}

/// Longest path of a Unix socket, in bytes.
const MAX_PATH_LEN: usize = 107;

/// Port of `bfdd` where none is named.
const PORT: u16 = 50_700;

impl DataPlane {
    /// Reads the value of `--dplaneaddr`.
    ///
    /// # Errors
    /// The mistake in it, and the forms that are right.
    fn parse(text: &str) -> Result<DataPlane, String> {
        let allowed = "write unix:PATH, ipv4:ADDRESS:PORT or ipv6:[ADDRESS]:PORT, as bfdd's \
                       --dplaneaddr has it";
        let wrong = |why: &str| format!("\"{text}\": {why}; {allowed}");
        let (kind, rest) = text.split_once(':').ok_or_else(|| wrong("there is no kind"))?;
        match kind {
            "unix" => {
                let path = PathBuf::from(rest);
                match path.is_absolute() && rest.len() <= MAX_PATH_LEN {
                    true => Ok(DataPlane::Unix(path)),
                    false => Err(wrong("this is no absolute path of at most 107 bytes")),
                }
            }
            "ipv4" => {
                let (addr, port) = match rest.split_once(':') {
                    Some((addr, port)) => (addr, port.parse().ok()),
                    None => (rest, Some(PORT)),
                };
                let addr: Option<Ipv4Addr> = addr.parse().ok();
                tcp(addr.map(IpAddr::V4), port)
                    .ok_or_else(|| wrong("this is no IPv4 address and port"))
            }
            "ipv6" => {
                let (addr, port) =
                    match rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
                        Some((addr, "")) => (addr, Some(PORT)),
                        Some((addr, port)) => {
                            (addr, port.strip_prefix(':').and_then(|port| port.parse().ok()))
                        }
                        None => (rest, Some(PORT)),
                    };
                let addr: Option<Ipv6Addr> = addr.parse().ok();
                tcp(addr.map(IpAddr::V6), port)
                    .ok_or_else(|| wrong("this is no IPv6 address and port"))
            }
            "unixc" | "ipv4c" | "ipv6c" => Err(wrong(
                "bfdd would connect to culvert, and keep sessions up that nobody checks while it cannot",
            )),
            _ => Err(wrong("this kind of address is not known")),
        }
    }
}

fn tcp(addr: Option<IpAddr>, port: Option<u16>) -> Option<DataPlane> {
    let port = port.filter(|port| *port != 0)?;
    Some(DataPlane::Tcp(SocketAddr::new(addr?, port)))
}

impl fmt::Display for DataPlane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DataPlane::Unix(path) => write!(f, "unix:{}", path.display()),
            DataPlane::Tcp(addr) if addr.is_ipv4() => write!(f, "ipv4:{addr}"),
            DataPlane::Tcp(addr) => write!(f, "ipv6:{addr}"),
        }
    }
}

impl<'de> Deserialize<'de> for DataPlane {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        DataPlane::parse(&text).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_those_of_bfdd() {
        for (text, written) in [
            ("unix:/run/frr/bfdd_dplane.sock", "unix:/run/frr/bfdd_dplane.sock"),
            ("ipv4:127.0.0.1:4000", "ipv4:127.0.0.1:4000"),
            ("ipv4:127.0.0.1", "ipv4:127.0.0.1:50700"),
            ("ipv6:[::1]:4000", "ipv6:[::1]:4000"),
            ("ipv6:[::1]", "ipv6:[::1]:50700"),
            ("ipv6:::1", "ipv6:[::1]:50700"),
        ] {
            let read = DataPlane::parse(text).map(|read| read.to_string());
            assert_eq!(read.as_deref(), Ok(written));
        }
    }

    #[test]
    fn what_is_no_address_is_refused_by_what_is_wrong() {
        for (text, why) in [
            ("/run/frr/bfdd_dplane.sock", "there is no kind"),
            ("unix:bfdd.sock", "no absolute path"),
            ("unix:", "no absolute path"),
            ("ipv4:::1:50700", "no IPv4 address"),
            ("ipv4:127.0.0.1:0", "no IPv4 address and port"),
            ("ipv4:127.0.0.1:99999", "no IPv4 address and port"),
            ("ipv6:[::1]50700", "no IPv6 address"),
            ("ipv6:127.0.0.1", "no IPv6 address"),
            ("unixc:/run/frr/bfdd_dplane.sock", "nobody checks"),
            ("tcp:127.0.0.1:50700", "not known"),
        ] {
            let error = DataPlane::parse(text).expect_err(text);
            assert!(error.contains(why) && error.contains("unix:PATH"), "{text}: {error}");
        }
        let long = format!("unix:/{}", "x".repeat(107));
        assert!(DataPlane::parse(&long).is_err());
    }
}
