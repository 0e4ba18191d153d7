//! One burst on its way through the crypto pool, from the port that it came by to those it leaves by.
//!
//! Whichever thread has a burst does all that is done to it, except what only the worker does: the full
//! way of packets without a plan, and the ports. It falls into three parts:
//!
//! ```text
//!   apart    parse, hash, flow cache, policies' stamps; ESP: SA, cipher, content
//!   in turn  replay window, limits, counters, plans, sequence numbers       <- one burst at a time, in order
//!   apart    headers, cipher
//! ```
//!
//! What is done apart writes the burst and what the thread has for itself. What several threads write (an
//! SA's numbers, window and counters, those of policies) is written in turn, and the turns go round in the
//! order of arrival ([`dispatch::ordered`]). So there is one writer at a time, windows and limits
//! are as exact as on one thread, and numbers are given out in the order in which packets leave.
//!
//! The first packet that needs the full way ends what a thread does in turn: that packet and all behind it
//! are *left*, the burst keeps its turn, and the worker, when the burst comes back to it, moves them on as if
//! it were alone, and passes the turn on.

use std::sync::Arc;

use arrayvec::ArrayVec;
use esp::Sa;
use io::{BURST_LEN, Burst, Frame, FramePool, Packet, Parcel};
use mem::Cache;
use outcome::{DropReason, Outcome};
use policy::SaEntry;
use wire::{MacAddr, Span, protocol};

use crate::flow_cache::Key;
use crate::ingress::{Head, Heads};
use crate::opening::Opens;
use crate::plan::{Action, Plan, Stamps};
use crate::sealing::Seals;
use crate::worker::{MAX_PORTS, Now, Worker};

/// Where a burst came from.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Source {
    pub(crate) ifindex: u32,
    /// The private interface.
    pub(crate) is_linux: bool,
    /// The port's own address, where it is known.
    pub(crate) mac: Option<MacAddr>,
}

/// A burst, and what has become of its packets.
///
/// Its lines go from core to core, so what most bursts need lies together, in as few as can be.
#[repr(C, align(64))]
pub(crate) struct Batch {
    pub(crate) source: Source,
    /// When they were received.
    pub(crate) now: Now,
    /// The worker's place for the private interface.
    pub(crate) linux: Option<u16>,
    /// The crypto thread that had it.
    pub(crate) by: Option<u16>,
    /// Whether some are not to be sent, because they ended or were left: else nobody looks there.
    pub(crate) has_unsent: bool,
    /// The worker's tables: plans made by others do not hold.
    pub(crate) epoch: u64,
    pub(crate) done: Done,
    /// As they were received; then those to be sent, in order, each with its port's slot.
    pub(crate) packets: Parcel,
    /// To be counted, and their frames given back.
    pub(crate) ended: ArrayVec<(Packet, Outcome), BURST_LEN>,
    /// To be moved on by the worker, in order.
    pub(crate) left: ArrayVec<Left, BURST_LEN>,
}

// A slot fits a parcel's tag.
const _: () = assert!(MAX_PORTS <= 1 << u8::BITS);

/// A packet for the worker.
pub(crate) struct Left {
    pub(crate) packet: Packet,
    pub(crate) head: Head,
    /// The SA that it was decrypted by, which may be removed meanwhile.
    pub(crate) held: Option<Arc<SaEntry<Sa>>>,
}

/// What a crypto thread did, to be added to the worker's counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Done {
    pub(crate) decrypted: u64,
    pub(crate) encrypted: u64,
    pub(crate) flow_hits: u64,
    pub(crate) forwarded_clear: u64,
    pub(crate) checksums_completed: u64,
}

/// What the worker tells a crypto thread about a packet that the thread had to leave.
pub(crate) struct Lesson {
    /// Of the worker's tables.
    pub(crate) epoch: u64,
    pub(crate) what: Told,
}

pub(crate) enum Told {
    /// ESP to this address is this host's, for every packet; as [`wire::FlowKey::dst_words`] has it.
    Own([u64; 3]),
    /// The plan of a flow, with its hash.
    Plan(u64, Key, Plan, Stamps),
}

