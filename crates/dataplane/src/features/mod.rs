//! Features: each a room with what it keeps, and what it does to packets as functions of that, the view and the exit.
//!
//! | room | packets |
//! | --- | --- |
//! | `forward` | in clear, and for Linux |
//! | `seal`, `bundle` | that one SA protects, or several |
//! | `open` | ESP, AH and IPComp for this host |
//! | `translate` | of connections that Linux translates |
//! | `limit` | under a rate limit |
//! | `look` | whose application is not known |
//! | `overlay` | that get the headers of an overlay, or have some |
//! | `segments` | that get segments or are at one (SRv6) |
//! | `aggfrag` | in payloads of IP-TFS |
//! | `device` | that devices protect |
//! | `gtpu` | of applications |
//! | `paths` | that measure paths |
//! | `bfd` | of BFD sessions |
//! | `replication` | that are sent in copies, or are one |
//! | `fragments` | that wait for others of their packet |
//!
//! No room knows who calls it: this file alone names them all, and has no rule of its own. [`Executor::apply`] carries an
//! action out, a fresh one or a flow's plan alike, with one call for each kind. What it needs to be exact (the SA is there,
//! the packet fits, its TTL goes on) was looked at by [`crate::resolve`], or by [`Rooms::judge`].
//!
//! Everything that is asked of a rare kind of action stands in [`rare::Rare`], and the kinds stand in the list below:
//! a new one is its room, its line there, and its variant in [`Action`].

pub(crate) mod aggfrag;
pub(crate) mod bfd;
pub(crate) mod bundle;
pub(crate) mod crafted;
pub(crate) mod device;
pub(crate) mod forward;
pub(crate) mod fragments;
pub(crate) mod gtpu;
pub(crate) mod hands;
pub(crate) mod limit;
pub(crate) mod look;
pub(crate) mod open;
mod overlay;
pub(crate) mod paths;
pub(crate) mod rare;
mod reception;
pub(crate) mod replication;
pub(crate) mod seal;
pub(crate) mod segments;
pub(crate) mod translate;

use ::forward::reassembly::Done;
use esp::Sa;
use io::Packet;
use outcome::{DropReason, Outcome};
use policy::{Reader, SaEntry};
use wire::Fields;

use crate::crypt::Crypt;
use crate::crypt::open_batch::OpenWork;
use crate::features::hands::Hands;
use crate::features::limit::Grant;
use crate::features::open::{Candidate, Refused, Taker};
use crate::features::rare::{Held, Next, Rare, Subject};
use crate::model::{
    Action, Fate, FirstPorts, Forward, Handed, Meta, NextHop, Payload, RateSlot, SealAll, Turn,
};
use crate::out::{AnyOut, HelperOut, Out};
use crate::view::View;

/// State of the features of one thread, each for itself.
#[derive(Default)]
pub(crate) struct Rooms {
    pub(crate) sas: open::InboundSas,
    pub(crate) bundles: bundle::Bundles,
    pub(crate) translations: translate::Translations,
    pub(crate) rates: limit::Rates,
    /// Looks at flows whose application is not known.
    pub(crate) looks: look::Looks,
    pub(crate) headends: segments::headends::Headends,
    pub(crate) steps: segments::Steps,
    /// Plans of what goes to the far ends of overlays.
    pub(crate) far_ends: segments::headends::Headends,
    /// Packing and unpacking for SAs of IP-TFS mode.
    pub(crate) aggfrag: aggfrag::Aggfrag,
    /// Queues of packet offload devices, where there are any.
    pub(crate) devices: Option<Box<device::Devices>>,
    /// Fragments that wait; a helper has none.
    pub(crate) fragments: Option<Box<fragments::Fragments>>,
    /// Paths that are measured, at the worker that does.
    pub(crate) paths: Option<Box<paths::Paths>>,
    /// Sessions of BFD, at the worker that has them.
    pub(crate) bfd: Option<Box<bfd::Sessions>>,
    /// Streams of copies of other hosts.
    pub(crate) recoveries: replication::Recoveries,
    /// For kinds of actions whose features keep nothing.
    pub(crate) nothing: (),
}

