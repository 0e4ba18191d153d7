//! Test packets of senders, and reflections (RFC 8762 §4.2, §4.3; RFC 8972 §3).

use super::key::{HMAC_LEN, Key};
use super::time::{ErrorEstimate, Timestamp};

/// Length of the part that the HMAC covers, in bytes.
const COVERED_LEN: usize = 96;

/// Places of fields, which depend on the mode. In bytes from the beginning of the UDP payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Length of a packet without extensions.
    pub len: usize,
    time: usize,
    error: usize,
    ssid: usize,
    received: usize,
    sender_seq: usize,
    sender_time: usize,
    sender_error: usize,
    sender_ttl: usize,
}

impl Layout {
    /// Layout of packets without a key.
    pub const OPEN: Layout = Layout {
        len: 44,
        time: 4,
        error: 12,
        ssid: 14,
        received: 16,
        sender_seq: 24,
        sender_time: 28,
        sender_error: 36,
        sender_ttl: 40,
    };

    /// Layout of packets with a key.
    pub const KEYED: Layout = Layout {
        len: 112,
        time: 16,
        error: 24,
        ssid: 26,
        received: 32,
        sender_seq: 48,
        sender_time: 64,
        sender_error: 72,
        sender_ttl: 80,
    };

    /// Layout of packets with this key, or with none.
    pub const fn of(key: Option<&Key>) -> &'static Layout {
        match key {
            Some(_) => &Layout::KEYED,
            None => &Layout::OPEN,
        }
    }
}

/// Reason that bytes are no packet of STAMP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// Shorter than packets of the mode.
    #[error("too short")]
    Short,
    /// The HMAC is not that of the key.
    #[error("wrong HMAC")]
    Hmac,
    /// The error estimate has a multiplier of 0.
    #[error("error estimate with a multiplier of 0")]
    Estimate,
}

/// Test packet of a sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TestPacket {
    /// Number of the packet, one more for each.
    pub seq: u32,
    /// Time of sending.
    pub time: Timestamp,
    /// Error estimate of the time.
    pub error: ErrorEstimate,
    /// Session identifier; 0 of senders without one.
    pub ssid: u16,
}

/// Reflection of a test packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reflection {
    /// Number of the reflection: that of the test packet, or the reflector's own count.
    pub seq: u32,
    /// Time of sending by the reflector.
    pub time: Timestamp,
    /// Error estimate of both times of the reflector.
    pub error: ErrorEstimate,
    /// Session identifier; 0 of reflectors that do not know it.
    pub ssid: u16,
    /// Time at which the test packet came.
    pub received: Timestamp,
    /// The test packet's fields, its session identifier 0.
    pub sender: TestPacket,
    /// TTL or hop limit with which the test packet came.
    pub sender_ttl: u8,
}

impl TestPacket {
    /// Writes the packet, with an HMAC if there is a key. Returns its length in bytes.
    ///
    /// # Errors
    /// [`Malformed::Short`]: the buffer is.
    pub fn emit(&self, key: Option<&Key>, out: &mut [u8]) -> Result<usize, Malformed> {
        let layout = Layout::of(key);
        let out = out.get_mut(..layout.len).ok_or(Malformed::Short)?;
        out.fill(0);
        self.write(layout, out);
        sign(key, out);
        Ok(layout.len)
    }

    fn write(&self, layout: &Layout, out: &mut [u8]) {
        put(out, 0, self.seq.to_be_bytes());
        put(out, layout.time, self.time.0.to_be_bytes());
        put(out, layout.error, self.error.0.to_be_bytes());
        put(out, layout.ssid, self.ssid.to_be_bytes());
    }

    /// Reads a packet; extensions may follow it.
    ///
    /// # Errors
    /// It is too short, its HMAC is wrong, or its error estimate is of no time.
    pub fn parse(key: Option<&Key>, bytes: &[u8]) -> Result<TestPacket, Malformed> {
        let (layout, bytes) = checked(key, bytes)?;
        let packet = TestPacket {
            seq: u32::from_be_bytes(take(bytes, 0)),
            time: Timestamp(u64::from_be_bytes(take(bytes, layout.time))),
            error: ErrorEstimate(u16::from_be_bytes(take(bytes, layout.error))),
            ssid: u16::from_be_bytes(take(bytes, layout.ssid)),
        };
        packet.error.is_valid().then_some(packet).ok_or(Malformed::Estimate)
    }
}

