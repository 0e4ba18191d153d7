//! Names of IP protocols, as `ip xfrm` takes and shows them.

use wire::protocol;

/// Protocols that have a name here.
const NAMES: [(&str, u8); 8] = [
    ("icmp", protocol::ICMP),
    ("tcp", protocol::TCP),
    ("udp", protocol::UDP),
    ("gre", 47),
    ("esp", protocol::ESP),
    ("ah", protocol::AH),
    ("icmpv6", protocol::ICMPV6),
    ("sctp", protocol::SCTP),
];

/// A protocol's name, or its number.
pub fn name(number: u8) -> String {
    let named = NAMES.iter().find(|(_, other)| *other == number);
    named.map_or_else(|| number.to_string(), |(name, _)| (*name).to_owned())
}

/// The protocol of a name or number.
///
/// # Errors
/// Text of the protocols that there are.
pub fn parse(text: &str) -> Result<u8, String> {
    let named = NAMES.iter().find(|(name, _)| *name == text).map(|(_, number)| *number);
    named.or_else(|| text.parse().ok()).ok_or_else(|| {
        let names: Vec<&str> = NAMES.iter().map(|(name, _)| *name).collect();
        format!("one of {}, or a number up to 255", names.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_name_and_number() {
        assert_eq!((parse("tcp"), name(6)), (Ok(6), "tcp".into()));
        assert_eq!((parse("88"), name(88)), (Ok(88), "88".into()));
        assert!(parse("tpc").is_err_and(|error| error.starts_with("one of icmp, tcp")));
        assert!(parse("256").is_err());
    }
}
