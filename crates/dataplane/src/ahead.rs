//! Many SAs: what a burst will touch is asked for ahead, a level at a time.
//!
//! With a few SAs everything about them is in the first-level cache. With a hundred thousand
//! nothing is: a packet then touches some twenty lines that lie in memory, each found by way of the
//! one before (flow, SA, numbers, keys). One packet alone would wait for each; here all packets of
//! the burst wait for a level together.
//!
//! The passes cost a few cycles a packet, so they are taken only while bursts are spread over many
//! SAs.

use core::net::IpAddr;

use esp::Sa;
use io::Packet;
use policy::{SaEntry, SaHandle};
use wire::{Digest, protocol};

use crate::ingress::{Head, Heads};
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
            if head.end.is_none()
                && let Some((dst, spi)) = esp_ends(packet, head)
            {
                self.reader.prefetch_inbound_sa(dst, spi, protocol::ESP);
            }
        }
        // The SA: by its bucket, or by the flow's plan; and the policies that will count.
        for (packet, head) in packets.iter().zip(heads.iter_mut()) {
            head.sa = None;
            if head.end.is_some() {
                continue;
            }
            head.sa = match esp_ends(packet, head) {
                Some((dst, spi)) => self.reader.inbound_sa(dst, spi, protocol::ESP, 0),
                None => head.place.and_then(|place| self.planned(place)),
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
        for head in heads.iter() {
            if let Some(sa) = head.sa.and_then(|sa| self.reader.sa(sa)) {
                ask(sa);
            }
        }
    }
}

/// Destination and SPI of an ESP packet.
fn esp_ends(packet: &Packet, head: &Head) -> Option<(IpAddr, u32)> {
    let Digest { flow, brief } = &head.digest;
    if brief.protocol() != protocol::ESP {
        return None;
    }
    let spi = packet.data().get(usize::from(brief.header_len())..)?.first_chunk()?;
    Some((flow.dst(), u32::from_be_bytes(*spi)))
}

/// Runs of one SA in a burst from which on it counts as spread.
const SPREAD: usize = 8;