/// Has each rare kind answer by its own room: the kind, and what its feature keeps in [`Rooms`].
macro_rules! rare_kinds {
    ($($kind:ident: $kept:ident,)*) => {
        impl Rooms {
            fn rare_held<'k>(&'k self, action: &'k Action, asked: &Subject<'_>) -> Held<'k> {
                match action {
                    $(Action::$kind(kind) => kind.holds(&self.$kept, asked),)*
                    _ => Held::No,
                }
            }

            /// Carries a rare action out. Returns what is done to the packet next, if it goes on.
            #[inline(always)]
            pub(crate) fn apply_rare(
                &mut self,
                hands: &mut Hands<'_>,
                action: &Action,
                packet: Packet,
                meta: &Meta,
            ) -> Option<Next> {
                match action {
                    $(Action::$kind(kind) => kind.apply(&mut self.$kept, hands, packet, meta),)*
                    // Others are not given to it.
                    _ => {
                        hands.out.drop(packet, DropReason::OutUnsupported);
                        None
                    }
                }
            }
        }

        /// Fate of packets of a rare kind, which may be fragmented before. `None` for the common kinds.
        pub(crate) fn explain_rare(action: &Action, cut: Option<usize>) -> Option<Fate> {
            match action {
                $(Action::$kind(kind) => Some(kind.explains(cut)),)*
                _ => None,
            }
        }

        /// True if it is an action of a rare kind.
        pub(crate) const fn is_rare(action: &Action) -> bool {
            matches!(action, $(Action::$kind(_))|*)
        }
    };
}

rare_kinds! {
    SealAll: bundles,
    Offload: devices,
    Aggregate: aggfrag,
    Application: nothing,
    Measure: paths,
    Bfd: bfd,
    Replicate: recoveries,
    Eliminate: recoveries,
    Step: steps,
    Wrap: headends,
    Encapsulate: far_ends,
    Decapsulate: nothing,
    Translate: translations,
    Limit: rates,
    Look: looks,
}

/// Result of a plan's comparison with a packet.
pub(crate) enum Holds<'r> {
    /// The packet has to be resolved.
    No,
    /// The plan holds.
    Yes,
    /// The plan holds, and this is the SA that protects the packet.
    By(&'r SaEntry<Sa>),
}

impl Rooms {
    /// Compares a plan's action with a packet: the SA is there and below its limits, the packet is short enough, and
    /// its TTL does not end here.
    #[inline(always)]
    pub(crate) fn judge<'r>(
        &self,
        action: &Action,
        reader: &'r Reader<Sa>,
        packet: &Packet,
        h: Fields,
    ) -> Holds<'r> {
        match action {
            Action::Seal(by) => match reader.sa(by.sa) {
                Some(sa) if seal::holds(sa, by, packet, h) => Holds::By(sa),
                _ => Holds::No,
            },
            Action::Forward(by) => match forward::holds(by, packet, h) {
                true => Holds::Yes,
                false => Holds::No,
            },
            Action::OpenBare
            | Action::OpenUdp
            | Action::OpenNext
            | Action::ToLinux(_)
            | Action::BackToLinux { .. }
            | Action::HandOver { .. } => Holds::Yes,
            // All in one arm: with an arm more the compiler finds out anew what the action is at each use of it.
            rare => match self.rarely_holds(rare, &Subject { reader, packet, h }) {
                true => Holds::Yes,
                false => Holds::No,
            },
        }
    }

    /// [`Rooms::judge`] for what few packets have done to them.
    #[inline(never)]
    fn rarely_holds(&self, action: &Action, asked: &Subject<'_>) -> bool {
        match self.rare_held(action, asked) {
            Held::No => false,
            Held::Yes => true,
            Held::If(beneath) => {
                let Subject { reader, packet, h } = asked;
                !matches!(self.judge(beneath, reader, packet, *h), Holds::No)
            }
        }
    }
}

