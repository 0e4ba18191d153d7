//! Streams of others whose worker this is, and the packets that wait in them.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use esp::Sa;
use io::Packet;
use outcome::{DropReason, Outcome};
use policy::SaEntry;
use preof::{LEN, Memory, Numbered, PARITY_LEN, Parity, Recovery, Refusal, Unrecovered};

use super::Groups;
use crate::model::{Between, Ingress};
use crate::out::{AnyOut, Out};
use crate::view::View;

/// Most streams of one worker.
const STREAMS: usize = 1024;

/// Time in which a stream without packets makes room for another one.
const KEPT_NS: u64 = 60_000_000_000;

/// How long second copies may come of what another worker has delivered, in nanoseconds.
const LOST_NS: u64 = 2_000_000_000;

/// Most packets of one worker that wait for those before them. Beyond that they go on as they come.
const MOST_WAITING: usize = 1024;

/// Most streams of one worker that have a memory for parity, of 130 KiB each.
const MEMORIES: usize = 64;

/// The streams of one thread. They take memory with the first packet, and for parity with the first of that.
#[derive(Default)]
pub(crate) struct Recoveries {
    /// State of the databases that plans are known to be good in.
    pub(crate) generation: u32,
    streams: HashMap<u32, Stream, ahash::RandomState>,
    /// Labels of streams in which packets wait.
    labels: Vec<u32>,
    waiting: usize,
    /// No stream is idle before, as far as is known.
    used_until_ns: u64,
    /// Streams that have a memory for parity.
    memories: usize,
    /// None of these is idle before, likewise.
    memories_used_until_ns: u64,
    /// Packets of this host whose parity follows.
    pub(super) groups: Groups,
    /// When other streams were forgotten, as they had another worker.
    forgotten_ns: Option<u64>,
}

struct Stream {
    /// The sender that had the label when the stream began.
    sender: u64,
    used_ns: u64,
    recovery: Recovery<Early>,
    /// The latest packets, by the SAs that have brought them. `None` before the first parity.
    memory: Option<Box<Memory<u64>>>,
}

/// A packet that waits, and how its copy came.
struct Early {
    packet: Packet,
    ingress: Ingress,
    /// The SA that the copy was decrypted by, which may be removed meanwhile. `None` where nothing waits.
    held: Option<Arc<SaEntry<Sa>>>,
}

impl Recoveries {
    /// True if packets wait, or parity does.
    #[inline(always)]
    pub(crate) fn has_waiting(&self) -> bool {
        self.waiting > 0 || !self.groups.is_empty()
    }

    /// When one has waited for long enough.
    pub(crate) fn due_ns(&self) -> Option<u64> {
        let streams = self.labels.iter().filter_map(|label| self.streams.get(label));
        let others_ns = streams.filter_map(|stream| stream.recovery.due_ns());
        others_ns.chain(self.groups.due_ns()).min()
    }

    /// Keeps a packet that was inside of a copy, as its sender has numbered it, where parity may come.
    #[inline]
    pub(super) fn remember(
        &mut self,
        numbered: Numbered,
        packet: &[u8],
        ingress: Ingress,
        now_ns: u64,
    ) {
        if self.memories == 0 {
            return;
        }
        let stream = self.streams.get_mut(&numbered.label);
        if let Some(memory) = stream.and_then(|stream| stream.memory.as_deref_mut()) {
            memory.keep(numbered.number, ingress.sa_word(), packet, now_ns);
        }
    }

