//! Initial packets as a client sends them: for tests, which cut and mix them.

use super::keys::InitialKeys;

/// An Initial packet of a client with these frames. `number` is below 2^32; there is no token, and no source id. `None` if the
/// frames are too few for a sample, or too long.
pub fn seal_initial(
    keys: &InitialKeys,
    destination: &[u8],
    number: u32,
    frames: &[u8],
) -> Option<Vec<u8>> {
    let version = keys.version();
    let mut packet = vec![0xc3 | version.initial() << 4];
    packet.extend(version.number().to_be_bytes());
    packet.push(u8::try_from(destination.len()).ok()?);
    packet.extend_from_slice(destination);
    // No source id, no token.
    packet.extend([0, 0]);
    let len = u16::try_from(4 + frames.len() + 16).ok().filter(|len| *len < 1 << 14)?;
    packet.extend((0x4000 | len).to_be_bytes());
    let number_at = packet.len();
    packet.extend(number.to_be_bytes());
    let sealed = keys.seal(number.into(), &packet, frames)?;
    let [of_first, of_number @ ..] = keys.mask(sealed.first_chunk::<16>()?)?;
    *packet.first_mut()? ^= of_first & 0x0f;
    for (byte, mask) in packet.iter_mut().skip(number_at).zip(of_number) {
        *byte ^= mask;
    }
    packet.extend(sealed);
    Some(packet)
}
