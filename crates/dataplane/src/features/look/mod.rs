//! Flows whose application is not known: copies of their first packets go to a classifier.
//!
//! A plan with a look is as any other, and copies the packets that go by it, until the classifier has said what the flow is, or
//! enough packets were copied and it has said nothing. Then the plan does not hold, and the next packet is resolved to
//! one without a look, with the application's counters: a flow that is known pays nothing more.

mod copies;

pub use copies::{Copier, Copies, CopyCounts, CopyReader, NoMore, copies};

use apps::{AppId, FlowId};
use conntrack::Rewrite;
use io::Packet;
use outcome::DropReason;
use policy::PolicyCounters;
use wire::{Fields, protocol, tcp, udp};

use crate::features::hands::Hands;
use crate::features::rare::{Held, Next, Rare, Subject};
use crate::model::{Action, Fate, LookSlot, Meta};
use crate::out::AnyOut;
use crate::view::View;

/// Packets of one direction that are copied at most.
const MOST_COPIES: u8 = 16;

/// Packets of one direction that are waited for at most, with payload or without.
const MOST_PACKETS: u8 = 200;

/// How long a verdict is waited for behind the last copy, in nanoseconds.
const PATIENCE_NS: u64 = 1_000_000_000;

/// A look at one direction of a flow.
struct FlowLook {
    serial: u32,
    /// Action for the packets themselves.
    beneath: Action,
    stage: Stage,
}

/// Stage of a look.
enum Stage {
    /// Packets are copied.
    Open(Open),
    /// The application is known, and there is no room for its counters in the plan.
    Counted(PolicyCounters),
    /// Packets are resolved anew.
    Over,
}

/// A flow that is open.
pub(crate) struct Open {
    pub(crate) flow: FlowId,
    /// Translation that gives packets the ends that the flow's client knows, where they come with others.
    pub(crate) translation: Option<Rewrite>,
    copies: u8,
    packets: u8,
    copied_ns: u64,
}

/// The looks of one thread. They take memory with the first one.
#[derive(Default)]
pub(crate) struct Looks {
    places: Vec<Option<FlowLook>>,
    serial: u32,
    copier: Option<Box<Copier>>,
}

impl Open {
    /// A flow of which no packet was copied.
    pub(crate) fn new(flow: FlowId, translation: Option<Rewrite>) -> Open {
        Open { flow, translation, copies: 0, packets: 0, copied_ns: 0 }
    }

    /// Copies a packet, if it says something.
    fn look(&mut self, copier: &mut Copier, packet: &Packet, h: Fields, now_ns: u64) {
        self.packets = self.packets.saturating_add(1);
        let bytes = packet.data();
        if self.copies >= MOST_COPIES && !self.is_dns() || !has_payload(bytes, h) {
            return;
        }
        self.copies = self.copies.saturating_add(1);
        self.copied_ns = now_ns;
        let translation = self.translation;
        copier.copy(now_ns, bytes, |copy| {
            if let Some(rewrite) = translation {
                // One that is too short for it is too short for the classifier.
                let _ = rewrite.apply(copy, h);
            }
        });
    }

    /// True for flows to name servers, all of which is looked at: each answer is news.
    fn is_dns(&self) -> bool {
        self.flow.ends().iter().any(|end| end.port == 53)
    }

    /// True if no verdict will come.
    fn is_in_vain(&self, now_ns: u64) -> bool {
        let has_waited = now_ns.saturating_sub(self.copied_ns) > PATIENCE_NS;
        let is_enough = self.copies >= MOST_COPIES && has_waited || self.packets >= MOST_PACKETS;
        is_enough && !self.is_dns()
    }
}

impl Looks {
    /// Copies go this way from now on.
    pub(crate) fn set_copier(&mut self, copier: Copier) {
        self.copier = Some(Box::new(copier));
    }

    /// Looks at the flow at a place of the flow cache, which has so many, beginning with this packet.
    pub(crate) fn open(
        &mut self,
        (place, places): (usize, usize),
        beneath: Action,
        mut open: Open,
        (packet, h, now_ns): (&Packet, Fields, u64),
    ) -> Option<LookSlot> {
        open.look(self.copier.as_mut()?, packet, h, now_ns);
        self.keep(place, places, beneath, Stage::Open(open))
    }