impl Reflection {
    /// Writes the reflection, with an HMAC if there is a key. Returns its length in bytes.
    ///
    /// # Errors
    /// [`Malformed::Short`]: the buffer is.
    pub fn emit(&self, key: Option<&Key>, out: &mut [u8]) -> Result<usize, Malformed> {
        let layout = Layout::of(key);
        let out = out.get_mut(..layout.len).ok_or(Malformed::Short)?;
        out.fill(0);
        let Reflection { seq, time, error, ssid, received, sender, sender_ttl } = *self;
        TestPacket { seq, time, error, ssid }.write(layout, out);
        put(out, layout.received, received.0.to_be_bytes());
        put(out, layout.sender_seq, sender.seq.to_be_bytes());
        put(out, layout.sender_time, sender.time.0.to_be_bytes());
        put(out, layout.sender_error, sender.error.0.to_be_bytes());
        put(out, layout.sender_ttl, [sender_ttl]);
        sign(key, out);
        Ok(layout.len)
    }

    /// Reads a reflection; extensions may follow it.
    ///
    /// # Errors
    /// It is too short, its HMAC is wrong, or its error estimate is of no time.
    pub fn parse(key: Option<&Key>, bytes: &[u8]) -> Result<Reflection, Malformed> {
        let TestPacket { seq, time, error, ssid } = TestPacket::parse(key, bytes)?;
        let (layout, bytes) = (Layout::of(key), bytes);
        let [sender_ttl] = take(bytes, layout.sender_ttl);
        let sender = TestPacket {
            seq: u32::from_be_bytes(take(bytes, layout.sender_seq)),
            time: Timestamp(u64::from_be_bytes(take(bytes, layout.sender_time))),
            error: ErrorEstimate(u16::from_be_bytes(take(bytes, layout.sender_error))),
            ssid: 0,
        };
        let received = Timestamp(u64::from_be_bytes(take(bytes, layout.received)));
        Ok(Reflection { seq, time, error, ssid, received, sender, sender_ttl })
    }
}

/// Time at which a reflector says that it got a probe, of a packet that is long enough; nothing in a sender's.
pub(crate) fn received_of(key: Option<&Key>, bytes: &[u8]) -> Timestamp {
    Timestamp(u64::from_be_bytes(take(bytes, Layout::of(key).received)))
}

/// The packet without its extensions, if it is long enough and has the key's HMAC.
fn checked<'b>(
    key: Option<&Key>,
    bytes: &'b [u8],
) -> Result<(&'static Layout, &'b [u8]), Malformed> {
    let layout = Layout::of(key);
    let bytes = bytes.get(..layout.len).ok_or(Malformed::Short)?;
    if let Some(key) = key {
        let (covered, hmac) = bytes.split_at(COVERED_LEN);
        let hmac: &[u8; HMAC_LEN] = hmac.try_into().map_err(|_| Malformed::Short)?;
        if !key.verifies(&[covered], hmac) {
            return Err(Malformed::Hmac);
        }
    }
    Ok((layout, bytes))
}

/// Writes the HMAC of a whole packet.
fn sign(key: Option<&Key>, packet: &mut [u8]) {
    if let Some(key) = key
        && let Some((covered, hmac)) = packet.split_at_mut_checked(COVERED_LEN)
    {
        hmac.copy_from_slice(&key.sign(&[covered]));
    }
}

/// Writes a field; one that would not fit is left out.
fn put<const N: usize>(out: &mut [u8], at: usize, field: [u8; N]) {
    if let Some(to) = out.get_mut(at..).and_then(|rest| rest.first_chunk_mut()) {
        *to = field;
    }
}