    /// Takes parity, whose packet is an IP packet with all headers; `at` is where those in front of the label begin. What it
    /// recovers goes on as if it had come in a copy.
    pub(super) fn recover(
        &mut self,
        (view, out): (&View, &mut Out),
        parity: Parity,
        (mut packet, at): (Packet, usize),
        ingress: Ingress,
    ) {
        let now_ns = view.now.ns;
        out.counters.work.parity_taken.add(1);
        let Some(stream) = self.streams.get(&parity.label) else {
            // Nothing of the group has come.
            return out.drop(packet, DropReason::ParityMissing);
        };
        let Some(memory) = stream.memory.as_deref() else {
            self.give_memory(parity.label, now_ns);
            return out.drop(packet, DropReason::ParityMissing);
        };
        let front = at + LEN + PARITY_LEN;
        packet.span.start += front;
        packet.span.len = packet.span.len.saturating_sub(front);
        match memory.recover(&parity, ingress.sa_word(), packet.data_mut(), now_ns) {
            Ok((number, len)) => {
                let is_whole = wire::parse_ip(packet.data().get(..len).unwrap_or_default())
                    .is_ok_and(|h| usize::from(h.total_len) == len);
                if !is_whole {
                    return out.drop(packet, DropReason::ParityMalformed);
                }
                packet.span.len = len;
                let numbered = Numbered { label: parity.label, number };
                self.remember(numbered, packet.data(), ingress, now_ns);
                out.counters.work.parity_recovered.add(1);
                self.push((view, out), numbered, packet, ingress);
            }
            Err(Unrecovered::Complete) => out.end(packet, Outcome::Consumed),
            Err(Unrecovered::Missing) => out.drop(packet, DropReason::ParityMissing),
            Err(Unrecovered::Wrong) => out.drop(packet, DropReason::ParityMalformed),
        }
    }

    /// Gives a stream a memory for parity, if there is one left.
    fn give_memory(&mut self, label: u32, now_ns: u64) {
        if self.memories >= MEMORIES && !self.take_memory(now_ns) {
            return;
        }
        if let Some(stream) = self.streams.get_mut(&label) {
            stream.memory = Some(Box::default());
            self.memories += 1;
        }
    }

    /// Takes the memory of the stream that has been without packets for the longest; false if that is not long enough.
    fn take_memory(&mut self, now_ns: u64) -> bool {
        if now_ns <= self.memories_used_until_ns {
            return false;
        }
        let having = self.streams.values_mut().filter(|stream| stream.memory.is_some());
        let Some(oldest) = having.min_by_key(|stream| stream.used_ns) else { return false };
        self.memories_used_until_ns = oldest.used_ns.saturating_add(KEPT_NS);
        let is_idle = now_ns > self.memories_used_until_ns;
        if is_idle {
            oldest.memory = None;
            self.memories -= 1;
        }
        is_idle
    }

    /// Takes a packet that was inside of a copy; `ingress` is how the copy came. Those whose turn it is go on behind the burst.
    pub(super) fn push(
        &mut self,
        (view, out): (&View, &mut Out),
        Numbered { label, number }: Numbered,
        packet: Packet,
        ingress: Ingress,
    ) {
        let now_ns = view.now.ns;
        let removal = view.topology.path_ends.removal.as_ref();
        let Some((removal, sender)) = removal.and_then(|r| Some((r, r.labels.sender(label)?)))
        else {
            return out.drop(packet, DropReason::CopyUnknown);
        };
        let wait_ns = if self.waiting < MOST_WAITING { removal.wait_ns } else { 0 };
        let is_full = self.streams.len() >= STREAMS && !self.streams.contains_key(&label);
        if is_full && !self.forget_idle(now_ns) {
            return out.drop(packet, DropReason::CopyUnknown);
        }
        let forgotten_ns = self.forgotten_ns;
        let stream = match self.streams.entry(label) {
            Entry::Occupied(known) => known.into_mut(),
            // This worker, or the one before, may have delivered packets of it.
            Entry::Vacant(free)
                if forgotten_ns.is_some_and(|at| now_ns.saturating_sub(at) < LOST_NS) =>
            {
                free.insert(Stream { recovery: Recovery::after_loss(), ..Stream::of(sender) })
            }
            Entry::Vacant(free) => free.insert(Stream::of(sender)),
        };
        let before = stream.recovery.waiting();
        if stream.sender != sender {
            // The label is another's: what is left of the one before goes on.
            stream.recovery.drain(|early| early.go_on(&mut out.between));
            self.memories -= usize::from(stream.memory.is_some());
            *stream = Stream::of(sender);
        }
        stream.used_ns = now_ns;
        let gaps = stream.recovery.gaps();
        // What goes on at once finds its SA as it is.
        let via = ingress.via().filter(|_| wait_ns > 0);
        let held = via.and_then(|via| view.reader.shared_sa(via)).map(Arc::clone);
        let early = Early { packet, ingress, held };
        let deliver = |early: Early| early.go_on(&mut out.between);
        let pushed = stream.recovery.push(number, early, (now_ns, wait_ns), deliver);
        out.counters.work.copies_gaps.add(stream.recovery.gaps() - gaps);
        let after = stream.recovery.waiting();
        if let Err((refusal, Early { packet, .. })) = pushed {
            let reason = match refusal {
                Refusal::Duplicate => DropReason::CopyDuplicate,
                Refusal::Late => DropReason::CopyLate,
            };
            out.drop(packet, reason);
        }
        self.note(out, label, (before, after));
    }

