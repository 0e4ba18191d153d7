//! Resynchronisation of extended sequence numbers (RFC 4303 appendix A3, RFC 4302 appendix B3).
//!
//! ```text
//!             inferred by the window                what the sender may be at
//!   Seqh:     |  h  |                   |  h + 1  |  h + 2  |  ...  |  h + 16  |
//!   packet:   ICV wrong                 tried one after the other, on a copy
//! ```
//!
//! A packet carries the low half of its number alone. When a receiver has missed a whole subspace of
//! 2^32 numbers or more, it infers a high half that is too small, and every ICV is wrong from then on. So
//! a packet is tried with larger ones. One that fits is proven by its ICV, as any: the window moves to
//! it when it is accepted.
//!
//! When to try, and how often, is the caller's to decide: a forger's packet costs as many tries as one
//! of the peer.

use crypto::{Engine, Job, JobStatus, Op};
use wire::{Fields, Span};

use crate::open::Opening;
use crate::sa::Sa;

/// How many larger high halves are tried with one packet.
pub const RESYNC_TRIES: u32 = 16;

impl Sa {
    /// Finds the larger high half that a packet's ICV is right with, and returns how it is to be opened
    /// then. Touches nothing of the SA.
    ///
    /// `buf` holds the packet as it was received, `opening` is what [`Sa::open_look`] or [`Sa::open_ah`]
    /// made of it, and `outer` was parsed from its outer headers. The work is done in `scratch`,
    /// which has to have room for the packet and its headers, and holds zeros afterwards.
    ///
    /// Returns `None` if it is right with none, without ESN, and without that room.
    #[cold]
    pub fn resynchronise(
        &self,
        buf: &[u8],
        outer: Fields,
        opening: &Opening,
        engine: &mut dyn Engine,
        scratch: &mut [u8],
    ) -> Option<Opening> {
        opening.seq_hi?;
        let len = opening.esp.len;
        // Of AH an ICV and the headers go behind the packet.
        let used = scratch.get_mut(..len + usize::from(outer.header_len()))?;
        let packet = buf.get(opening.esp.range())?;
        let in_scratch = Opening { esp: Span { start: 0, len }, ..*opening };
        let found = (1..=u64::from(RESYNC_TRIES)).find_map(|further| {
            let seq = opening.seq.checked_add(further << 32)?;
            let seq_hi = Some((seq >> 32) as u32);
            used.get_mut(..len)?.copy_from_slice(packet);
            if self.is_ah() {
                in_scratch.blank(used, outer)?;
            }
            let mut jobs = [Job::esp(self.session(), Op::Open, used.get_mut(..len)?, seq_hi)];
            engine.run(&mut jobs);
            let [job] = jobs;
            (job.status == JobStatus::Done).then_some(Opening { seq, seq_hi, ..*opening })
        });
        used.fill(0);
        found
    }

    /// How a packet is to be opened by another highest number than that of the window: once
    /// [`Sa::resynchronise`] has found the number of one, that of those which follow it.
    #[cold]
    pub fn open_after(&self, number: u64, opening: &Opening) -> Opening {
        match self.replay().infer(number, opening.seq as u32) {
            Ok(seq) if opening.seq_hi.is_some() => {
                Opening { seq, seq_hi: Some((seq >> 32) as u32), ..*opening }
            }
            _ => *opening,
        }
    }
}
