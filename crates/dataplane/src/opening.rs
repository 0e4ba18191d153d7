//! ESP packets whose SA is known: decrypted by the burst, then accepted one after the other.
//!
//! What is done here falls in two, as with packets that are sealed. The work on the packets
//! themselves, [`open_all`], touches nothing but the packets, so it may be done by any thread. The
//! replay window and the counters of an SA have one writer, the worker ([`Worker::accept_all`]).

use std::sync::Arc;

use arrayvec::ArrayVec;
use crypto::{Engine, Job, JobStatus, Op};
use esp::{Content, Opened, Sa};
use io::Packet;
use outcome::{DropReason, Outcome};
use policy::{SaEntry, SaHandle, Volume};
use wire::{Headers, ParseError};

use crate::crypto_pool::HeldSas;
use crate::flow_cache::{FlowHash, Ingress};
use crate::ingress::{Head, Heads};
use crate::volume::check_volume;
use crate::worker::{CRYPTO_BURST_LEN, Worker};

/// A packet that is to be opened.
pub(crate) struct Opening {
    pub(crate) packet: Packet,
    pub(crate) outer: Headers,
    pub(crate) sa: SaHandle,
    pub(crate) opening: esp::Opening,
    /// UDP ports of the encapsulation, source first.
    pub(crate) ports: Option<(u16, u16)>,
    pub(crate) ifindex: u32,
    content: Result<Content, DropReason>,
}

impl Opening {
    pub(crate) fn new(
        packet: Packet,
        outer: &Headers,
        sa: SaHandle,
        opening: esp::Opening,
        ports: Option<(u16, u16)>,
        ifindex: u32,
    ) -> Opening {
        let content = Err(DropReason::InCrypto);
        Opening { packet, outer: *outer, sa, opening, ports, ifindex, content }
    }
}

/// Packets that are opened in one run of the engine, and what was inside, once that is known.
#[derive(Default)]
pub(crate) struct Opens {
    pub(crate) items: ArrayVec<Opening, CRYPTO_BURST_LEN>,
    pub(crate) heads: Heads,
    /// Held while the burst is with another thread: each item's SA by its place.
    pub(crate) held: HeldSas,
}

impl Opens {
    /// Asks for all that another core has written last.
    pub(crate) fn prefetch(&self) {
        self.items.iter().for_each(mem::prefetch_all);
        self.heads.iter().for_each(mem::prefetch_all);
    }
}

impl Worker {
    /// Runs the gathered packets through the engine and moves on what came out.
    pub(crate) fn open_gathered(&mut self) {
        if self.opening.items.is_empty() {
            return;
        }
        let Some(mut gathered) = self.spare_opening.take() else { return };
        core::mem::swap(&mut gathered, &mut self.opening);
        let changes = gathered.items.windows(2).filter(|pair| match pair {
            [one, next] => one.sa != next.sa,
            _ => false,
        });
        self.note_spread(1 + changes.count(), gathered.items.len());
        if self.crypto.is_some() {
            self.spare_opening = Some(self.submit_opens(gathered));
            return;
        }
        let reader = &self.reader;
        let sa_of = |_, item: &Opening| reader.sa(item.sa).map(|entry| &entry.esp);
        let Opens { items, heads, .. } = &mut *gathered;
        open_all(items, heads, sa_of, &mut *self.engine, self.flows.hasher());
        self.accept_all(&mut gathered);
        self.spare_opening = Some(gathered);
    }

    /// Accepts what has been decrypted, in the order of arrival, moves it on in the passes of every
    /// burst, and empties the burst.
    pub(crate) fn accept_all(&mut self, opens: &mut Opens) {
        let Opens { items, heads, held } = opens;
        for (at, (item, head)) in items.iter_mut().zip(heads.iter_mut()).enumerate() {
            if let Ok(head) = head {
                self.flows.prefetch(head.hash);
            }
            if let Err(outcome) = self.accept(item, held.get(at)) {
                *head = Err(outcome);
            }
        }
        self.find_all(heads);
        if self.is_spread {
            self.look_at_plans(heads);
        }
        for (at, (item, head)) in items.drain(..).zip(heads.iter()).enumerate() {
            self.enter(item.packet, head, held.get(at).map(|sa| &**sa));
        }
        heads.clear();
        held.clear();
    }