impl Batch {
    /// An empty one for packets of a pool's region.
    pub(crate) fn new(pool: &FramePool) -> Batch {
        Batch {
            source: Source::default(),
            now: Now { wall_s: 0, ns: 0 },
            linux: None,
            by: None,
            has_unsent: false,
            epoch: 0,
            done: Done::default(),
            packets: pool.parcel(),
            ended: ArrayVec::new(),
            left: ArrayVec::new(),
        }
    }

    /// Asks for all that most bursts need of it, to be written.
    #[inline]
    pub(crate) fn prefetch(&self) {
        mem::prefetch_pointer_to_write(&raw const self.source);
        self.packets.prefetch();
    }

    /// Sends a packet by a port, when it is the burst's turn to be sent.
    ///
    /// In parts, which are handed over in registers: a packet would be written to memory first, also
    /// where there is no burst.
    #[inline(never)]
    pub(crate) fn send(&mut self, slot: usize, frame: Frame, span: Span) {
        let packet = Packet { frame, span };
        // There is room for as many as came, all of one region.
        if let Err(packet) = self.packets.push(packet, slot as u8) {
            self.end(packet, DropReason::NoFrames.into());
        }
    }

    /// Ends a packet.
    #[cold]
    pub(crate) fn end(&mut self, packet: Packet, outcome: Outcome) {
        self.has_unsent = true;
        // As many as came.
        let _ = self.ended.try_push((packet, outcome));
    }
}

/// What a thread works on a burst with.
#[derive(Default)]
pub(crate) struct Passes {
    packets: Box<Burst>,
    heads: Heads,
    opens: Box<Opens>,
    seals: Box<Seals>,
    /// What is not for the cipher apart, and each packet's place in the burst.
    rest: ArrayVec<(Packet, u8), BURST_LEN>,
}

/// How an ESP packet of this host's comes.
enum Esp {
    Bare,
    InUdp,
}

impl Worker {
    /// The first part: up to where a packet's turn matters. The burst is the worker's current one.
    pub(crate) fn pass_apart(&mut self, passes: &mut Passes) {
        let Some(batch) = &mut self.batch else { return };
        let Passes { packets, heads, .. } = passes;
        // As many as it has room for.
        batch.packets.unpack(|packet, _| drop(packets.try_push(packet)));
        let source = batch.source;
        self.look_at_all(packets, heads, source);
        if !heads.iter().any(|head| self.is_maybe_esp(head)) {
            return;
        }
        self.is_apart = true;
        for (at, packet) in packets.drain(..).enumerate() {
            let Some(head) = heads.get(at) else { break };
            match self.esp_for_us(head) {
                Some(Esp::Bare) => self.esp(packet, head, None),
                Some(Esp::InUdp) => self.udp_encapsulated(packet, head),
                // As many as came.
                None => drop(passes.rest.try_push((packet, at as u8))),
            }
            if let Some(packet) = self.doubted.take() {
                let _ = passes.rest.try_push((packet, at as u8));
            }
        }
        self.is_apart = false;
        if !self.opening.is_empty() {
            core::mem::swap(&mut self.opening, &mut passes.opens);
            self.open(&mut passes.opens);
        }
    }

    /// The second part, while it is the burst's turn. True if it is all done, and the turn goes on.
    pub(crate) fn pass_in_turn(&mut self, passes: &mut Passes) -> bool {
        let Passes { packets, heads, opens, seals, rest } = passes;
        let (first_sa, last_sa) = (opens.sas().next(), opens.sas().next_back());
        self.look_at_turn(first_sa);
        let last_place = |heads: &Heads| heads.last().and_then(|head| head.place);
        self.last_place = last_place(heads);
        if let Some(sa) = last_sa {
            self.accept_all(opens);
            self.last_place = last_place(&opens.heads);
            self.edge_seen = self.reader.sa(sa).map(|entry| (sa, entry.esp.replay().edge()));
        }
        // Left where they were only if none is ESP from outside.
        for (packet, head) in packets.drain(..).zip(heads.iter()) {
            self.enter(packet, head, None);
        }
        for (packet, at) in rest.drain(..) {
            match heads.get_mut(usize::from(at)) {
                Some(head) => {
                    // Found in the view that the burst began with.
                    head.sa = None;
                    self.enter_any(packet, head, None);
                }
                // There are as many.
                None => self.drop_packet(packet, DropReason::NoFrames),
            }
        }
        // Those that were doubted for nothing.
        self.open_gathered();
        if !self.sealing.is_empty() {
            core::mem::swap(&mut self.sealing, seals);
            self.number_all(seals);
        }
        !core::mem::take(&mut self.has_left)
    }

