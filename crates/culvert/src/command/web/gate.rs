//! Who is answered.

use std::net::{IpAddr, Ipv6Addr};

use super::token::Token;

/// The token, and the names that the page goes by.
pub struct Gate {
    token: Token,
    hosts: Vec<String>,
    is_exposed: bool,
}

impl Gate {
    /// Where other hosts may come, the page goes by any address, and by the names that are given.
    pub fn new(token: Token, hosts: Vec<String>, is_exposed: bool) -> Gate {
        Gate { token, hosts, is_exposed }
    }

    /// Whether a browser that was led here by this `Host` may be answered.
    ///
    /// A page of another site can have its own name lead to 127.0.0.1, and then asks as if it were this one
    /// (DNS rebinding). Its browser says that name here, as it says every name (RFC 9110, §7.2). An address cannot be
    /// had to lead elsewhere.
    pub fn knows_host(&self, host: &str) -> bool {
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

    /// Whether a field `Authorization` has the token (RFC 6750, §2.1).
    ///
    /// It is no cookie, as a browser gives cookies of one port to every other of the same address.
    pub fn knows_token(&self, authorization: &[u8]) -> bool {
        let Some((scheme, token)) = authorization.split_at_checked(SCHEME.len()) else {
            return false;
        };
        scheme.eq_ignore_ascii_case(SCHEME) && self.token.is(token)
    }
}

const SCHEME: &[u8] = b"Bearer ";

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

    fn gate(hosts: &[&str], is_exposed: bool) -> Gate {
        let hosts = hosts.iter().map(|host| (*host).to_owned()).collect();
        Gate::new(Token::new().expect("a token"), hosts, is_exposed)
    }

    #[test]
    fn loopback_by_address_and_name() {
        let gate = gate(&["gw.example"], false);
        for known in [
            "127.0.0.1:9634",
            "127.0.0.1",
            "localhost:1",
            "LOCALHOST",
            "[::1]:9634",
            "[::1]",
            "gw.example:443",
        ] {
            assert!(gate.knows_host(known), "{known}");
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
            assert!(!gate.knows_host(unknown), "{unknown}");
        }
    }

    #[test]
    fn an_exposed_one_goes_by_every_address() {
        let gate = gate(&[], true);
        assert!(gate.knows_host("192.0.2.1:9634") && gate.knows_host("[2001:db8::1]:9634"));
        assert!(!gate.knows_host("evil.example"));
    }

    #[test]
    fn the_token_is_a_bearers() {
        let gate = gate(&[], false);
        let token = gate.token.to_string();
        let knows = |text: String| gate.knows_token(text.as_bytes());
        assert!(knows(format!("Bearer {token}")) && knows(format!("bearer {token}")));
        for wrong in [
            String::new(),
            "Bearer".into(),
            "Bearer ".into(),
            token.clone(),
            format!("Basic {token}"),
        ] {
            assert!(!knows(wrong.clone()), "{wrong}");
        }
    }
}
