//! Bodies of ICMP echoes (RFC 792, RFC 4443 §4), for far ends that have no reflector.
//!
//! An echo request carries a token that nobody else knows, and comes back as it is. The ICMP header itself is the caller's:
//! its identifier tells sessions apart, its sequence number is the lower half of the probe's.

/// Length of an echo's body, in bytes: that of a test packet without a key, less the ICMP header.
pub const LEN: usize = 36;

/// Marks a probe among the echoes of other programs. The rest of a body is zeros.
const MARK: [u8; 4] = *b"CVPE";

/// Body of an echo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Echo {
    /// Number of the probe.
    pub seq: u32,
    /// Time of the probe with random lowest bits, by which its reply is believed.
    pub token: u64,
}

impl Echo {
    /// Writes the body. Returns its length in bytes; `None` if the buffer is shorter.
    pub fn emit(&self, out: &mut [u8]) -> Option<usize> {
        let out = out.get_mut(..LEN)?;
        out.fill(0);
        let fields = MARK.iter().copied().chain(self.seq.to_be_bytes());
        let fields = fields.chain(self.token.to_be_bytes());
        out.iter_mut().zip(fields).for_each(|(to, from)| *to = from);
        Some(LEN)
    }

    /// Reads a body. `None` if it is not of a probe.
    pub fn parse(bytes: &[u8]) -> Option<Echo> {
        let (mark, rest) = bytes.get(..LEN)?.split_first_chunk()?;
        let (seq, rest) = rest.split_first_chunk()?;
        let (token, _) = rest.split_first_chunk()?;
        let echo = Echo { seq: u32::from_be_bytes(*seq), token: u64::from_be_bytes(*token) };
        (*mark == MARK).then_some(echo)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comes_back_as_it_was() {
        let echo = Echo { seq: 7, token: 0x0102_0304_0506_0708 };
        let mut out = [0xff; 40];
        assert_eq!(echo.emit(&mut out), Some(LEN));
        assert_eq!(out[36..], [0xff; 4]);
        assert_eq!(Echo::parse(&out), Some(echo));
        assert_eq!(Echo::parse(&out[..35]), None);
        out[0] ^= 1;
        assert_eq!(Echo::parse(&out), None);
        assert_eq!(echo.emit(&mut [0; 35]), None);
    }
}
