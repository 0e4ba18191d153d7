//! A burst in the hands of a helper, or of the worker that helps.
//!
//! It falls into three parts:
//!
//! ```text
//!   apart    parse, hash, flow cache, policies' stamps; ESP: SA, cipher, content
//!   in turn  replay window, limits, counters, plans, sequence numbers   <- one burst at a time, in order
//!   apart    headers, cipher
//! ```
//!
//! The passes apart write the burst and what the thread has for itself. What several threads write
//! (an SA's numbers, window and counters, those of policies) is written in turn, and the turns go
//! round in the order of arrival ([`dispatch::ordered`]). So there is one writer at a time, windows
//! and limits are as exact as on one thread, and numbers are given out in the order in which packets
//! leave.
//!
//! A packet without a plan is resolved in turn. The first that needs more than a plan (it waits, an
//! ICMP error is due, it has to be cut, it is at a segment or gets some) is *left*, and all behind it:
//! the burst keeps its turn, and the worker, when the burst comes back to it, moves them on as if it were
//! alone, and passes the turn on.
//!
//! A packet that is sealed for a peer behind segments gets them apart, after its number. Where it goes then is
//! the worker's to find out, without helpers at work; see [`crate::worker::helpers`].

use arrayvec::ArrayVec;
use dispatch::ordered;
use esp::Sa;
use io::{BURST_LEN, Burst, Packet};
use policy::SaEntry;
use wire::natt::{self, NattPayload};
use wire::protocol;

use crate::burst::{Misses, Path};
use crate::crypt::{Opens, Seals};
use crate::features::is_rare;
use crate::features::seal::send_done_seals;
use crate::model::{Action, Meta, Metas, Turn};
use crate::out::{AnyOut, HelperOut};
use crate::resolve::{Decided, Decision, resolve_arrival};
use crate::slow::{apply, ask_for_own, claim, counters_for_helper, remember};
use crate::view::View;

/// Memory of a thread for its work on a burst.
#[derive(Default)]
pub(crate) struct Passes {
    packets: Box<Burst>,
    metas: Metas,
    /// Packets that are decrypted apart from the burst.
    opens: Option<Box<Opens>>,
    /// Numbered in turn.
    seals: Option<Box<Seals>>,
    /// Packets that are not decrypted apart, with each one's place in the burst.
    rest: ArrayVec<(Packet, u8), BURST_LEN>,
}

/// Misses of a helper: resolved in turn, or left to the worker.
struct Leaver<'t> {
    turn: Turn<'t>,
    has_left: bool,
}

impl Misses<HelperOut> for Leaver<'_> {
    #[inline(always)]
    fn turn(&self) -> Turn<'_> {
        self.turn
    }

    #[inline(always)]
    fn takes_all(&self) -> bool {
        self.has_left
    }

    #[inline(never)]
    fn miss(
        &mut self,
        path: &mut Path<HelperOut>,
        packet: Packet,
        meta: &Meta,
        held: Option<&SaEntry<Sa>>,
    ) {
        if !self.has_left
            && meta.has_flow
            && let Ok(h) = wire::parse_ip(packet.data())
            && let decided = resolve_arrival(&path.view, packet.data(), &h, meta, held)
            && let Decided {
                decision: Decision::Go(mut draft),
                mut asked,
                at_limit: None,
                wants_own,
                // The worker hears of the path through segments.
                segment_error: None,
                // A limiter's lane has one writer: the worker.
                limit: None,
                ..
            } = decided
            && draft.is_for_flow
            // So a helper has no such plan.
            && !is_rare(&draft.action)
            && let Ok(counters) = counters_for_helper(&path.view, &h, &asked)
        {
            let Path { view, exec, .. } = &mut *path;
            ask_for_own((view, &mut exec.out), wants_own, &h);
            claim(view, &mut draft);
            exec.out.counters().work.flow_misses.add(u64::from(!draft.action.is_counted_later()));
            if !matches!(draft.action, Action::HandOver { .. }) {
                // There is room.
                counters.into_iter().for_each(|counters| drop(asked.count_also(counters)));
                asked.count(&path.view, &h);
            }
            remember(path, draft.action, &mut asked, meta);
            return apply(&mut path.exec, &path.view, self.turn, &draft, (packet, &h), meta);
        }
        self.has_left = true;
        path.exec.out.leave(&path.view, packet, meta);
    }
}

