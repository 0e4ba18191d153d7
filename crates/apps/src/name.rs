//! Host names.

use core::borrow::Borrow;
use core::fmt;

/// A host name in lower case, without the dot at its end. Names beyond ASCII are in their `xn--` form.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name(Box<str>);

/// The longest host name, in bytes (RFC 1035 §2.3.4).
const MAX_LEN: usize = 253;

/// The longest label, in bytes.
const MAX_LABEL_LEN: usize = 63;

impl Name {
    /// A name from bytes of a packet. `None` if they are none: a label is empty or too long, or has other characters than
    /// letters, digits, `-` and `_`.
    pub fn new(text: &[u8]) -> Option<Name> {
        let text = text.strip_suffix(b".").unwrap_or(text);
        let is_label = |label: &[u8]| {
            let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
            (1..=MAX_LABEL_LEN).contains(&label.len()) && label.iter().all(is_part)
        };
        if text.len() > MAX_LEN || !text.split(|byte| *byte == b'.').all(is_label) {
            return None;
        }
        let text = core::str::from_utf8(text).ok()?;
        Some(Name(text.to_ascii_lowercase().into()))
    }

    /// Text of the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name, and those that it is below, the longest first: `a.b.example`, `b.example`, `example`.
    pub fn suffixes(&self) -> impl Iterator<Item = &str> {
        core::iter::successors(Some(self.as_str()), |name| {
            name.split_once('.').map(|(_, rest)| rest)
        })
    }
}

/// Names are found by their text, which hashes and compares as they do.
impl Borrow<str> for Name {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_compared_in_lower_case() {
        assert_eq!(Name::new(b"WWW.Example.COM."), Name::new(b"www.example.com"));
        let name = Name::new(b"_dmarc.xn--bcher-kva.example").expect("a name");
        let suffixes: Vec<&str> = name.suffixes().collect();
        assert_eq!(suffixes, ["_dmarc.xn--bcher-kva.example", "xn--bcher-kva.example", "example"]);
    }

    #[test]
    fn bytes_that_are_no_name() {
        let long_label = [b'a'; 64];
        let long = b"abcdefg.".repeat(32);
        let wrong: [&[u8]; 8] = [b"", b".", b"a..b", b".a", b"a b", b"a\0b", &long_label, &long];
        for text in wrong {
            assert_eq!(Name::new(text), None, "{}", text.escape_ascii());
        }
        assert!(Name::new(&long[..253]).is_some());
    }
}