/// Reads a field; zeros where there is none.
fn take<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).copied().unwrap_or([0; N])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn key() -> Key {
        Key::new(&[7; 32]).expect("a key")
    }

    const PROBE: TestPacket = TestPacket {
        seq: 0x0102_0304,
        time: Timestamp(0x1112_1314_1516_1718),
        error: ErrorEstimate(0x2122),
        ssid: 0x3132,
    };

    const REFLECTION: Reflection = Reflection {
        seq: 0x4142_4344,
        time: Timestamp(0x5152_5354_5556_5758),
        error: ErrorEstimate(0x6162),
        ssid: 0x3132,
        received: Timestamp(0x7172_7374_7576_7778),
        sender: TestPacket { ssid: 0, ..PROBE },
        sender_ttl: 0x81,
    };

    /// The bytes of a layout: fields in their order, and zeros where the figure says MBZ.
    fn laid_out(fields: &[(&[u8], usize)]) -> Vec<u8> {
        fields.iter().flat_map(|(field, mbz)| [field.to_vec(), vec![0; *mbz]].concat()).collect()
    }

    #[test]
    fn the_test_packet_is_figure_3_of_rfc_8762() {
        let mut out = [0xff; 44];
        assert_eq!(PROBE.emit(None, &mut out), Ok(44));
        let want = laid_out(&[
            (&[1, 2, 3, 4], 0),
            (&[0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18], 0),
            (&[0x21, 0x22, 0x31, 0x32], 28),
        ]);
        assert_eq!(out.as_slice(), want);
    }

    #[test]
    fn the_authenticated_test_packet_is_figure_5_of_rfc_8762() {
        let mut out = [0xff; 112];
        assert_eq!(PROBE.emit(Some(&key()), &mut out), Ok(112));
        let want = laid_out(&[
            (&[1, 2, 3, 4], 12),
            (&[0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18], 0),
            (&[0x21, 0x22, 0x31, 0x32], 68),
        ]);
        assert_eq!(&out[..96], want);
        assert_eq!(out[96..], key().sign(&[&want]));
    }

    #[test]
    fn the_reflection_is_figure_6_of_rfc_8762() {
        let mut out = [0xff; 44];
        assert_eq!(REFLECTION.emit(None, &mut out), Ok(44));
        let want = laid_out(&[
            (&[0x41, 0x42, 0x43, 0x44], 0),
            (&[0x51, 0x52, 0x53, 0x54, 0x55, 0x56, 0x57, 0x58], 0),
            (&[0x61, 0x62, 0x31, 0x32], 0),
            (&[0x71, 0x72, 0x73, 0x74, 0x75, 0x76, 0x77, 0x78], 0),
            (&[1, 2, 3, 4], 0),
            (&[0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18], 0),
            (&[0x21, 0x22], 2),
            (&[0x81], 3),
        ]);
        assert_eq!(out.as_slice(), want);
    }

    #[test]
    fn the_authenticated_reflection_is_figure_7_of_rfc_8762() {
        let mut out = [0xff; 112];
        assert_eq!(REFLECTION.emit(Some(&key()), &mut out), Ok(112));
        let want = laid_out(&[
            (&[0x41, 0x42, 0x43, 0x44], 12),
            (&[0x51, 0x52, 0x53, 0x54, 0x55, 0x56, 0x57, 0x58], 0),
            (&[0x61, 0x62, 0x31, 0x32], 4),
            (&[0x71, 0x72, 0x73, 0x74, 0x75, 0x76, 0x77, 0x78], 8),
            (&[1, 2, 3, 4], 12),
            (&[0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18], 0),
            (&[0x21, 0x22], 6),
            (&[0x81], 15),
        ]);
        assert_eq!(&out[..96], want);
        assert_eq!(out[96..], key().sign(&[&want]));
    }

    #[test]
    fn says_what_is_wrong() {
        let mut out = [0; 112];
        PROBE.emit(Some(&key()), &mut out).expect("room");
        assert_eq!(TestPacket::parse(Some(&key()), &out), Ok(PROBE));
        assert_eq!(TestPacket::parse(Some(&key()), &out[..111]), Err(Malformed::Short));
        for at in 0..112 {
            let mut other = out;
            other[at] ^= 0x10;
            assert_eq!(TestPacket::parse(Some(&key()), &other), Err(Malformed::Hmac), "{at}");
        }
        let other = Key::new(&[8; 32]).expect("a key");
        assert_eq!(TestPacket::parse(Some(&other), &out), Err(Malformed::Hmac));
        assert_eq!(PROBE.emit(None, &mut [0; 43]), Err(Malformed::Short));
        let none = TestPacket { error: ErrorEstimate(0x2100), ..PROBE };
        none.emit(None, &mut out).expect("room");
        assert_eq!(TestPacket::parse(None, &out), Err(Malformed::Estimate));
    }

    proptest! {
        #[test]
        fn comes_back_as_it_was(bytes in prop::collection::vec(any::<u8>(), 0..140), keyed: bool) {
            let key = keyed.then(key);
            if let Ok(reflection) = Reflection::parse(None, &bytes) {
                let mut out = [0; 112];
                reflection.emit(key.as_ref(), &mut out).expect("room");
                prop_assert_eq!(Reflection::parse(key.as_ref(), &out), Ok(reflection));
            }
        }
    }
}
