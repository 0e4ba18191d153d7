//! Sessions of one worker: which is due, and what it sends then.

use core::net::IpAddr;
use std::collections::HashMap;

use arrayvec::ArrayVec;
use bfd::{Session, Standing};
use io::BURST_LEN;
use outcome::DropReason;

use super::agenda::Agenda;
use super::setup::{BfdAsked, BfdChange, BfdRefusals, BfdReports, BfdSession};
use crate::event::Event;
use crate::features::crafted::{Crafted, Outside, Upper, made, way_out};
use crate::model::Origin;
use crate::out::{AnyOut, Out};
use crate::view::View;

/// Sessions that are looked at in a round at most, so that packets do not wait for them.
const SESSIONS_A_ROUND: usize = 32;

/// Sessions that are told of at once.
const REPORTS_AT_ONCE: usize = 64;

/// DSCP of packets: CS6, network control, as `bfdd` marks its own.
pub(super) const DSCP: u8 = 48;

/// Time after which the control thread is told again that did not listen, in nanoseconds.
const TELL_AGAIN_NS: u64 = 10_000_000;

/// SessionEnds of a session: addresses of this host and of the peer, true for several hops, and the interface, 0 for any.
pub(super) type SessionEnds = (IpAddr, IpAddr, bool, u32);

/// State of the worker that has sessions.
#[derive(Default)]
pub(crate) struct Sessions {
    /// By slot; a slot without one is free.
    pub(super) slots: Vec<Option<Carried>>,
    pub(super) by_discr: HashMap<u32, u32, ahash::RandomState>,
    pub(super) by_ends: HashMap<SessionEnds, u32, ahash::RandomState>,
    free: Vec<u32>,
    pub(super) agenda: Agenda,
    pub(super) refusals: BfdRefusals,
    /// Echo packets of peers, on their way back.
    pub(super) echoes: ArrayVec<Crafted, BURST_LEN>,
}

/// A session, and how its packets go.
pub(super) struct Carried {
    pub(super) setup: BfdSession,
    pub(super) session: Session,
    /// True if it ends once its peer has been told.
    ends: bool,
    /// True if the control thread has not been told yet how it stands.
    is_untold: bool,
}

impl Carried {
    pub(super) const fn ends_of(setup: &BfdSession) -> SessionEnds {
        (setup.local, setup.far, setup.is_multi_hop, setup.ifindex)
    }

    /// Tells the control thread how the session stands, if that is news.
    pub(super) fn tell(&mut self, out: &Out) {
        if self.session.take_news() || self.is_untold {
            self.is_untold = !out.reports.offer(Event::Bfd(self.session.standing()));
        }
    }

    /// Time at which the session is to be looked at.
    pub(super) fn due_ns(&self, now_ns: u64) -> Option<u64> {
        let again = self.is_untold.then_some(now_ns + TELL_AGAIN_NS);
        self.session.due_ns().into_iter().chain(again).min()
    }
}

impl Sessions {
    /// Follows a change. `None` if there are no sessions any more.
    pub(crate) fn follow(
        kept: Option<Box<Sessions>>,
        change: BfdChange,
        now_ns: u64,
    ) -> Option<Box<Sessions>> {
        match change {
            BfdChange::Set(setup) => {
                let mut kept = kept.unwrap_or_default();
                kept.set(setup, now_ns);
                Some(kept)
            }
            BfdChange::End(discr) => {
                let mut kept = kept?;
                kept.end(discr, now_ns);
                Some(kept)
            }
            BfdChange::EndAll => None,
        }
    }

    fn set(&mut self, setup: BfdSession, now_ns: u64) {
        let discr = setup.settings.discr;
        let known = self.by_discr.get(&discr).copied();
        let slot = match known {
            Some(slot) => slot,
            None => {
                let session = Session::new(setup.settings, now_ns.saturating_add(setup.hold_ns));
                let carried = Carried { setup, session, ends: false, is_untold: false };
                let slot = self.free.pop().unwrap_or_else(|| {
                    self.slots.push(None);
                    (self.slots.len() - 1) as u32
                });
                self.agenda.grow(self.slots.len());
                self.by_discr.insert(discr, slot);
                if let Some(place) = self.slots.get_mut(slot as usize) {
                    *place = Some(carried);
                }
                slot
            }
        };
        let Some(Some(carried)) = self.slots.get_mut(slot as usize) else { return };
        let before = Carried::ends_of(&carried.setup);
        if known.is_some() {
            carried.session.set(setup.settings, now_ns);
        }
        (carried.setup, carried.ends) = (setup, false);
        let due_ns = carried.due_ns(now_ns);
        if self.by_ends.get(&before) == Some(&slot) {
            self.by_ends.remove(&before);
        }
        self.by_ends.insert(Carried::ends_of(&setup), slot);
        self.agenda.set(slot, due_ns);
    }

    /// Switches a session off. It is removed once its peer has been told so.
    fn end(&mut self, discr: u32, now_ns: u64) {
        let Some(slot) = self.by_discr.get(&discr).copied() else { return };
        let Some(Some(carried)) = self.slots.get_mut(slot as usize) else { return };
        let settings = *carried.session.settings();
        carried.session.set(bfd::Settings { is_shut: true, ..settings }, now_ns);
        carried.ends = true;
        self.agenda.set(slot, Some(now_ns));
    }

