//! Many SAs: what a burst will touch is asked for ahead, a level at a time.
//!
//! With a few SAs everything about them is in the first-level cache. With a hundred thousand
//! nothing is: a packet then touches some twenty lines that lie in memory, each found by way of the
//! one before (flow, SA, numbers, keys). One packet alone would wait for each; here all packets of
//! the burst wait for a level together.
//!
//! All of that does not stay in the first-level cache while the burst before is encrypted, and has hardly room
//! there, so it may be asked for into the second-level cache ([`crate::asking`]). To find it there, one pointer
//! behind the other, takes as long as the work, so before each pass what it reads is asked for again, a few packets ahead.
//!
//! The passes cost a few cycles a packet, so they are taken only while bursts are spread over many
//! SAs.

use core::net::IpAddr;

use esp::Sa;
use io::Packet;
use mem::Cache;
use policy::{SaEntry, SaHandle, SaSpot};
use wire::{Digest, protocol};

use crate::guess::Guess;
use crate::ingress::{Head, Heads};
use crate::opening::Note;
use crate::plan::Action;
use crate::worker::Worker;

impl Worker {
    /// Notes how a burst was spread: into how many runs of one SA.
    #[inline]
    pub(crate) fn note_spread(&mut self, runs: usize, packets: usize) {
        self.is_spread = runs >= SPREAD && runs * 2 >= packets;
    }

    /// Where to a whole burst's lines are asked for.
    #[inline(always)]
    pub(crate) fn asked_into(&self) -> Cache {
        if self.is_spread { self.asking.cache() } else { Cache::First }
    }

    /// Asks for what the third pass will touch.
    #[inline(never)]
    pub(crate) fn look_ahead(&self, packets: &[Packet], heads: &mut Heads) {
        let (reader, cache) = (&self.reader, self.asked_into());
        // 1. By the flow's plan: policies and the SA's place. ESP: where the index has the SA.
        for (packet, head) in packets.iter().zip(heads.iter_mut()) {
            (head.tag, head.sa) = (None, None);
            if head.end.is_some() {
                continue;
            }
            if !head.is_own_esp {
                head.sa = head.place.and_then(|place| self.look_at_plan(cache, place));
            } else if let Some((dst, spi)) = own_esp_ends(packet, head) {
                let tag = reader.inbound_tag(dst, spi, protocol::ESP);
                reader.prefetch_inbound(cache, tag);
                head.tag = Some(tag);
            }
        }
        // 2. ESP: the SA's place.
        for head in heads.iter_mut() {
            let Some(tag) = head.tag else { continue };
            head.sa = reader.inbound_spot(tag);
            if let Some(spot) = head.sa {
                reader.prefetch_spot(cache, spot);
            }
        }
        // 3. The SA. ESP: the plan of the flow that the packet may be of.
        self.each_sa(heads, |head, spot, sa| {
            sa.prefetch(cache);
            match head.is_own_esp {
                true => {
                    sa.esp.prefetch_to_open(cache);
                    if let Some(place) = Guess::from_note(reader.note_at(spot)).place() {
                        self.flows.prefetch_at(cache, place);
                    }
                }
                false => sa.esp.prefetch_to_seal(cache),
            }
        });
        // 4. Its numbers, and the page that its keys are on. The engine asks for the keys.
        self.each_sa(heads, |_, _, sa| {
            sa.esp.prefetch_numbers(cache);
            sa.esp.session().prefetch_end(cache);
        });
    }

    /// Asks once more, just before it is needed: what a burst asks for does not all stay in the first-level
    /// cache while the burst before is encrypted.
    #[inline(always)]
    pub(crate) fn look_again(&self, head: &Head) {
        if let Some(place) = head.place.filter(|_| !head.is_own_esp) {
            self.flows.prefetch_at(Cache::First, place);
        }
        if let Some(sa) = head.sa.and_then(|spot| self.reader.sa_at(spot)) {
            sa.prefetch(Cache::First);
            sa.esp.prefetch_numbers(Cache::First);
        }
    }

    /// The same for what the packet's plan counts, once the plan itself is near.
    #[inline(always)]
    pub(crate) fn look_at_tallies(&self, head: &Head) {
        if let Some(plan) = head.place.and_then(|place| self.flows.peek(place)) {
            plan.tallies().for_each(|tally| tally.prefetch(Cache::First));
        }
    }

    /// The same for what a packet that was decrypted is accepted by.
    #[inline(always)]
    pub(crate) fn look_at_note(&self, note: &Note) {
        if let Some(place) = note.guess.place() {
            self.flows.prefetch_at(Cache::First, place);
        }
        if let Some(sa) = self.reader.sa(note.sa) {
            sa.prefetch(Cache::First);
            sa.esp.prefetch_numbers(Cache::First);
            sa.esp.replay().prefetch(note.opening.seq);
        }
    }

    /// The same for some SAs, all at once.
    #[inline]
    pub(crate) fn ask_again(&self, sas: impl Iterator<Item = SaHandle>, ask: impl Fn(&Sa)) {
        sas.filter_map(|sa| self.reader.sa(sa)).for_each(|sa| ask(&sa.esp));
    }

    /// Asks at once for what is most likely written in this turn, and was written by another core in the one
    /// before: the numbers of the SA that the first packet is of, and what the flow of this thread's last
    /// turn counts.
    pub(crate) fn look_at_turn(&self, opened_by: Option<SaHandle>) {
        if self.is_spread {
            return;
        }
        if let Some(sa) = opened_by.and_then(|sa| self.reader.sa(sa)) {
            sa.esp.prefetch_cells();
        }
        if let Some(spot) = self.last_place.and_then(|place| self.look_at_plan(Cache::First, place))
            && let Some(sa) = self.reader.sa_at(spot)
        {
            sa.esp.prefetch_cells();
        }
    }

    /// Asks for the policies of the plans that were found, and notes them for next time.
    pub(crate) fn look_at_plans(&self, heads: &Heads, notes: &[Note]) {
        for (head, note) in heads.iter().zip(notes) {
            let Some(place) = head.place.filter(|_| head.end.is_none()) else { continue };
            if head.is_sought {
                self.look_at_plan(Cache::First, place);
            }
            let guess = note.guess.learn(place);
            if guess != note.guess {
                self.reader.set_note(note.sa, guess.note());
            }
        }
    }

    /// Asks for what the plan at a place counts, and for the place of the SA by which packets of
    /// the flow are sealed.
    #[inline]
    pub(crate) fn look_at_plan(&self, cache: Cache, place: u32) -> Option<SaSpot> {
        let plan = self.flows.peek(place)?;
        plan.tallies().for_each(|tally| tally.prefetch(cache));
        let Action::Seal(seal) = plan.action else { return None };
        let spot = seal.sa.spot();
        self.reader.prefetch_spot(cache, spot);
        Some(spot)
    }

    fn each_sa(&self, heads: &Heads, ask: impl Fn(&Head, SaSpot, &SaEntry<Sa>)) {
        for head in heads.iter() {
            if let Some(spot) = head.sa
                && let Some(sa) = self.reader.sa_at(spot)
            {
                ask(head, spot, sa);
            }
        }
    }
}

/// Destination and SPI of a packet of bare ESP.
#[inline]
fn own_esp_ends(packet: &Packet, head: &Head) -> Option<(IpAddr, u32)> {
    let Digest { flow, brief } = &head.digest;
    let spi = packet.data().get(usize::from(brief.header_len())..)?.first_chunk()?;
    Some((flow.dst(), u32::from_be_bytes(*spi)))
}

/// Runs of one SA in a burst from which on it counts as spread.
const SPREAD: usize = 8;