/// A thread, by its exit: a worker does everything itself; a helper leaves to it what few packets need.
pub(crate) trait Thread: AnyOut + AsMut<Self> {
    /// Carries out an action that few packets have.
    fn apply_rare(
        exec: &mut Executor<Self>,
        view: &View,
        turn: Turn<'_>,
        action: &Action,
        packet: Packet,
        meta: &Meta,
    );
    /// Keeps a fragment of what may be ESP for this host.
    fn gather_outer(exec: &mut Executor<Self>, view: &View, packet: Packet, meta: &Meta);
    /// Gives an ESP packet to the device of its SA.
    fn open_by_device(exec: &mut Executor<Self>, view: &View, packet: Packet, meta: &Meta);
    /// Keeps a payload of IP-TFS that was accepted until it is taken apart.
    fn keep_payload(exec: &mut Executor<Self>, payload: Payload);
}

impl Thread for Out {
    #[inline(never)]
    fn apply_rare(
        exec: &mut Executor,
        view: &View,
        turn: Turn<'_>,
        action: &Action,
        packet: Packet,
        meta: &Meta,
    ) {
        let (rooms, mut hands) = exec.hands(view, turn);
        if let Some(next) = rooms.apply_rare(&mut hands, action, packet, meta) {
            exec.apply_next(view, turn, next, meta);
        }
    }

    fn gather_outer(exec: &mut Executor, view: &View, packet: Packet, meta: &Meta) {
        let Executor { out, rooms, .. } = exec;
        fragments::gather_outer(rooms.fragments.as_deref_mut(), (view, out), packet, meta);
    }

    fn open_by_device(exec: &mut Executor, view: &View, packet: Packet, meta: &Meta) {
        let Executor { out, rooms, .. } = exec;
        device::open(rooms.devices.as_deref_mut(), (view, out), packet, meta);
    }

    fn keep_payload(exec: &mut Executor, payload: Payload) {
        exec.rooms.aggfrag.take(&mut exec.out, payload);
    }
}

impl Thread for HelperOut {
    #[cold]
    fn apply_rare(
        exec: &mut Executor<HelperOut>,
        view: &View,
        _turn: Turn<'_>,
        _action: &Action,
        packet: Packet,
        meta: &Meta,
    ) {
        exec.out.leave(view, packet, meta);
    }

    fn gather_outer(exec: &mut Executor<HelperOut>, view: &View, packet: Packet, meta: &Meta) {
        exec.out.leave(view, packet, meta);
    }

    fn open_by_device(exec: &mut Executor<HelperOut>, view: &View, packet: Packet, meta: &Meta) {
        exec.out.leave(view, packet, meta);
    }

    fn keep_payload(exec: &mut Executor<HelperOut>, payload: Payload) {
        exec.out.keep_payload(payload);
    }
}

/// The part of the path that carries decisions out: the crypto stage, the exit, and the features.
pub(crate) struct Executor<O = Out> {
    pub(crate) crypt: Crypt,
    pub(crate) out: O,
    pub(crate) rooms: Rooms,
}

impl<O: AnyOut> AsMut<O> for Executor<O> {
    fn as_mut(&mut self) -> &mut O {
        &mut self.out
    }
}

impl<O: Thread> Executor<O> {
    pub(crate) fn new(crypt: Crypt, out: O) -> Executor<O> {
        Executor { crypt, out, rooms: Rooms::default() }
    }

