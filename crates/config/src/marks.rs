//! `[[mark]]`: which marks packets get that arrive at a port.

use std::fmt;
use std::str::FromStr;

use serde::Deserialize;

use super::prefix::AddressPrefix;

/// `[[mark]]`: the mark of packets that arrive at a port. The first entry that matches decides.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MarkConfig {
    /// The interface that they come in by; any when left out.
    #[serde(default)]
    pub interface: Option<String>,
    /// Their DSCP; any when left out.
    #[serde(default)]
    pub dscp: Option<Dscp>,
    /// Where they come from; anywhere when left out.
    #[serde(default)]
    pub src: Option<AddressPrefix>,
    /// Where they go; anywhere when left out.
    #[serde(default)]
    pub dst: Option<AddressPrefix>,
    /// The mark, not 0.
    pub mark: u32,
}

/// A code point of Differentiated Services, as a number or by its class: `46`, `"EF"`, `"AF41"`, `"CS1"`,
/// `"VA"`, `"LE"`, `"BE"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
pub struct Dscp(pub u8);

impl Dscp {
    /// The highest code point.
    pub(super) const MAX: Dscp = Dscp(63);

    /// How one is written.
    pub(super) const ALLOWED: &str = "0 to 63, or a class: \"BE\", \"EF\", \"VA\", \"LE\", \"CS0\" to \"CS7\", \
                                      \"AF11\" to \"AF43\"";

    /// RFC 2474 §4.2.2, RFC 2597 §6, RFC 3246 §2.7, RFC 5865 §2.3, RFC 8622 §4; `BE` is the default class, as
    /// nftables has it.
    pub(super) fn of_class(name: &str) -> Option<Dscp> {
        let name = name.to_ascii_uppercase();
        let digit = |byte: u8, most: u8| (b'0'..=b'0' + most).contains(&byte).then(|| byte - b'0');
        let value = match name.as_bytes() {
            b"BE" => 0,
            b"EF" => 46,
            b"VA" => 44,
            b"LE" => 1,
            [b'C', b'S', class] => digit(*class, 7)? << 3,
            [b'A', b'F', class @ b'1'..=b'4', drop @ b'1'..=b'3'] => {
                digit(*class, 4)? << 3 | digit(*drop, 3)? << 1
            }
            _ => return None,
        };
        Some(Dscp(value))
    }
}

impl Dscp {
    /// The class with this code point, as [`Dscp::of_class`] reads it; none for one without a name.
    fn class(self) -> Option<String> {
        Some(match self.0 {
            0 => "BE".into(),
            1 => "LE".into(),
            44 => "VA".into(),
            46 => "EF".into(),
            point if point % 8 == 0 => format!("CS{}", point / 8),
            point => {
                let (class, drop) = (point >> 3, point >> 1 & 3);
                let is_assured = point % 2 == 0 && (1..=4).contains(&class) && drop > 0;
                is_assured.then(|| format!("AF{class}{drop}"))?
            }
        })
    }

    /// As the file writes it: `"EF"`, or a number where it has no class.
    pub(super) fn written(self) -> String {
        self.class().map_or_else(|| self.0.to_string(), |class| format!("{class:?}"))
    }
}

impl fmt::Display for Dscp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.class() {
            Some(class) => f.write_str(&class),
            None => self.0.fmt(f),
        }
    }
}

impl FromStr for Dscp {
    type Err = String;

    fn from_str(text: &str) -> Result<Dscp, String> {
        let number = text.parse().ok().map(Dscp).filter(|dscp| *dscp <= Dscp::MAX);
        let dscp = number.or_else(|| Dscp::of_class(text));
        dscp.ok_or_else(|| format!("this is no DSCP; give {}", Dscp::ALLOWED))
    }
}

impl<'de> Deserialize<'de> for Dscp {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Number(u64),
            Class(String),
        }
        let dscp = match Written::deserialize(deserializer).ok() {
            Some(Written::Number(number @ 0..=63)) => Some(Dscp(number as u8)),
            Some(Written::Class(name)) => Dscp::of_class(&name),
            Some(Written::Number(_)) | None => None,
        };
        let wrong = || format!("this is not a DSCP; write {}", Dscp::ALLOWED);
        dscp.ok_or_else(|| serde::de::Error::custom(wrong()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_have_their_code_points() {
        let of = |name| Dscp::of_class(name).map(|dscp| dscp.0);
        for (name, value) in [
            ("BE", 0),
            ("EF", 46),
            ("cs0", 0),
            ("CS7", 56),
            ("AF11", 10),
            ("AF43", 38),
            ("af23", 22),
            ("va", 44),
            ("LE", 1),
        ] {
            assert_eq!(of(name), Some(value), "{name}");
        }
        for (value, name) in
            [(0, "BE"), (1, "LE"), (8, "CS1"), (38, "AF43"), (46, "EF"), (56, "CS7")]
        {
            assert_eq!(Dscp(value).to_string(), name);
        }
        for value in 0..64 {
            let dscp = Dscp(value);
            assert_eq!(dscp.to_string().parse(), Ok(dscp), "{value}");
        }
        assert!("64".parse::<Dscp>().is_err() && "-1".parse::<Dscp>().is_err());
        for name in ["", "CS8", "AF01", "AF51", "AF14", "AF1", "EFF", "CS", "46"] {
            assert_eq!(of(name), None, "{name}");
        }
    }

    #[test]
    fn what_is_no_rule_is_refused_by_its_key() {
        let parse = |rule: &str| {
            let text = format!("[[mark]]\n{rule}");
            crate::Config::parse(&text, std::path::Path::new("culvert.toml"))
                .map(|config| config.marks.len())
                .map_err(|error| error.to_string())
        };
        assert_eq!(parse("dscp = 46\nmark = 1\ndst = \"10.0.0.0/8\""), Ok(1));
        for (rule, named) in [
            ("mark = 0", "mark[0].mark"),
            ("mark = 1\ndscp = 64", "DSCP"),
            ("mark = 1\ndscp = \"XX\"", "AF11"),
            ("mark = 1\ninterface = \"a/b\"", "mark[0].interface"),
            ("mark = 1\nsrc = \"::/0\"\ndst = \"10.0.0.0/8\"", "mark[0].dst"),
        ] {
            let error = parse(rule).unwrap_err();
            assert!(error.contains(named), "{rule}: {error}");
        }
    }
}
