//! ESP that arrives: SAD, replay check, decryption, and whether policy allows what came out.

use core::net::IpAddr;
use std::sync::Arc;

use arrayvec::ArrayVec;
use crypto::{Job, JobStatus, Op};
use esp::{Opened, Sa};
use io::Packet;
use outcome::DropReason;
use policy::{Direction, Flow, SaEntry, Volume};
use wire::{Fragment, Headers, ParseError, Span};

use crate::event::Event;
use crate::worker::{CRYPTO_BURST_LEN, Origin, Worker};

/// A packet that is being opened.
pub(crate) struct Opening {
    packet: Packet,
    outer: Headers,
    sa: Arc<SaEntry<Sa>>,
    opening: esp::Opening,
    /// UDP ports of the encapsulation, source first.
    ports: Option<(u16, u16)>,
    ifindex: u32,
}

impl Worker {
    /// An ESP packet for this host, with the UDP ports that it was encapsulated in, if any.
    ///
    /// 1. Fragments cannot be opened.
    /// 2. (destination, SPI) finds the SA, which must be usable. Whether UDP encapsulation is as
    ///    the SA has it is seen when the packet has been opened.
    /// 3. Lengths and the replay window are checked.
    /// 4. The packet joins the burst; [`Worker::open_gathered`] does the rest.
    pub(crate) fn esp(
        &mut self,
        packet: Packet,
        outer: &Headers,
        ifindex: u32,
        ports: Option<(u16, u16)>,
    ) {
        if outer.fragment != Fragment::Whole {
            return self.drop_packet(packet, DropReason::EspFragment);
        }
        let offset =
            usize::from(outer.header_len) + if ports.is_some() { wire::udp::HEADER_LEN } else { 0 };
        let Some(len) = packet.span.len.checked_sub(offset) else {
            return self.drop_packet(packet, DropReason::MalformedEsp);
        };
        let esp = Span { start: packet.span.start + offset, len };
        let Some(spi) = packet.data().get(offset..offset + 4).and_then(|b| b.try_into().ok())
        else {
            return self.drop_packet(packet, DropReason::MalformedEsp);
        };
        let spi = u32::from_be_bytes(spi);
        let Some(sa) = self.reader.inbound_sa(outer.dst, spi, wire::protocol::ESP, 0) else {
            return self.drop_packet(packet, DropReason::InNoState);
        };
        if !sa.state().is_usable() {
            return self.drop_packet(packet, DropReason::InStateExpired);
        }
        let sa = Arc::clone(sa);
        match sa.esp.open_prepare(packet.frame.bytes(), esp) {
            Err(reason) => self.drop_packet(packet, reason),
            Ok(opening) => {
                if self.opening.len() >= CRYPTO_BURST_LEN {
                    self.open_gathered();
                }
                self.opening.push(Opening { packet, outer: *outer, sa, opening, ports, ifindex });
            }
        }
    }

    /// Runs the gathered packets through the engine and moves on what came out.
    pub(crate) fn open_gathered(&mut self) {
        if self.opening.is_empty() {
            return;
        }
        let spare = core::mem::take(&mut self.spare_opening);
        let mut gathered = core::mem::replace(&mut self.opening, spare);
        let mut statuses: ArrayVec<JobStatus, CRYPTO_BURST_LEN> = ArrayVec::new();
        {
            let mut jobs: ArrayVec<Job<'_>, CRYPTO_BURST_LEN> = ArrayVec::new();
            for item in gathered.iter_mut().take(CRYPTO_BURST_LEN) {
                let esp = item.opening.esp.range();
                let bytes = item.packet.frame.bytes_mut().get_mut(esp).unwrap_or(&mut []);
                jobs.push(Job::esp(item.sa.esp.session(), Op::Open, bytes, item.opening.seq_hi));
            }
            self.engine.run(&mut jobs);
            statuses.extend(jobs.iter().map(|job| job.status));
        }
        for (item, status) in gathered.drain(..).zip(statuses) {
            self.opened(item, status);
        }
        self.spare_opening = gathered;
    }

    /// A packet comes back from the engine.
    fn opened(&mut self, item: Opening, status: JobStatus) {
        let Opening { mut packet, outer, sa, opening, ports, ifindex } = item;
        // Before this packet is counted, so that a limit of n packets lets n through.
        if status == JobStatus::Done && !self.count_volume(&sa) {
            return self.drop_packet(packet, DropReason::InStateExpired);
        }
        let outer_span = packet.span;
        let buffer = packet.frame.bytes_mut();
        let opened =
            sa.esp.open_finish(buffer, outer_span, &outer, &opening, status, self.now.wall_s);
        let inner = match opened {
            Ok(Opened::Packet(span)) => span,
            Ok(Opened::Dummy) => return self.consume(packet),
            Err(reason) => return self.drop_packet(packet, reason),
        };
        self.counters.work.decrypted.add(1);
        if let Some((src_port, _)) = ports {
            self.note_mapping(&sa, outer.src, src_port);
        }
        packet.span = inner;
        let h = match wire::parse_ip(packet.data()) {
            Ok(h) => h,
            // The IP header itself has been checked; what can be wrong is behind it.
            Err(ParseError::UpperTruncated(_)) => {
                return self.drop_packet(packet, DropReason::MalformedUpper);
            }
            Err(_) => return self.drop_packet(packet, DropReason::InInnerHeader),
        };
        packet.span.len = usize::from(h.total_len);
        let is_local = self.is_local(&h, ifindex);
        if !self.is_possible_source(&h, is_local) {
            return self.drop_packet(packet, DropReason::MartianSource);
        }
        let direction = if is_local { Direction::In } else { Direction::Forward };
        match self.reader.verify(direction, &Flow::new(&h, ifindex), Some(&sa)) {
            Ok(Some(policy)) => policy.count(1, u64::from(h.total_len), self.now.wall_s),
            Ok(None) => {}
            Err(reason) => return self.drop_packet(packet, reason),
        }
        if is_local {
            self.give_to_linux(packet);
        } else {
            self.outbound(packet, &h, Origin::Decrypted { ifindex });
        }
    }

    /// The peer's address or port behind a NAT may change under way (RFC 3948 §3.3); whoever owns
    /// the SA decides what follows.
    fn note_mapping(&mut self, sa: &Arc<SaEntry<Sa>>, src: IpAddr, src_port: u16) {
        let params = &sa.config.params;
        let is_same = params.src == src && params.encap.is_some_and(|e| e.src_port == src_port);
        // Every packet tells until the owner has acted: a few are enough.
        if !is_same && self.mappings.allow(self.now.ns) {
            self.events.send(Event::MappingChanged { sa: sa.config.id(), src, src_port });
        }
    }

    /// Holds the SA's counters against its limits; false if it may not be used any more.
    pub(crate) fn count_volume(&mut self, sa: &SaEntry<Sa>) -> bool {
        use core::sync::atomic::Ordering::Relaxed;
        let cells = sa.esp.cells();
        match sa.check_volume(cells.bytes().load(Relaxed), cells.packets().load(Relaxed)) {
            Volume::Within => true,
            Volume::SoftReached => {
                self.tell(Event::VolumeReached { sa: sa.config.id(), hard: false });
                true
            }
            Volume::HardReached => {
                self.tell(Event::VolumeReached { sa: sa.config.id(), hard: true });
                false
            }
            Volume::Unusable => false,
        }
    }
}