    /// Has those go on that have waited for long enough; all, if `is_last`.
    pub(crate) fn expire(&mut self, out: &mut Out, now_ns: u64, is_last: bool) {
        self.groups.expire(out, now_ns, is_last);
        let mut place = 0;
        while let Some(label) = self.labels.get(place).copied() {
            let Some(stream) = self.streams.get_mut(&label) else {
                self.labels.swap_remove(place);
                continue;
            };
            let recovery = &mut stream.recovery;
            let (before, gaps) = (recovery.waiting(), recovery.gaps());
            let deliver = |early: Early| early.go_on(&mut out.between);
            match is_last {
                true => recovery.drain(deliver),
                false => recovery.expire(now_ns, deliver),
            }
            out.counters.work.copies_gaps.add(recovery.gaps() - gaps);
            let after = recovery.waiting();
            self.note(out, label, (before, after));
            // The place has another one if nothing waits any more.
            place += usize::from(after > 0);
        }
    }

    /// Forgets all streams, which have another worker from now on, or none. What still waits is dropped.
    pub(crate) fn forget(&mut self, out: &mut Out, now_ns: u64) {
        self.forgotten_ns = Some(now_ns);
        for (_, mut stream) in self.streams.drain() {
            let waiting = stream.recovery.waiting();
            out.released(waiting.into());
            stream.recovery.drain(|early| out.drop(early.packet, DropReason::HoldTimeout));
        }
        self.labels.clear();
        (self.waiting, self.memories) = (0, 0);
    }

    /// Counts what waits in a stream.
    fn note(&mut self, out: &Out, label: u32, (before, after): (u32, u32)) {
        let (more, less) = (after.saturating_sub(before), before.saturating_sub(after));
        self.waiting = (self.waiting + more as usize).saturating_sub(less as usize);
        out.counters.count(Outcome::Held, more.into());
        out.released(less.into());
        out.counters.work.copies_waited.add(more.into());
        match (before, after) {
            (0, 1..) => self.labels.push(label),
            (1.., 0) => self.labels.retain(|known| *known != label),
            _ => {}
        }
    }

    /// Forgets streams without packets, of which all are looked at no more often than one may be found. False if there is none.
    fn forget_idle(&mut self, now_ns: u64) -> bool {
        if now_ns <= self.used_until_ns {
            return false;
        }
        self.streams.retain(|_, stream| {
            stream.recovery.waiting() > 0 || now_ns.saturating_sub(stream.used_ns) <= KEPT_NS
        });
        self.memories = self.streams.values().filter(|stream| stream.memory.is_some()).count();
        let oldest_ns = self.streams.values().map(|stream| stream.used_ns).min();
        self.used_until_ns = oldest_ns.map_or(0, |oldest_ns| oldest_ns.saturating_add(KEPT_NS));
        self.streams.len() < STREAMS
    }
}

impl Early {
    fn go_on(self, between: &mut Between) {
        between.push_held(self.packet, self.ingress, self.held);
    }
}

impl Stream {
    fn of(sender: u64) -> Stream {
        Stream { sender, used_ns: 0, recovery: Recovery::default(), memory: None }
    }
}