    /// Whether a packet may go on that was decrypted: the SA's limits, the replay window, and
    /// where it came from. `held` is its SA, where the packet was with another thread: it may have
    /// been removed since.
    #[inline]
    fn accept(
        &mut self,
        item: &mut Opening,
        held: Option<&Arc<SaEntry<Sa>>>,
    ) -> Result<(), Outcome> {
        let sa = match held {
            Some(sa) => sa,
            None => self.reader.sa(item.sa).ok_or(DropReason::InStateExpired)?,
        };
        // Before this packet is counted, so that a limit of n packets lets n through.
        let volume = if item.content.is_ok() { check_volume(sa) } else { Volume::Within };
        let is_over = matches!(volume, Volume::HardReached | Volume::Unusable);
        let buffer = item.packet.frame.bytes_mut();
        let accepted = match is_over {
            true => Err(DropReason::InStateExpired),
            false => sa.esp.open_accept(buffer, &item.opening, item.content, self.now.wall_s),
        };
        let is_packet = accepted.is_ok() && !item.content.is_ok_and(|content| content.is_dummy());
        let moved = item.ports.filter(|(port, _)| {
            is_packet && !is_mapping_of(&sa.config.params, item.outer.src, *port)
        });
        if volume != Volume::Within || moved.is_some() {
            let id = sa.config.id();
            self.tell_volume(id, volume);
            if let Some((port, _)) = moved {
                self.tell_mapping(id, item.outer.src, port);
            }
        }
        accepted?;
        if !is_packet {
            return Err(Outcome::Consumed);
        }
        self.counters.work.decrypted.add(1);
        Ok(())
    }
}

/// Decrypts, and finds out what was inside: each packet's span is then the inner packet, and each
/// has a head.
///
/// `sa_of` says which SA an item, told by its place and itself, is of; without one it is not
/// opened.
pub(crate) fn open_all<'s>(
    items: &mut [Opening],
    heads: &mut Heads,
    sa_of: impl Fn(usize, &Opening) -> Option<&'s Sa>,
    engine: &mut dyn Engine,
    hasher: &FlowHash,
) {
    let mut statuses: ArrayVec<JobStatus, CRYPTO_BURST_LEN> = ArrayVec::new();
    {
        let mut jobs: ArrayVec<Job<'_>, CRYPTO_BURST_LEN> = ArrayVec::new();
        for (at, item) in items.iter_mut().enumerate() {
            let Some(sa) = sa_of(at, item) else { continue };
            let esp = item.opening.esp.range();
            let bytes = item.packet.frame.bytes_mut().get_mut(esp).unwrap_or(&mut []);
            jobs.push(Job::esp(sa.session(), Op::Open, bytes, item.opening.seq_hi));
        }
        engine.run(&mut jobs);
        statuses.extend(jobs.iter().map(|job| job.status));
    }
    let mut statuses = statuses.into_iter();
    heads.clear();
    for (at, item) in items.iter_mut().enumerate() {
        let head = match sa_of(at, item) {
            Some(sa) => item.look_inside(sa, statuses.next(), hasher),
            None => Err(DropReason::InStateExpired.into()),
        };
        // As many as there are items.
        let _ = heads.try_push(head);
    }
}

impl Opening {
    #[inline]
    fn look_inside(
        &mut self,
        sa: &Sa,
        status: Option<JobStatus>,
        hasher: &FlowHash,
    ) -> Result<Head, Outcome> {
        let status = status.unwrap_or(JobStatus::Failed);
        let outer_span = self.packet.span;
        let buffer = self.packet.frame.bytes_mut();
        let found = sa.open_content(buffer, outer_span, &self.outer, &self.opening, status);
        let (opened, content) = match found {
            Ok(found) => found,
            Err(reason) => {
                self.content = Err(reason);
                return Err(reason.into());
            }
        };
        self.content = Ok(content);
        let Opened::Packet { span, headers } = opened else { return Err(Outcome::Consumed) };
        self.packet.span = span;
        let h = match headers {
            Ok(h) => h,
            // The IP header itself has been checked; what can be wrong is behind it.
            Err(ParseError::UpperTruncated(_)) => return Err(DropReason::MalformedUpper.into()),
            Err(_) => return Err(DropReason::InInnerHeader.into()),
        };
        let ingress = Ingress { ifindex: self.ifindex, via: Some(self.sa) };
        Ok(Head::new(h, ingress, true, hasher))
    }
}

/// Whether a UDP-encapsulated packet came from where the SA has its peer.
fn is_mapping_of(params: &esp::SaParams, src: core::net::IpAddr, src_port: u16) -> bool {
    params.src == src && params.encap.is_some_and(|e| e.src_port == src_port)
}
