//! Packets that scapy made, of the files in `tests/vectors`.

use crypto::Keys;
use esp::SaParams;

/// A packet before and after, with its SA.
pub struct Vector {
    /// Counted from one.
    pub line: usize,
    pub params: SaParams,
    pub keys: Keys,
    pub seq: u64,
    pub clear: Vec<u8>,
    pub sealed: Vec<u8>,
}

/// The fields of each line that is no comment, and the line's number.
pub fn lines(file: &str) -> impl Iterator<Item = (usize, Vec<&str>)> {
    let numbered = (1..).zip(file.lines());
    numbered.filter(|(_, l)| !l.starts_with('#')).map(|(at, l)| (at, l.split(' ').collect()))
}

/// A byte string in hexadecimal; `-` is an empty one.
pub fn hex(text: &str) -> Vec<u8> {
    let text = if text == "-" { "" } else { text };
    (0..text.len()).step_by(2).map(|i| u8::from_str_radix(&text[i..i + 2], 16).unwrap()).collect()
}
