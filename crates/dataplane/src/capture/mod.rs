//! Taps: what passes through a worker, recorded before and after IPsec: `culvert capture` and `culvert trace`.
//!
//! ```text
//!   port, Linux ──> arrived ──┬─ opening ── engine ── opened ──┐
//!                             ├────────────────────────────────┼─ sealing ── engine ── sealed ──┐
//!                             └────────────────────────────────┴────────────────────────────────┴─> left, ended
//! ```
//!
//! A packet that is protected or decrypted is recorded twice: on the wire's side and in clear, each with what
//! became of it there. Without a tap a burst costs a test for one at each of these places, and a packet nothing.
//! With one, bursts stay with the worker: helpers record nothing.

mod device;
mod filter;
mod record;
mod recorder;

use arrayvec::ArrayVec;
use io::{BURST_LEN, Packet};
use outcome::{DropReason, Outcome};
use policy::SaHandle;
use wire::ethernet::{EthernetHeader, HEADER_LEN};
use wire::{Span, Summary, natt, protocol};

pub use filter::{Drops, Filter, FlowFilter, PolicyFilter};
pub use record::{Buffer, OfSa, Place, Record, Verdict};
pub use recorder::{Gone, Recorder, TapConfig, TapReader, tap};

use crate::crypt::{Exit, Opens, Seals};
use crate::model::{Explanation, Handed, Meta, Now, Source};
use crate::view::View;
use recorder::{Coming, bytes_of, path_of, policy_of};

/// Taps that a worker has at a time at most.
pub const MAX_TAPS: usize = 4;

/// The taps of one worker: at least one.
#[derive(Default)]
pub(crate) struct Taps {
    all: ArrayVec<Recorder, MAX_TAPS>,
}

/// The frames of a port's queue, before it is sent, and the interfaces that they leave by.
pub(crate) type Leaving = ArrayVec<(u32, u32), BURST_LEN>;

impl Taps {
    /// One more, between two rounds; where there are too many it ends at once.
    pub(crate) fn add(&mut self, mut recorder: Recorder, now: Now) {
        self.all.retain(Recorder::end_round);
        recorder.set_time(now);
        let _ = self.all.try_push(recorder);
    }

    /// A round begins.
    #[cold]
    #[inline(never)]
    pub(crate) fn begin_round(&mut self, view: &View) {
        self.all.iter_mut().for_each(|tap| tap.set_time(view.now));
    }

    /// A round is over; false if the last tap is.
    pub(crate) fn end_round(&mut self) -> bool {
        self.all.retain(Recorder::end_round);
        !self.all.is_empty()
    }

    /// All are over.
    pub(crate) fn end(mut self) {
        self.all.iter_mut().for_each(Recorder::end);
    }

    /// A packet was received, or another worker has handed it over.
    pub(crate) fn arrived(
        &mut self,
        view: &View,
        packet: &Packet,
        meta: &Meta,
        explain: &dyn Fn() -> Option<Explanation>,
    ) {
        let Summary { flow, fields } = &meta.summary;
        let ifindex = meta.ingress.ifindex;
        let is_ipsec = match fields.protocol() {
            protocol::ESP | protocol::AH => true,
            protocol::UDP => view.topology.is_natt_port(flow.ports().1),
            _ => false,
        };
        let sa = meta.ingress.via().and_then(|sa| of_sa(view, sa));
        let is_from_linux = ifindex == 0 || view.binding(ifindex).is_some();
        let is_wire = is_ipsec && sa.is_none() && !is_from_linux;
        for tap in &mut self.all {
            let is_match = tap.is_match(&meta.summary);
            // What is inside may be of the flow.
            if !is_match && !is_wire {
                continue;
            }
            let explanation = if is_wire { None } else { explain() };
            let explains = tap.config.explains;
            let record = tap.begin(Coming {
                place: if is_wire { Place::Wire } else { Place::Plain },
                is_outbound: sa.is_none() && is_from_linux,
                ifindex,
                sa,
                policy: explanation.as_ref().and_then(policy_of),
                is_match,
                frame: packet.frame.index(),
                bytes: packet.data(),
            });
            if let Some(record) = record {
                note(record, explanation, explains);
            }
        }
    }

    /// Records a frame of a port that is no packet for this host, with the reason.
    pub(crate) fn refused(&mut self, packet: &Packet, source: Source, reason: DropReason) {
        use DropReason::{MalformedEthernet, OtherHost, UnexpectedProtocol, UnknownVlan};
        let is_frame =
            matches!(reason, MalformedEthernet | OtherHost | UnexpectedProtocol | UnknownVlan);
        for tap in &mut self.all {
            tap.begin(Coming {
                place: if is_frame { Place::Frame } else { Place::Plain },
                is_outbound: false,
                ifindex: source.ifindex,
                sa: None,
                policy: None,
                is_match: tap.config.filter.flow.is_empty(),
                frame: packet.frame.index(),
                bytes: packet.data(),
            });
        }
    }

