//! How rates and bursts are written.
//!
//! | what | written | means |
//! | --- | --- | --- |
//! | a rate of bits | `100Mbit`, `1.5Gbit`, `64kbit`, `9600bit` | bits a second |
//! | a rate of packets | `10kpps`, `2.5Mpps`, `300pps` | packets a second |
//! | a burst of bytes | `64kB`, `1.5MB`, `1500B`, `64KiB`, `1MiB` | bytes |
//! | a burst of packets | `32packets`, `1packet` | packets |
//!
//! `k`, `M`, `G` and `T` are thousands, `Ki`, `Mi` and `Gi` powers of 1024. A fraction has to come out whole.

use core::fmt;

use crate::Unit;

/// A text that is no rate, or no burst, with what would be one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitError {
    /// The text as it was written.
    pub text: String,
    /// An example of the right form.
    pub wanted: &'static str,
}

impl fmt::Display for UnitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is {}", self.text, self.wanted)
    }
}

impl core::error::Error for UnitError {}

/// Bits or packets a second.
///
/// # Errors
/// A text that would be right.
pub fn rate(text: &str) -> Result<(u64, Unit), UnitError> {
    let wanted = "no rate; write for instance \"100Mbit\", \"1.5Gbit\" or \"10kpps\"";
    let error = || UnitError { text: text.into(), wanted };
    let (number, word) = split(text);
    let (prefix, unit) = if let Some(prefix) = word.strip_suffix("bit") {
        (prefix, Unit::Bits)
    } else if let Some(prefix) = word.strip_suffix("pps") {
        (prefix, Unit::Packets)
    } else {
        return Err(error());
    };
    Ok((times(number, prefix).ok_or_else(error)?, unit))
}

/// Bytes or packets.
///
/// # Errors
/// A text that would be right.
pub fn burst(text: &str) -> Result<(u64, Unit), UnitError> {
    let wanted = "no burst; write for instance \"64kB\", \"1500B\", \"1MiB\" or \"32packets\"";
    let error = || UnitError { text: text.into(), wanted };
    let (number, word) = split(text);
    let packets = word.strip_suffix("packets").or_else(|| word.strip_suffix("packet"));
    let (prefix, unit) = match (word.strip_suffix('B'), packets) {
        (Some(prefix), _) => (prefix, Unit::Bits),
        (None, Some(prefix)) => (prefix, Unit::Packets),
        (None, None) => return Err(error()),
    };
    Ok((times(number, prefix).ok_or_else(error)?, unit))
}

/// A rate as it is written, the shortest way.
pub fn show_rate(rate: u64, unit: Unit) -> String {
    let word = match unit {
        Unit::Bits => "bit",
        Unit::Packets => "pps",
    };
    scaled(rate) + word
}

/// A burst of bits or packets as it is written, the shortest way.
pub fn show_burst(burst: u64, unit: Unit) -> String {
    match unit {
        Unit::Bits => scaled(burst / 8) + "B",
        Unit::Packets => scaled(burst) + if burst == 1 { "packet" } else { "packets" },
    }
}

/// With the largest prefix that leaves at most three digits behind the point.
fn scaled(value: u64) -> String {
    for (prefix, factor) in PREFIXES.iter().rev().filter(|(prefix, _)| !prefix.ends_with('i')) {
        if value >= *factor && value.is_multiple_of(factor.div_ceil(1000)) {
            let (whole, rest) = (value / factor, value % factor * 1000 / factor);
            let digits = format!("{whole}.{rest:03}");
            let digits = digits.trim_end_matches('0').trim_end_matches('.');
            return format!("{digits}{prefix}");
        }
    }
    value.to_string()
}

/// SI prefixes of a unit, with their factors.
const PREFIXES: [(&str, u64); 8] = [
    ("", 1),
    ("Ki", 1 << 10),
    ("Mi", 1 << 20),
    ("Gi", 1 << 30),
    ("k", 1000),
    ("M", 1_000_000),
    ("G", 1_000_000_000),
    ("T", 1_000_000_000_000),
];

/// A number, and the word behind it.
fn split(text: &str) -> (&str, &str) {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, word) = text.split_at(end);
    (number, word.trim_start())
}

/// A decimal number times its prefix, if that is whole.
fn times(number: &str, prefix: &str) -> Option<u64> {
    let prefix = if prefix == "K" { "k" } else { prefix };
    let (_, factor) = PREFIXES.iter().find(|(name, _)| *name == prefix)?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    if fraction.is_empty() || fraction.len() > 12 {
        return None;
    }
    let whole: u64 = whole.parse().ok()?;
    let digits: u128 = fraction.parse().ok()?;
    let parts = digits.checked_mul(u128::from(*factor))?;
    let unit = 10u128.pow(fraction.len() as u32);
    if parts % unit != 0 {
        return None;
    }
    whole.checked_mul(*factor)?.checked_add(u64::try_from(parts / unit).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_and_bursts_are_read_and_written() {
        for (text, value, unit) in [
            ("100Mbit", 100_000_000, Unit::Bits),
            ("1.5Gbit", 1_500_000_000, Unit::Bits),
            ("10kpps", 10_000, Unit::Packets),
            ("9.6kbit", 9600, Unit::Bits),
            ("1bit", 1, Unit::Bits),
            ("300pps", 300, Unit::Packets),
        ] {
            assert_eq!(rate(text), Ok((value, unit)), "{text}");
            assert_eq!(show_rate(value, unit), text);
        }
        for (text, value, unit, shown) in [
            ("64kB", 64_000, Unit::Bits, "64kB"),
            ("64KiB", 65_536, Unit::Bits, "65.536kB"),
            ("1.5 MB", 1_500_000, Unit::Bits, "1.5MB"),
            ("1500B", 1500, Unit::Bits, "1.5kB"),
            ("1234567B", 1_234_567, Unit::Bits, "1234.567kB"),
            ("32packets", 32, Unit::Packets, "32packets"),
            ("1packet", 1, Unit::Packets, "1packet"),
        ] {
            assert_eq!(burst(text), Ok((value, unit)), "{text}");
            let bits = if unit == Unit::Bits { value * 8 } else { value };
            assert_eq!(show_burst(bits, unit), shown);
        }
    }

    #[test]
    fn what_is_none_says_what_would_be() {
        for text in ["", "100", "100M", "Mbit", "100mbit", "-1Mbit", "1.Mbit", "0.5bit", "1e6bit"] {
            assert!(rate(text).unwrap_err().to_string().contains("100Mbit"), "{text}");
        }
        // Bytes a second, or bits? Not guessed.
        assert!(rate("100Mbps").is_err() && rate("99999999Tbit").is_err());
        for text in ["64k", "64kbit", "1.5B", "packets", "12kb"] {
            assert!(burst(text).unwrap_err().to_string().contains("64kB"), "{text}");
        }
    }
}