    /// Copies a packet of a flow that has no place.
    pub(crate) fn look_once(
        &mut self,
        mut open: Open,
        (packet, h, now_ns): (&Packet, Fields, u64),
    ) {
        if let Some(copier) = &mut self.copier {
            open.look(copier, packet, h, now_ns);
        }
    }

    /// Counts the packets of the flow at a place.
    pub(crate) fn count(
        &mut self,
        (place, places): (usize, usize),
        beneath: Action,
        counters: PolicyCounters,
    ) -> Option<LookSlot> {
        self.keep(place, places, beneath, Stage::Counted(counters))
    }

    fn keep(
        &mut self,
        place: usize,
        places: usize,
        beneath: Action,
        stage: Stage,
    ) -> Option<LookSlot> {
        if self.places.is_empty() {
            self.places.resize_with(places, || None);
        }
        self.serial = self.serial.wrapping_add(1);
        let serial = self.serial;
        *self.places.get_mut(place)? = Some(FlowLook { serial, beneath, stage });
        Some(LookSlot { place: place as u32, serial })
    }

    /// The round ends: what was copied is told.
    #[inline(always)]
    pub(crate) fn end_round(&mut self) {
        if let Some(copier) = &mut self.copier {
            copier.end_round();
        }
    }
}

impl Rare for LookSlot {
    type Kept = Looks;

    #[inline(never)]
    fn holds<'k>(&'k self, looks: &'k Looks, _: &Subject<'_>) -> Held<'k> {
        match looks.places.get(self.place as usize) {
            Some(Some(look)) if look.serial == self.serial => match look.stage {
                Stage::Open(_) | Stage::Counted(_) => Held::If(&look.beneath),
                Stage::Over => Held::No,
            },
            _ => Held::No,
        }
    }

    fn apply(
        &self,
        looks: &mut Looks,
        hands: &mut Hands<'_>,
        packet: Packet,
        meta: &Meta,
    ) -> Option<Next> {
        let Looks { places, copier, .. } = looks;
        let look = places.get_mut(self.place as usize).and_then(Option::as_mut);
        let Some(look) = look.filter(|look| look.serial == self.serial) else {
            // It was held against the packet before.
            hands.out.drop(packet, DropReason::OutUnsupported);
            return None;
        };
        let h = meta.summary.fields;
        match (&mut look.stage, copier) {
            (Stage::Open(open), Some(copier)) => {
                open.look(copier, &packet, h, hands.view.now.ns);
                if is_over(open, hands.view) {
                    look.stage = Stage::Over;
                }
            }
            (Stage::Counted(counters), _) => {
                let view = hands.view;
                counters.count(view.worker, 1, h.total_len().into(), view.now.wall_s);
            }
            (Stage::Open(_) | Stage::Over, _) => {}
        }
        Some(Next { action: look.beneath, packet, fields: None })
    }

    /// Of a plan, and never of a fresh decision.
    fn explains(&self, _cut: Option<usize>) -> Fate {
        Fate::Forwarded
    }
}

/// True if a flow is known, or will not be: then it is noted as one of which nothing is known.
fn is_over(open: &Open, view: &View) -> bool {
    let Some(applications) = &view.topology.applications else { return true };
    let now_ns = view.now.ns;
    if open.is_dns() {
        return false;
    }
    if applications.hints().flow(&open.flow, now_ns).is_some() {
        return true;
    }
    let is_in_vain = open.is_in_vain(now_ns);
    if is_in_vain {
        applications.hints().learn_flow(&open.flow, AppId::UNKNOWN, now_ns);
    }
    is_in_vain
}

/// True if a packet of TCP or UDP has bytes behind its headers.
fn has_payload(packet: &[u8], h: Fields) -> bool {
    let (at, end) = (usize::from(h.header_len()), usize::from(h.total_len()));
    match h.protocol() {
        protocol::TCP => {
            let words = packet.get(at + 12).map_or(0, |byte| usize::from(byte >> 4));
            words * 4 >= tcp::MIN_HEADER_LEN && at + words * 4 < end
        }
        protocol::UDP => at + udp::HEADER_LEN < end,
        _ => false,
    }
}