    /// Packets are about to be decrypted.
    #[cold]
    #[inline(never)]
    pub(crate) fn opening(&mut self, view: &View, opens: &Opens) {
        for (packet, work) in opens.packets.iter().zip(&opens.work) {
            let sa = of_sa(view, work.sa);
            self.all.iter_mut().for_each(|tap| to_open(tap, packet, sa, work.ifindex()));
        }
    }

    /// A packet was decrypted, and accepted.
    pub(crate) fn opened(
        &mut self,
        packet: &Packet,
        meta: &Meta,
        sa: Option<OfSa>,
        explain: &dyn Fn() -> Option<Explanation>,
    ) {
        let frame = packet.frame.index();
        for tap in &mut self.all {
            let mut is_asked = tap.is_match(&meta.summary);
            if let Some(record) = tap.settle(frame, Verdict::Decrypted) {
                record.is_match |= is_asked;
                is_asked = record.is_match;
            }
            if !is_asked {
                continue;
            }
            let explanation = explain();
            let explains = tap.config.explains;
            let record = tap.begin(Coming {
                place: Place::Plain,
                is_outbound: false,
                ifindex: meta.ingress.ifindex,
                sa,
                policy: explanation.as_ref().and_then(policy_of),
                is_match: true,
                frame,
                bytes: packet.data(),
            });
            if let Some(record) = record {
                note(record, explanation, explains);
            }
        }
    }

    /// Packets are about to be encrypted.
    #[cold]
    #[inline(never)]
    pub(crate) fn sealing(&mut self, view: &View, seals: &Seals) {
        self.all.iter_mut().for_each(Recorder::begin_sealing);
        for (packet, work) in seals.packets.iter().zip(&seals.work) {
            let frame = packet.frame.index();
            let by = of_sa(view, work.sa());
            for tap in &mut self.all {
                let (is_match, policy) = to_seal(tap, packet, by);
                tap.note_sealing(frame, is_match, policy);
            }
        }
    }

    /// Packets have been encrypted, and are about to be sent.
    #[cold]
    #[inline(never)]
    pub(crate) fn sealed(&mut self, view: &View, seals: &Seals) {
        for (packet, work) in seals.packets.iter().zip(&seals.work) {
            if work.end.is_some() {
                continue;
            }
            let Span { start, len } = packet.span;
            let (span, ifindex) = match work.exit() {
                Exit::Ready(_) => (Span { start: start + HEADER_LEN, len: len - HEADER_LEN }, 0),
                Exit::To(to) => (packet.span, to.ifindex),
            };
            let (frame, bytes) = (packet.frame.index(), bytes_of(packet, span));
            for tap in &mut self.all {
                let (is_match_inside, policy) = tap.sealing(frame);
                tap.begin(Coming {
                    place: Place::Wire,
                    is_outbound: true,
                    ifindex,
                    sa: of_sa(view, work.sa()),
                    policy,
                    is_match: is_match_inside || is_match(tap, bytes),
                    frame,
                    bytes,
                });
            }
        }
    }

    /// Records packets that a port is about to send, of those that have waited or were made here.
    /// `leaves_by` tells a frame's interface: the port's, or a VLAN's of it.
    pub(crate) fn leaving(
        &mut self,
        packets: &[Packet],
        is_linux: bool,
        leaves_by: impl Fn(&Packet) -> u32,
    ) -> Leaving {
        for packet in packets {
            let frame = packet.frame.index();
            for tap in self.all.iter_mut().filter(|tap| !tap.has(frame)) {
                let Span { start, len } = packet.span;
                let span = match is_linux {
                    true => packet.span,
                    false => {
                        // Of a VLAN it has tags.
                        let header = EthernetHeader::parse(packet.data());
                        let header_len = header.map_or(HEADER_LEN, |h| h.payload_offset);
                        Span { start: start + header_len, len: len.saturating_sub(header_len) }
                    }
                };
                let bytes = bytes_of(packet, span);
                let Ok(h) = wire::parse_ip(bytes) else { continue };
                let is_wire = match h.protocol {
                    protocol::ESP | protocol::AH => true,
                    protocol::UDP => h.src_port == natt::PORT,
                    _ => false,
                };
                if tap.is_match(&(&h).into()) {
                    tap.begin(Coming {
                        place: if is_wire && !is_linux { Place::Wire } else { Place::Plain },
                        is_outbound: !is_linux,
                        ifindex: 0,
                        sa: None,
                        policy: None,
                        is_match: true,
                        frame,
                        bytes,
                    });
                }
            }
        }
        packets.iter().map(|packet| (packet.frame.index(), leaves_by(packet))).collect()
    }

