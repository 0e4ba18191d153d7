//! Payloads on UDP port 4500: ESP, IKE behind its marker, keepalives (RFC 3948 §2).
//!
//! ```text
//! ESP:        UDP header, ESP header: SPI (not zero), sequence number, ...
//! IKE:        UDP header, non-ESP marker: four zero bytes, IKE header, ...
//! Keepalive:  UDP header, one byte 0xff
//! ```

/// Length of the non-ESP marker, in bytes.
pub const MARKER_LEN: usize = 4;
/// The UDP port of NAT traversal.
pub const PORT: u16 = 4500;
/// The payload of a keepalive.
pub const KEEPALIVE: [u8; 1] = [0xff];

/// Kind of a UDP payload on the NAT traversal port (RFC 3948 §2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NattPayload {
    /// Four zero bytes: IKE follows. For the IKE daemon.
    NonEspMarker,
    /// A NAT keepalive: to be swallowed.
    Keepalive,
    /// ESP: begins with the payload's first byte.
    Esp,
    /// Too short to be any of these.
    TooShort,
}

/// Classifies a UDP payload. ESP is claimed as soon as its header of 8 bytes is there; whether
/// the rest is long enough for its cipher is for the SA to say.
pub fn classify(payload: &[u8]) -> NattPayload {
    if payload == KEEPALIVE {
        return NattPayload::Keepalive;
    }
    match payload.first_chunk::<MARKER_LEN>() {
        Some([0, 0, 0, 0]) => NattPayload::NonEspMarker,
        Some(_) if payload.len() >= crate::esp::HEADER_LEN => NattPayload::Esp,
        _ => NattPayload::TooShort,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds() {
        assert_eq!(classify(&[0xff]), NattPayload::Keepalive);
        assert_eq!(classify(&[0xff, 0xff]), NattPayload::TooShort);
        assert_eq!(classify(&[0xfe]), NattPayload::TooShort);
        assert_eq!(classify(&[]), NattPayload::TooShort);
        assert_eq!(classify(&[0, 0, 0]), NattPayload::TooShort);
        assert_eq!(classify(&[0, 0, 0, 0]), NattPayload::NonEspMarker);
        assert_eq!(classify(&[0; 32]), NattPayload::NonEspMarker);
        assert_eq!(classify(&[0, 0, 0, 1, 0, 0, 0]), NattPayload::TooShort);
        assert_eq!(classify(&[0, 0, 0, 1, 0, 0, 0, 1]), NattPayload::Esp);
        assert_eq!(classify(&[0xff; 8]), NattPayload::Esp);
    }
}