    /// Lends a feature's own state what features work with.
    #[inline(always)]
    pub(crate) fn hands<'a>(
        &'a mut self,
        view: &'a View,
        turn: Turn<'a>,
    ) -> (&'a mut Rooms, Hands<'a, O>) {
        let Executor { crypt, out, rooms } = self;
        (rooms, Hands { view, turn, crypt, out })
    }

    /// Carries out an action on a packet.
    ///
    /// `sa` is the SA of [`Action::Seal`]; `to` the next hop, where the action's adjacency is not
    /// known.
    #[inline(always)]
    pub(crate) fn apply(
        &mut self,
        view: &View,
        turn: Turn<'_>,
        action: &Action,
        (sa, to): (Option<&SaEntry<Sa>>, Option<&NextHop>),
        packet: Packet,
        meta: &Meta,
    ) {
        let h = meta.summary.fields;
        match action {
            Action::Seal(by) => match sa {
                Some(sa) => seal::seal(&mut self.hands(view, turn).1, by, (sa, to), packet, h),
                None => self.out.drop(packet, DropReason::OutStateExpired),
            },
            Action::Forward(by) => self.forward(view, (by, to), packet, h),
            Action::OpenBare => self.open_bare(view, packet, meta),
            Action::OpenUdp => self.open_udp(view, packet, meta),
            Action::OpenNext => self.open_next(view, packet, meta),
            Action::ToLinux(way) => forward::give(&mut self.out, packet, *way),
            Action::BackToLinux { tag } => self.out.give_back(packet, *tag),
            Action::HandOver { to } => self.out.hand_over(view, (*to).into(), packet, meta),
            // In one arm, as in `Rooms::judge`.
            rare => O::apply_rare(self, view, turn, rare, packet, meta),
        }
    }

    /// Forwards a packet in clear. `to` is the next hop, where the action's adjacency is not known.
    #[inline(always)]
    pub(crate) fn forward(
        &mut self,
        view: &View,
        (by, to): (&Forward, Option<&NextHop>),
        packet: Packet,
        h: Fields,
    ) {
        forward::forward(view, &mut self.out, (by, to), packet, h);
    }

    /// Bare ESP for this host.
    #[inline(never)]
    fn open_bare(&mut self, view: &View, packet: Packet, meta: &Meta) {
        self.open(view, packet, meta);
    }

    /// Bare ESP for this host, as its destination alone tells.
    #[inline(always)]
    pub(crate) fn open(&mut self, view: &View, packet: Packet, meta: &Meta) {
        let candidate = self.rooms.sas.candidate(view, &packet, meta, false);
        self.open_candidate(view, packet, meta, candidate);
    }

    /// A packet to a NAT traversal port of this host.
    #[inline(never)]
    fn open_udp(&mut self, view: &View, packet: Packet, meta: &Meta) {
        let candidate = open::udp_candidate(view, &mut self.rooms.sas, &packet, meta);
        self.open_candidate(view, packet, meta, candidate);
    }

    /// AH for this host; or what was inside another SA's packet and is an SA's again.
    #[inline(never)]
    fn open_next(&mut self, view: &View, mut packet: Packet, meta: &Meta) {
        let outers = match open::outers_of(meta) {
            Ok(outers) => outers,
            Err(reason) => return self.out.drop(packet, reason),
        };
        let Executor { crypt, out, rooms } = self;
        let frames = (rooms.fragments.as_deref_mut(), out.pool());
        let by = (&mut rooms.sas, &mut *crypt);
        let candidate = open::next_candidate(view, by, frames, &mut packet, meta);
        let is_gathered = candidate.is_ok();
        self.open_candidate(view, packet, meta, candidate);
        if let Some(outers) = outers.filter(|_| is_gathered) {
            self.crypt.opens.note_outers(outers);
        }
    }

    /// Opens a packet, or does what else is to be done with it.
    #[inline(always)]
    fn open_candidate(
        &mut self,
        view: &View,
        packet: Packet,
        meta: &Meta,
        candidate: Result<Candidate, Refused>,
    ) {
        match candidate {
            Ok(candidate) => self.gather_open(view, packet, meta, candidate),
            Err(refused) => self.refuse(view, packet, meta, refused),
        }
    }

    /// Adds a packet to the burst that is decrypted.
    #[inline(always)]
    pub(crate) fn gather_open(
        &mut self,
        view: &View,
        packet: Packet,
        meta: &Meta,
        candidate: Candidate,
    ) {
        open::gather(view, &mut self.crypt, &mut self.out, (packet, meta), candidate);
    }

    #[inline(never)]
    fn refuse(&mut self, view: &View, packet: Packet, meta: &Meta, refused: Refused) {
        match open::refuse(view, &mut self.out, (packet, meta), refused) {
            Some((packet, Taker::Device)) => O::open_by_device(self, view, packet, meta),
            Some((packet, Taker::Fragments)) => O::gather_outer(self, view, packet, meta),
            None => {}
        }
    }

    /// Accepts a packet that was decrypted, or says how it ends.
    #[inline(always)]
    pub(crate) fn accept(
        &mut self,
        view: &View,
        packet: &mut Packet,
        work: &OpenWork,
        turn: Turn<'_>,
    ) -> Result<(), Outcome> {
        let Executor { crypt, out, rooms } = self;
        open::accept(view, (crypt, out, &mut rooms.aggfrag), packet, work, turn)
    }

    /// Seals what was gathered, and sends it.
    #[inline(always)]
    pub(crate) fn seal_gathered(&mut self, view: &View, turn: Turn<'_>) {
        seal::seal_gathered(view, turn, &mut self.crypt, &mut self.out);
    }
}