    /// The third part: what has its number is sealed.
    pub(crate) fn pass_to_the_end(&mut self, passes: &mut Passes) {
        if !passes.seals.is_empty() {
            self.seal(&mut passes.seals);
        }
    }

    /// Whether a packet is ESP that can be decrypted before the burst's turn.
    #[inline(always)]
    fn esp_for_us(&mut self, head: &Head) -> Option<Esp> {
        if !self.is_maybe_esp(head) {
            return None;
        }
        if head.is_own_esp {
            let is_possible = self.is_known_source(&head.digest.flow);
            return is_possible.then_some(Esp::Bare);
        }
        let reader = &self.reader;
        let place = head.place.filter(|_| head.has_flow)?;
        match self.flows.at(place, &head.key(), |stamp| reader.holds(stamp))?.action {
            Action::OpenBare => Some(Esp::Bare),
            Action::OpenUdp => Some(Esp::InUdp),
            _ => None,
        }
    }

    /// Whether a packet may be ESP that comes from outside.
    #[inline(always)]
    fn is_maybe_esp(&self, head: &Head) -> bool {
        let is_esp = match head.digest.brief.protocol() {
            protocol::ESP => true,
            protocol::UDP => self.topology.is_natt_port(head.digest.flow.ports().1),
            _ => false,
        };
        is_esp && head.end.is_none() && head.ingress.ifindex != 0
    }

    /// Leaves a packet to the worker.
    #[cold]
    #[inline(never)]
    pub(crate) fn leave(&mut self, packet: Packet, head: &Head) {
        let held = head.ingress.via.and_then(|via| self.reader.shared_sa(via)).map(Arc::clone);
        let Some(batch) = &mut self.batch else { return };
        (self.has_left, batch.has_unsent) = (true, true);
        // As many as came.
        let _ = batch.left.try_push(Left { packet, head: head.clone(), held });
    }

    /// A packet that may be a replay, or not, as seen from beside the SA's one writer: it is looked at
    /// again when it is the burst's turn.
    #[cold]
    pub(crate) fn doubt(&mut self, packet: Packet) {
        self.doubted = Some(packet);
    }

    /// Moves on the packets that a thread has left, alone, and tells the thread what it has to know for the
    /// next of their kind.
    #[cold]
    #[inline(never)]
    pub(crate) fn move_on_left(&mut self, batch: &mut Batch) {
        let mut heads: ArrayVec<Head, BURST_LEN> = ArrayVec::new();
        for Left { packet, mut head, held } in batch.left.drain(..) {
            // By what this thread knows, not the one that left it.
            head.is_own_esp = self.is_own_esp(&head);
            head.sa = None;
            head.seek(&self.flows);
            head.place = self.flows.place(Cache::First, head.hash);
            self.enter_any(packet, &head, held.as_deref());
            if heads.last().is_none_or(|last| last.hash != head.hash) {
                heads.push(head);
            }
        }
        self.open_gathered();
        self.seal_gathered();
        let Some(by) = batch.by else { return };
        for head in heads.iter().filter(|head| head.end.is_none() && head.has_flow) {
            let told = match self.is_own_esp(head) {
                true => Some(Told::Own(head.digest.flow.dst_words())),
                false => self
                    .flows
                    .told(head.hash, &head.key())
                    .map(|(plan, stamps)| Told::Plan(head.hash, head.key(), plan, stamps)),
            };
            if let Some(what) = told {
                self.teach(by.into(), what);
            }
        }
    }
}
