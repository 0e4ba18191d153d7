//! Groups of packets that have been sent, and whose parity follows.

use io::{Frame, MIN_HEADROOM, Packet};
use outcome::{DropReason, Outcome};
use preof::{Group, Numbered, Outside, PARITY_LEN, overhead};
use wire::Span;

use crate::model::{Ingress, TAILROOM};
use crate::out::{AnyOut, Out};
use crate::tables::replication::ParityPlan;

/// Most groups of one worker that are open at a time. Beyond them packets go without parity.
const MOST_OPEN: usize = 64;

/// Way and far end of a group's parity, which are those of its packets.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct GroupWay {
    /// Identity of the far end.
    pub(super) far: u64,
    /// Index of the tunnel interface.
    pub(super) ifindex: u32,
    /// The headers; of the group's first packet.
    pub(super) outside: Outside,
}

/// A group that packets are added to. Its body grows in a frame of the pool, where the parity packet will have it.
struct OpenGroup {
    group: Group,
    label: u32,
    way: GroupWay,
    due_ns: u64,
    frame: Frame,
    /// Place of the body in the frame.
    at: usize,
}

/// The open groups of one worker. All workers share the numbers of a stream, so a group of each has gaps where others' are.
#[derive(Default)]
pub(crate) struct Groups {
    open: Vec<OpenGroup>,
}

impl Groups {
    /// True if there are any.
    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// When the first parity has to be sent.
    pub(super) fn due_ns(&self) -> Option<u64> {
        self.open.iter().map(|open| open.due_ns).min()
    }

    /// Adds a packet, which is sent next. Returns the place of its group if that is to be closed behind it.
    pub(super) fn add(
        &mut self,
        out: &mut Out,
        (numbered, packet): (Numbered, &[u8]),
        way: GroupWay,
        (plan, now_ns): (ParityPlan, u64),
    ) -> Option<usize> {
        let Numbered { label, number } = numbered;
        let mut place =
            self.open.iter().position(|open| open.label == label && open.way.far == way.far);
        if let Some(at) = place {
            let goes_on = self.open.get(at).is_some_and(|open| {
                open.group.spans(number) && open.way.is_as(&way) && open.due_ns > now_ns
            });
            if !goes_on {
                self.close(out, at);
                place = None;
            }
        }
        let at = match place {
            Some(at) => at,
            None if self.open.len() < MOST_OPEN => {
                let due_ns = now_ns.saturating_add(plan.wait_ns);
                let open = OpenGroup::new(out, numbered, way, due_ns)?;
                if self.open.capacity() == 0 {
                    self.open.reserve_exact(MOST_OPEN);
                }
                self.open.push(open);
                self.open.len() - 1
            }
            None => return None,
        };
        let open = self.open.get_mut(at)?;
        let end = open.frame.bytes().len().saturating_sub(TAILROOM);
        let body = open.frame.bytes_mut().get_mut(open.at..end).unwrap_or_default();
        open.group.add(number, packet, body);
        let count = open.group.count();
        (count == 0 || count >= plan.of.into()).then_some(at)
    }

    /// Sends the parity of groups that have waited for long enough; of all, if `is_last`.
    pub(super) fn expire(&mut self, out: &mut Out, now_ns: u64, is_last: bool) {
        let mut at = 0;
        while let Some(open) = self.open.get(at) {
            match is_last || open.due_ns <= now_ns {
                // Another one is at the place then.
                true => self.close(out, at),
                false => at += 1,
            }
        }
    }

    /// Sends the parity of a group, as a packet that Linux has sent on the tunnel interface.
    pub(super) fn close(&mut self, out: &mut Out, at: usize) {
        if at >= self.open.len() {
            return;
        }
        let OpenGroup { group, way, frame, at, .. } = self.open.swap_remove(at);
        let front = overhead(way.outside.dst) + PARITY_LEN;
        let span = Span { start: at.saturating_sub(front), len: front + group.body_len() };
        let mut packet = Packet { frame, span };
        out.released(1);
        if group.count() == 0 {
            // Its only packet was too long for it.
            return out.end(packet, Outcome::Consumed);
        }
        if !group.parity().emit(way.outside, packet.data_mut()) {
            return out.drop(packet, DropReason::OutNoRoom);
        }
        out.counters.work.parity_made.add(1);
        out.counters.work.parity_made_bytes.add(group.body_len() as u64);
        out.between.push(packet, Ingress::of_linux(way.ifindex, 0));
    }
}

impl GroupWay {
    /// True if packets leave in the same way. The class may be another.
    fn is_as(&self, other: &GroupWay) -> bool {
        let outside = Outside { class: self.outside.class, ..other.outside };
        *self == GroupWay { outside, ..*other }
    }
}

impl OpenGroup {
    /// A group that begins with a packet. `None` if there is no buffer for it, which is counted: packets go without parity.
    fn new(out: &mut Out, first: Numbered, way: GroupWay, due_ns: u64) -> Option<OpenGroup> {
        out.counters.generated.add(1);
        let Some(frame) = out.pool.take() else {
            out.counters.count(Outcome::Dropped(DropReason::NoFrames), 1);
            return None;
        };
        out.counters.count(Outcome::Held, 1);
        let front = overhead(way.outside.dst) + PARITY_LEN;
        let at = frame.headroom().max(MIN_HEADROOM) + front;
        let Numbered { label, number } = first;
        Some(OpenGroup { group: Group::new(label, number), label, way, due_ns, frame, at })
    }
}