impl Executor {
    /// Carries out the limit of a flow on a packet that has waited for tokens, and what is done to it then.
    pub(crate) fn apply_granted(
        &mut self,
        view: &View,
        turn: Turn<'_>,
        by: (RateSlot, Grant),
        packet: Packet,
        meta: &Meta,
    ) {
        let (rooms, mut hands) = self.hands(view, turn);
        let by = (by.0, Some(by.1));
        if let Some(next) = limit::pass_by_plan(&mut rooms.rates, &mut hands, by, packet, meta) {
            self.apply_next(view, turn, next, meta);
        }
    }

    /// Carries out what a rare action has left to be done.
    #[inline(always)]
    fn apply_next(&mut self, view: &View, turn: Turn<'_>, next: Next, meta: &Meta) {
        let sa = match &next.action {
            Action::Seal(by) => view.reader.sa(by.sa),
            _ => None,
        };
        let Some(fields) = next.fields else {
            return self.apply(view, turn, &next.action, (sa, None), next.packet, meta);
        };
        let mut meta = meta.clone();
        meta.summary.fields = fields;
        self.apply(view, turn, &next.action, (sa, None), next.packet, &meta);
    }

    /// Has several SAs protect a packet, as was decided about it alone.
    pub(crate) fn seal_all(
        &mut self,
        view: &View,
        turn: Turn<'_>,
        seal: &SealAll,
        packet: Packet,
        h: Fields,
    ) {
        bundle::seal_all(&mut self.hands(view, turn).1, seal, packet, h);
    }

    /// Makes one packet of all its fragments.
    pub(crate) fn join(&mut self, done: Done<FirstPorts>, lens: (usize, usize)) -> Option<Handed> {
        let Executor { out, rooms, .. } = self;
        rooms.fragments.as_mut()?.join(out, done, lens)
    }

    /// Sends the payloads of IP-TFS that are due; all, if `is_last`.
    pub(crate) fn send_due(&mut self, view: &View, turn: Turn<'_>, is_last: bool) {
        let (rooms, mut hands) = self.hands(view, turn);
        rooms.aggfrag.send_due(&mut hands, is_last);
    }

    /// Gives up all that waits in features: SAs have other homes from now on, or the worker goes.
    pub(crate) fn drop_waiting(&mut self, view: &View) {
        let Executor { out, rooms, .. } = self;
        let Rooms { fragments, aggfrag, rates, recoveries, .. } = rooms;
        if let Some(fragments) = fragments {
            fragments.drop_all(out);
        }
        aggfrag.sweep(view, out, true);
        limit::drop_waiting(rates, out);
        recoveries.forget(out, view.now.ns);
    }

    /// True if packets go on when the burst is done: fragments, payloads of IP-TFS, or between two steps of SRv6.
    #[inline]
    pub(crate) fn has_gathered(&self) -> bool {
        let Rooms { fragments, aggfrag, .. } = &self.rooms;
        !self.out.between.is_empty()
            || fragments.as_ref().is_some_and(|fragments| fragments.has_done())
            || aggfrag.has_arrived()
    }
}
