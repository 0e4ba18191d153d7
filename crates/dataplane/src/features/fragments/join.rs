//! One packet of many frames.

use forward::reassembly::Done;
use forward::reassembly::join::{Join, JoinError};
use io::{Frame, MAX_HEADROOM, Packet};
use outcome::{DropReason, Outcome};
use wire::Span;

use super::Fragments;
use crate::model::{FirstPorts, Handed, TAILROOM};
use crate::out::Out;
use crate::tables::vlan::note_as_of;

impl Fragments {
    /// Makes one packet of all its fragments: it goes on as the one that came first would have.
    ///
    /// The others are consumed. Where it cannot be made, all are dropped.
    pub(crate) fn join(
        &mut self,
        out: &mut Out,
        mut done: Done<FirstPorts>,
        (head_len, len): (usize, usize),
    ) -> Option<Handed> {
        let count = done.count as u64;
        let mut from: Option<Handed> = None;
        let frame = self.frame_for(head_len + len, out);
        let mut copied = match frame {
            Ok(frame) => Ok((frame.headroom(), frame)),
            Err(reason) => Err(reason),
        };
        let joined = match &mut copied {
            Ok((start, frame)) => {
                let room = frame.bytes_mut().get_mut(*start..).unwrap_or_default();
                let mut join = Join::new(head_len, len, room);
                while let Some(handed) = self.pop_piece(&mut done) {
                    let added = match &mut join {
                        Ok(join) => join.add(handed.packet().data()),
                        Err(_) => Ok(()),
                    };
                    if let Err(error) = added {
                        join = Err(error);
                    }
                    from = Some(keep_first(out, from, handed));
                }
                join.and_then(Join::finish).map_err(reason_of)
            }
            Err(reason) => {
                while let Some(handed) = self.pop_piece(&mut done) {
                    from = Some(keep_first(out, from, handed));
                }
                Err(*reason)
            }
        };
        out.released(count);
        match (joined, copied, from) {
            (Ok(total_len), Ok((start, frame)), Some(mut handed)) => {
                let packet = Packet { frame, span: Span { start, len: total_len } };
                let first = core::mem::replace(handed.packet_mut(), packet);
                note_as_of(handed.packet_mut(), &first);
                out.pool.put_packet(first);
                out.counters.count(Outcome::Consumed, count.saturating_sub(1));
                out.counters.work.reassembled.add(1);
                Some(handed)
            }
            (joined, copied, from) => {
                let reason = joined.err().unwrap_or(DropReason::MalformedIp);
                out.counters.count(Outcome::Dropped(reason), count);
                if let Ok((_, frame)) = copied {
                    out.pool.put(frame);
                }
                if let Some(handed) = from {
                    out.pool.put_packet(handed.into_packet());
                }
                None
            }
        }
    }
}

/// Of two fragments keeps the one that came first, and gives the other one's frame back.
fn keep_first(out: &mut Out, first: Option<Handed>, next: Handed) -> Handed {
    match first {
        Some(first) => {
            out.pool.put_packet(next.into_packet());
            first
        }
        None => next,
    }
}

impl Fragments {
    /// A frame for a packet of this length, with room for headers in front and a trailer behind.
    fn frame_for(&mut self, len: usize, out: &mut Out) -> Result<Frame, DropReason> {
        if len > usize::from(u16::MAX) {
            return Err(DropReason::FragmentTooLong);
        }
        if len + MAX_HEADROOM + TAILROOM <= out.pool.chunk_len() {
            return out.pool.take().ok_or(DropReason::NoFrames);
        }
        let large = self.large.as_mut().ok_or(DropReason::FragmentTooLong)?;
        large.take().ok_or(DropReason::NoFrames)
    }
}

fn reason_of(error: JoinError) -> DropReason {
    match error {
        JoinError::TooLong => DropReason::FragmentTooLong,
        JoinError::Ecn => DropReason::FragmentEcn,
        JoinError::Malformed => DropReason::MalformedIp,
    }
}