/// The first part: up to where a packet's turn matters. The burst is the exit's current one.
pub(crate) fn pass_apart(path: &mut Path<HelperOut>, passes: &mut Passes) {
    let batch = &mut path.exec.out.batch;
    let Passes { packets, metas, rest, opens, .. } = passes;
    // As many as it has room for.
    batch.packets.unpack(|packet, _| drop(packets.try_push(packet)));
    let source = batch.source;
    path.look_at(packets, metas, source);
    if !metas.iter().any(|meta| is_maybe_esp(&path.view, meta)) {
        return;
    }
    for (at, packet) in packets.drain(..).enumerate() {
        let Some(meta) = metas.get(at) else { break };
        // A packet that may be a replay, or not, as seen from beside the SA's one writer, is looked
        // at again in turn.
        let candidate = esp_for_us(path, &packet, meta).and_then(|is_in_udp| {
            let Path { view, exec, .. } = &mut *path;
            exec.rooms.sas.candidate(view, &packet, meta, is_in_udp).ok()
        });
        match candidate {
            Some(candidate) => path.exec.gather_open(&path.view, packet, meta, candidate),
            // As many as came.
            None => drop(rest.try_push((packet, at as u8))),
        }
    }
    if let Some(work) = path.exec.crypt.take_opens() {
        path.submit_opens(work);
        *opens = path.exec.crypt.poll_opens();
    }
}

/// The second part, while it is the burst's turn. True if it is all done, and the turn goes on.
pub(crate) fn pass_in_turn(
    path: &mut Path<HelperOut>,
    passes: &mut Passes,
    turn: &ordered::Turn<'_>,
) -> bool {
    let Passes { packets, metas, opens, seals, rest } = passes;
    let turn = Turn::of(turn);
    let mut leaver = Leaver { turn, has_left: false };
    if let Some(mut opens) = opens.take() {
        path.accept_all(&mut leaver, &mut opens);
        path.exec.crypt.put_back_opens(opens);
    }
    // Left where they were only if none is ESP from outside.
    for (packet, meta) in packets.drain(..).zip(metas.iter()) {
        path.enter_any(&mut leaver, packet, meta, None);
    }
    for (packet, at) in rest.drain(..) {
        if let Some(meta) = metas.get_mut(usize::from(at)) {
            // Found in the view that the burst began with.
            meta.sa = None;
            path.enter_any(&mut leaver, packet, meta, None);
        }
    }
    // Those that were refused apart.
    path.open_gathered(&mut leaver);
    *seals = path.exec.crypt.take_seals(&path.view.reader, turn);
    let batch = &path.exec.out.batch;
    batch.left.is_empty() && batch.payloads.is_empty()
}

/// The third part: what has its number is sealed.
pub(crate) fn pass_to_the_end(path: &mut Path<HelperOut>, passes: &mut Passes) {
    if let Some(seals) = passes.seals.take() {
        path.exec.crypt.submit_seals(seals, &path.view.reader);
    }
    let Path { view, exec, .. } = path;
    send_done_seals(view, &mut exec.crypt, &mut exec.out);
}

/// Tells if a packet is encapsulated in UDP, where it is ESP that can be decrypted before the
/// burst's turn. `None` for others.
#[inline(always)]
fn esp_for_us(path: &mut Path<HelperOut>, packet: &Packet, meta: &Meta) -> Option<bool> {
    if !is_maybe_esp(&path.view, meta) {
        return None;
    }
    if meta.is_own_esp {
        return path.addresses.is_known_source(&path.view, &meta.summary.flow).then_some(false);
    }
    let place = meta.place.filter(|_| meta.has_flow)?;
    match path.flows.at(place, &meta.key(), &path.view)?.action {
        Action::OpenBare => Some(false),
        Action::OpenUdp => {
            let at = usize::from(meta.summary.fields.header_len()) + wire::udp::HEADER_LEN;
            let kind = packet.data().get(at..).map(natt::classify);
            matches!(kind, Some(NattPayload::Esp)).then_some(true)
        }
        _ => None,
    }
}

/// True if a packet may be ESP that comes from outside.
#[inline(always)]
fn is_maybe_esp(view: &View, meta: &Meta) -> bool {
    let is_esp = match meta.summary.fields.protocol() {
        protocol::ESP => true,
        protocol::UDP => view.topology.is_natt_port(meta.summary.flow.ports().1),
        _ => false,
    };
    is_esp && meta.end.is_none() && meta.ingress.ifindex != 0
}
