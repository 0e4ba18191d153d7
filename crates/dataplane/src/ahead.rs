//! Many SAs: what a burst will touch is asked for ahead, a level at a time.
//!
//! With a few SAs everything about them is in the first-level cache. With a hundred thousand
//! nothing is: a packet then touches some twenty lines that lie in memory, each found by way of the
//! one before (flow, SA, numbers, keys). One packet alone would wait for each; here all packets of
//! the burst wait for a level together.
//!
//! The passes cost a few cycles a packet, so they are taken only while bursts are spread over many
//! SAs.

use esp::Sa;
use io::Packet;
use policy::{SaEntry, SaHandle};
use wire::protocol;

use crate::ingress::Heads;
use crate::plan::Action;
use crate::worker::Worker;

impl Worker {
    /// Notes how a burst was spread: into how many runs of one SA.
    #[inline]
    pub(crate) fn note_spread(&mut self, runs: usize, packets: usize) {
        self.is_spread = runs >= SPREAD && runs * 2 >= packets;
    }

    /// Asks for what the third pass will touch.
    #[inline(never)]
    pub(crate) fn look_ahead(&self, packets: &[Packet], heads: &mut Heads) {
        // ESP: the SA's bucket.
        for (packet, head) in packets.iter().zip(heads.iter()) {
            if let Ok(head) = head
                && head.h.protocol == protocol::ESP
                && let Some(spi) = spi(packet, head.h.header_len)
            {
                self.reader.prefetch_inbound_sa(head.h.dst, spi, protocol::ESP);
            }
        }
        // The SA: by its bucket, or by the flow's plan; and the policies that will count.
        for (packet, head) in packets.iter().zip(heads.iter_mut()) {
            let Ok(head) = head else { continue };
            head.sa = match (head.h.protocol, spi(packet, head.h.header_len)) {
                (protocol::ESP, Some(spi)) => {
                    self.reader.inbound_sa(head.h.dst, spi, protocol::ESP, 0)
                }
                _ => head.place.and_then(|place| self.planned(place)),
            };
            if let Some(sa) = head.sa {
                self.reader.prefetch_sa(sa);
            }
        }
        self.each_sa(heads, |sa| sa.esp.prefetch_lines());
        self.each_sa(heads, |sa| sa.esp.prefetch());
    }

    /// The SA by which packets of the flow at a place are sealed; asks for its policies.
    fn planned(&self, place: u32) -> Option<SaHandle> {
        let plan = self.flows.peek(place)?;
        for policy in &plan.policies {
            mem::prefetch(&**policy);
        }
        match plan.action {
            Action::Seal(seal) => Some(seal.sa),
            _ => None,
        }
    }

    fn each_sa(&self, heads: &Heads, ask: impl Fn(&SaEntry<Sa>)) {
        for head in heads.iter().flatten() {
            if let Some(sa) = head.sa.and_then(|sa| self.reader.sa(sa)) {
                ask(sa);
            }
        }
    }
}

/// The SPI behind an IP header, if there is one.
fn spi(packet: &Packet, header_len: u16) -> Option<u32> {
    let spi = packet.data().get(usize::from(header_len)..)?.first_chunk()?;
    Some(u32::from_be_bytes(*spi))
}

/// Runs of one SA in a burst from which on it counts as spread.
const SPREAD: usize = 8;
