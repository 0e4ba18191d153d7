//! How long a packet becomes in the hands of several SAs, one after the other.

use arrayvec::ArrayVec;
use esp::Sa;
use outcome::DropReason;
use policy::MAX_BUNDLE;
use wire::Fields;

/// The lengths of a packet under a bundle of SAs, in bytes.
#[derive(Debug)]
pub(crate) struct Lengths<'s> {
    /// Each SA, and how much of the packet it leaves in front of what it protects.
    steps: ArrayVec<(&'s Sa, usize), MAX_BUNDLE>,
    packet_len: usize,
}

impl<'s> Lengths<'s> {
    /// Of a packet with these headers.
    ///
    /// # Errors
    /// The packet cannot travel in an SA's mode.
    pub(crate) fn of(sas: &[&'s Sa], packet: &[u8], h: Fields) -> Result<Lengths<'s>, DropReason> {
        let mut steps = ArrayVec::new();
        // What a tunnel puts in front of the packet, once one has.
        let mut outer = None;
        for sa in sas {
            let visible = match (sa.is_tunnel(), outer) {
                (true, _) => 0,
                (false, Some((is_v4, len))) if is_v4 == sa.params().dst.is_ipv4() => len,
                (false, Some(_)) => return Err(DropReason::OutMode),
                (false, None) => sa.visible_len(packet, h)?,
            };
            if sa.is_tunnel() {
                outer = Some((sa.params().dst.is_ipv4(), sa.outer_header_len()));
            }
            // As many as a bundle has.
            let _ = steps.try_push((*sa, visible));
        }
        Ok(Lengths { steps, packet_len: h.total_len().into() })
    }

    /// Bytes of a packet that each SA protects, and counts.
    pub(crate) fn payloads(&self) -> impl Iterator<Item = usize> {
        let mut len = self.packet_len;
        self.steps.iter().map(move |(sa, visible)| {
            let payload = len - visible;
            len = sa.sealed_len(len, *visible);
            payload
        })
    }

    /// The packet as it will be sent.
    pub(crate) fn sealed_len(&self) -> usize {
        self.sealed_len_of(self.packet_len)
    }

    /// The same of another packet with such headers.
    fn sealed_len_of(&self, packet_len: usize) -> usize {
        self.steps.iter().fold(packet_len, |len, (sa, visible)| sa.sealed_len(len, *visible))
    }

    /// The longest packet with such headers that is not longer than `mtu` when it is sent.
    pub(crate) fn longest(&self, mtu: usize) -> usize {
        let added = self.sealed_len() - self.packet_len;
        // Padding of one length and another differs by 15 bytes at most, for each SA.
        let most = mtu.saturating_sub(added) + 15 * self.steps.len();
        (0..=most).rev().find(|len| self.sealed_len_of(*len) <= mtu).unwrap_or(0)
    }
}