    fn remove(&mut self, slot: u32) {
        self.agenda.set(slot, None);
        let Some(carried) = self.slots.get_mut(slot as usize).and_then(Option::take) else {
            return;
        };
        self.by_discr.remove(&carried.setup.settings.discr);
        let ends = Carried::ends_of(&carried.setup);
        if self.by_ends.get(&ends) == Some(&slot) {
            self.by_ends.remove(&ends);
        }
        self.free.push(slot);
    }

    /// Time at which a session is to be looked at; 0 while echo packets wait.
    pub(crate) fn due_ns(&self) -> Option<u64> {
        let first = self.agenda.first().map(|(_, due_ns)| due_ns);
        if self.echoes.is_empty() { first } else { Some(0) }
    }

    /// The next echo packet that goes back.
    pub(crate) fn next_echo(&mut self) -> Option<Crafted> {
        self.echoes.pop()
    }

    /// Looks at sessions that are due, and makes their packets.
    pub(crate) fn make(
        &mut self,
        view: &View,
        out: &mut Out,
        noise: u64,
        mut send: impl FnMut(Crafted),
    ) {
        let now_ns = out.reports.clock_ns();
        let mut noise = noise;
        for _ in 0..SESSIONS_A_ROUND {
            let Some((slot, _)) = self.agenda.first().filter(|(_, due_ns)| *due_ns <= now_ns)
            else {
                return;
            };
            let Some(Some(carried)) = self.slots.get_mut(slot as usize) else {
                self.agenda.set(slot, None);
                continue;
            };
            carried.session.expire(now_ns);
            if let Some(crafted) = carried.make(view, out, (now_ns, noise as u32)) {
                send(crafted);
            }
            if carried.ends {
                self.remove(slot);
                continue;
            }
            carried.tell(out);
            noise = noise.rotate_right(32).wrapping_mul(ODD);
            let due_ns = carried.due_ns(now_ns);
            self.agenda.set(slot, due_ns);
        }
    }

    /// Tells of sessions.
    pub(crate) fn report(&self, asked: BfdAsked) -> BfdReports {
        let standing = |carried: &Carried| carried.session.standing();
        let refusals = self.refusals;
        let from = match asked {
            BfdAsked::One(discr) => {
                let slot = self.by_discr.get(&discr).and_then(|at| self.slots.get(*at as usize));
                let sessions: Vec<Standing> = slot.into_iter().flatten().map(standing).collect();
                return BfdReports { sessions, next: None, refusals };
            }
            BfdAsked::From(from) => from,
        };
        let rest = self.slots.get(from..).unwrap_or_default();
        let some = rest.iter().take(REPORTS_AT_ONCE);
        let sessions = some.flatten().filter(|carried| !carried.ends).map(standing).collect();
        let next = (rest.len() > REPORTS_AT_ONCE).then_some(from + REPORTS_AT_ONCE);
        BfdReports { sessions, next, refusals }
    }
}

impl Carried {
    /// The packet that is due. `None` if none is, if there is no buffer for it, or if it cannot be made.
    fn make(&mut self, view: &View, out: &mut Out, (now_ns, noise): (u64, u32)) -> Option<Crafted> {
        let packet = self.session.send(now_ns, noise)?;
        let BfdSession { local, far, is_multi_hop, source_port, .. } = self.setup;
        let port = if is_multi_hop { bfd::MULTI_HOP_PORT } else { bfd::SINGLE_HOP_PORT };
        let ends = Outside { src: local, dst: far, dscp: DSCP, ttl: bfd::TTL };
        let (packet, h) = made(out, ends, Upper::Udp(source_port, port), &packet.to_bytes())?;
        out.counters.work.bfd_sent.add(1);
        match self.origin(view) {
            Some(origin) => Some((packet, h, origin)),
            // Its interface is down, or gone.
            None => {
                out.drop(packet, DropReason::TransmitDown);
                None
            }
        }
    }

    /// How packets leave. `None` while the interface is down, or gone.
    pub(super) fn origin(&self, view: &View) -> Option<Origin> {
        let ifindex = self.setup.ifindex;
        let is_up = || view.topology.interfaces.get(&ifindex).is_some_and(|it| it.up);
        match view.binding(ifindex) {
            Some(_) => way_out(view, ifindex, false),
            None if is_link_local(self.setup.far) => is_up().then_some(Origin::OnLink { ifindex }),
            None => way_out(view, 0, false),
        }
    }
}

/// True for an address that is on one link alone.
pub const fn is_link_local(addr: IpAddr) -> bool {
    match addr {
        IpAddr::V4(addr) => addr.is_link_local(),
        IpAddr::V6(addr) => addr.is_unicast_link_local(),
    }
}

/// Spreads random bits over the sessions of a round (a multiplier of Knuth's, MMIX).
const ODD: u64 = 6_364_136_223_846_793_005;