    /// A port has taken the first `sent` of these frames; the others are dropped.
    pub(crate) fn left(
        &mut self,
        frames: &Leaving,
        is_linux: bool,
        (sent, reason): (usize, DropReason),
    ) {
        for (at, (frame, ifindex)) in frames.iter().enumerate() {
            let ifindex = *ifindex;
            let verdict = match is_linux {
                _ if at >= sent => Verdict::Dropped(reason),
                true => Verdict::ToLinux,
                false => Verdict::Sent { ifindex },
            };
            for tap in &mut self.all {
                if let Some(record) = tap.settle(*frame, verdict)
                    && record.ifindex == 0
                    && record.place == Place::Wire
                {
                    record.ifindex = ifindex;
                }
            }
        }
    }

    /// A packet has ended.
    #[cold]
    pub(crate) fn ended(&mut self, packet: &Packet, outcome: Outcome) {
        let frame = packet.frame.index();
        let verdict = match outcome {
            Outcome::Dropped(reason) => Verdict::Dropped(reason),
            Outcome::Consumed => Verdict::Consumed,
            Outcome::Held => Verdict::Held,
            Outcome::ToLinux => Verdict::ToLinux,
            Outcome::Transmitted => Verdict::Unknown,
        };
        for tap in &mut self.all {
            if tap.has(frame) {
                tap.settle(frame, verdict);
                continue;
            }
            // It waited, or was made here.
            if matches!(outcome, Outcome::Dropped(_))
                && let Ok(h) = wire::parse_ip(packet.data())
                && tap.is_match(&(&h).into())
            {
                let is_wire = [protocol::ESP, protocol::AH].contains(&h.protocol);
                tap.begin(Coming {
                    place: if is_wire { Place::Wire } else { Place::Plain },
                    is_outbound: false,
                    ifindex: 0,
                    sa: None,
                    policy: None,
                    is_match: true,
                    frame,
                    bytes: packet.data(),
                });
                tap.settle(frame, verdict);
            }
        }
    }

    /// Another worker takes a packet over, and records it; but for a frame that is ready.
    #[cold]
    pub(crate) fn handed(&mut self, handed: &Handed) {
        let frame = handed.packet().frame.index();
        for tap in &mut self.all {
            match handed {
                Handed::Frame(..) => drop(tap.settle(frame, Verdict::HandedOver)),
                _ => tap.forget(frame),
            }
        }
    }

    /// Another worker has handed a frame over that is ready, and recorded it.
    #[cold]
    pub(crate) fn taken_over(&mut self, packet: &Packet) {
        self.all.iter_mut().for_each(|tap| tap.pass(packet.frame.index()));
    }

    /// A packet is cut into fragments.
    #[cold]
    pub(crate) fn cut(&mut self, packet: &Packet) {
        for tap in &mut self.all {
            tap.settle(packet.frame.index(), Verdict::Cut);
        }
    }
}

/// Notes what was decided about a packet when it came; all of it for a trace.
fn note(record: &mut Record, explanation: Option<Explanation>, explains: bool) {
    record.path = explanation.as_ref().and_then(path_of).cloned();
    if explains {
        record.explanation = explanation.map(Box::new);
    }
}

/// Records a packet that is about to be decrypted by this SA.
fn to_open(tap: &mut Recorder, packet: &Packet, sa: Option<OfSa>, ifindex: u32) {
    let frame = packet.frame.index();
    if tap.has(frame) {
        if let Some(record) = tap.open(frame).filter(|record| record.sa.is_none()) {
            (record.place, record.sa) = (Place::Wire, sa);
        }
        return;
    }
    let is_match = is_match(tap, packet.data());
    tap.begin(Coming {
        place: Place::Wire,
        is_outbound: false,
        ifindex,
        sa,
        policy: None,
        is_match,
        frame,
        bytes: packet.data(),
    });
}

/// Records a packet that is about to be encrypted by this SA: whether it is asked for, and the policy that decided.
fn to_seal(tap: &mut Recorder, packet: &Packet, by: Option<OfSa>) -> (bool, Option<u32>) {
    let frame = packet.frame.index();
    let verdict = by.map_or(Verdict::Unknown, Verdict::Protected);
    if tap.has(frame) {
        // With the TTL that it has now.
        tap.show(frame, packet.data());
        return tap.settle(frame, verdict).map_or((false, None), |record| {
            record.is_outbound = record.sa.is_none();
            (record.is_match, record.policy)
        });
    }
    // It waited, or was made here.
    let is_match = is_match(tap, packet.data());
    if is_match {
        tap.begin(Coming {
            place: Place::Plain,
            is_outbound: true,
            ifindex: 0,
            sa: None,
            policy: None,
            is_match,
            frame,
            bytes: packet.data(),
        });
        tap.settle(frame, verdict);
    }
    (is_match, None)
}

/// An SA as records name it.
pub(crate) fn of_sa(view: &View, sa: SaHandle) -> Option<OfSa> {
    view.reader.sa(sa).map(OfSa::of)
}

/// True if an IP packet is of a flow in the filter.
fn is_match(tap: &Recorder, packet: &[u8]) -> bool {
    match wire::parse_ip(packet) {
        Ok(h) => tap.is_match(&(&h).into()),
        Err(_) => tap.config.filter.flow.is_empty(),
    }
}
