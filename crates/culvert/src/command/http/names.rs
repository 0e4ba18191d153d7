//! The names that a server goes by.

use std::net::{IpAddr, Ipv6Addr};

use super::response::{Fault, Status};

/// The hosts that a request may name.
pub struct Names {
    hosts: Vec<String>,
    is_exposed: bool,
}

impl Names {
    /// Loopback and the names that are given; where other hosts may come, any address too.
    pub fn new(hosts: Vec<String>, is_exposed: bool) -> Names {
        Names { hosts, is_exposed }
    }

    /// Refuses a request that was led here by another name.
    ///
    /// # Errors
    /// The fault to answer with.
    pub fn check(&self, host: &str) -> Result<(), Fault> {
        match self.knows(host) {
            true => Ok(()),
            false => Err(Fault::new(
                Status::MISDIRECTED,
                "this server does not go by that name; --host adds one",
            )),
        }
    }

    /// True if a browser that was led here by this `Host` may be answered.
    ///
    /// A page of another site can have its own name lead to 127.0.0.1, and then asks as if it were this one
    /// (DNS rebinding). Its browser says that name here, as it says every name (RFC 9110, §7.2). An address cannot be
    /// had to lead elsewhere.
    fn knows(&self, host: &str) -> bool {
        let name = without_port(host);
        let literal = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
        let address = match literal {
            Some(text) => text.parse::<Ipv6Addr>().ok().map(IpAddr::V6),
            None => name.parse().ok().filter(IpAddr::is_ipv4),
        };
        match address {
            Some(address) => self.is_exposed || address.is_loopback(),
            None => std::iter::once("localhost")
                .chain(self.hosts.iter().map(String::as_str))
                .any(|known| known.eq_ignore_ascii_case(name)),
        }
    }
}

/// A host without what follows its last colon, if that is a port.
fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.chars().all(|c| c.is_ascii_digit()) => name,
        _ => host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(hosts: &[&str], is_exposed: bool) -> Names {
        Names::new(hosts.iter().map(|host| (*host).to_owned()).collect(), is_exposed)
    }

    #[test]
    fn loopback_by_address_and_name() {
        let names = names(&["gw.example"], false);
        for known in [
            "127.0.0.1:9634",
            "127.0.0.1",
            "localhost:1",
            "LOCALHOST",
            "[::1]:9634",
            "[::1]",
            "gw.example:443",
        ] {
            assert!(names.knows(known), "{known}");
        }
        for unknown in [
            "",
            ":",
            ":9634",
            "evil.example",
            "localhost.evil.example",
            "evil.example:9634",
            "192.0.2.1:9634",
            "0.0.0.0:9634",
            "[::]",
            "::1",
            "[127.0.0.1]",
            "127.0.0.1.evil.example",
            "127.0.0.1:9634:1",
            "[::1",
        ] {
            assert!(!names.knows(unknown), "{unknown}");
        }
    }

    #[test]
    fn an_exposed_one_goes_by_every_address() {
        let names = names(&[], true);
        assert!(names.knows("192.0.2.1:9634") && names.knows("[2001:db8::1]:9634"));
        assert!(!names.knows("evil.example"));
    }
}
