//! Packets that leave: policy before route, then the SA's work or the forwarder's.

use std::sync::Arc;

use arrayvec::ArrayVec;
use crypto::{Job, JobStatus, Op};
use esp::Sa;
use forward::{Held, IcmpCause, RouteResult};
use io::Packet;
use outcome::{DropReason, Outcome};
use policy::{Ends, Flow, Outbound, SaEntry};
use wire::Headers;

use crate::egress::NextHop;
use crate::event::Event;
use crate::worker::{CRYPTO_BURST_LEN, Origin, Worker};

/// A packet that is being sealed.
pub(crate) struct Sealing {
    packet: Packet,
    sa: Arc<SaEntry<Sa>>,
    sealing: esp::Sealing,
    to: NextHop,
}

/// What the policy database said, without its references.
enum Verdict {
    Clear,
    Drop(DropReason),
    Wait { policy: u32 },
    Protect(Arc<SaEntry<Sa>>),
}

impl Worker {
    /// A packet that leaves, or is forwarded.
    pub(crate) fn outbound(&mut self, packet: Packet, h: &Headers, origin: Origin) {
        match self.judge(h, origin) {
            Verdict::Drop(reason) => self.drop_packet(packet, reason),
            Verdict::Clear => self.forward_clear(packet, h, origin),
            Verdict::Protect(sa) => self.protect(packet, h, origin, &sa),
            Verdict::Wait { policy } => self.wait_for_sa(packet, h, origin, policy),
        }
    }

    /// Asks the policy database, before any route is used.
    fn judge(&mut self, h: &Headers, origin: Origin) -> Verdict {
        let ends = match origin {
            Origin::Linux | Origin::Worker { .. } => Ends::Local,
            Origin::Port { .. } | Origin::Decrypted { .. } => Ends::Forwarded,
        };
        // Only what this host itself sends from the port of its own IKE daemon; Linux forwards
        // other people's packets through the private interface as well.
        if origin == Origin::Linux
            && self.topology.is_local_addr(h.src)
            && policy::always_bypass(h, ends, self.topology.is_natt_port(h.src_port))
        {
            return Verdict::Clear;
        }
        let (verdict, policy) = match self.reader.outbound(&Flow::new(h, 0)) {
            Outbound::NoPolicy => return Verdict::Clear,
            Outbound::DefaultBlock => return Verdict::Drop(DropReason::OutPolicyBlock),
            Outbound::Bypass(policy) => (Verdict::Clear, policy),
            Outbound::Block(policy) => (Verdict::Drop(DropReason::OutPolicyBlock), policy),
            Outbound::Unsupported(policy) => (Verdict::Drop(DropReason::OutUnsupported), policy),
            Outbound::NoState(policy, _) => (Verdict::Wait { policy: policy.config.index }, policy),
            Outbound::Protect(policy, sa) => (Verdict::Protect(Arc::clone(sa)), policy),
        };
        policy.count(1, u64::from(h.total_len), self.now.wall_s);
        verdict
    }

    /// There is no SA yet: the owner of the policy is asked for one, and the packet waits.
    ///
    /// Asked once while packets wait for the policy; when they have waited in vain, the next one
    /// asks again.
    fn wait_for_sa(&mut self, packet: Packet, h: &Headers, origin: Origin, policy: u32) {
        match self.held_for_sa.push(policy, (packet, origin), self.now.ns) {
            Ok(place) => {
                self.counters.count(Outcome::Held, 1);
                if place == Held::First {
                    self.counters.work.acquires.add(1);
                    self.events.send(Event::Acquire { policy, flow: *h });
                }
            }
            Err(refused) => {
                let (packet, _) = refused.into_packet();
                self.drop_packet(packet, DropReason::OutNoState);
            }
        }
    }

    /// A packet that no policy protects.
    fn forward_clear(&mut self, packet: Packet, h: &Headers, origin: Origin) {
        match origin {
            // Culvert has taken it only to ask the policy database: it is Linux's.
            Origin::Port { .. } => self.give_to_linux(packet),
            // Whoever sent this under protection gets no answer in clear.
            Origin::Worker { protected: true } => {
                self.drop_packet(packet, DropReason::OutPolicyBlock);
            }
            Origin::Linux | Origin::Decrypted { .. } | Origin::Worker { .. } => {
                self.route_clear(packet, h, origin);
            }
        }
    }

    /// Forwards in clear by the tables, without culvert's own: decrypted packets, and what Linux
    /// sent here because its destination is a protected prefix while policy says otherwise.
    fn route_clear(&mut self, mut packet: Packet, h: &Headers, origin: Origin) {
        let to = match self.next_hop(h.dst, h.src) {
            Ok(to) => to,
            // The way leads over an interface that is Linux's alone, or back to this host. What
            // came from Linux does not find the way back to us: the rule exempts the private
            // interface.
            Err(DropReason::EgressNotPort) => return self.give_to_linux(packet),
            Err(reason) => {
                let route = self.topology.fib.lookup(h.dst, h.src, 0, 0);
                return match route.icmp_cause(h.family()) {
                    Some(cause) => self.icmp_error(packet, h, origin, cause, reason),
                    None => self.drop_packet(packet, reason),
                };
            }
        };
        if matches!(origin, Origin::Decrypted { .. }) && !wire::decrement_ttl(packet.data_mut(), h)
        {
            return self.icmp_error(
                packet,
                h,
                origin,
                IcmpCause::TimeExceeded,
                DropReason::TtlExceeded,
            );
        }
        self.counters.work.forwarded_clear.add(1);
        if packet.span.len <= to.mtu {
            return self.emit(packet, to.ifindex, to.addr);
        }
        if h.dont_fragment {
            let cause = IcmpCause::TooBig { mtu: to.mtu as u32 };
            return self.icmp_error(packet, h, origin, cause, DropReason::OutTooBig);
        }
        self.fragment(packet, h, to.mtu, |worker, piece, _| {
            worker.emit(piece, to.ifindex, to.addr);
        });
    }

    /// A packet that this SA protects.
    ///
    /// 1. The SA's limits; 2. TTL, if it is forwarded; 3. where the outer packet goes; 4. whether
    ///    it fits: fragmented before encryption, or an ICMP error to the sender; 5. headers, number
    ///    and padding. [`Worker::seal_gathered`] does the rest.
    fn protect(&mut self, mut packet: Packet, h: &Headers, origin: Origin, sa: &Arc<SaEntry<Sa>>) {
        if !self.count_volume(sa) {
            return self.drop_packet(packet, DropReason::OutStateExpired);
        }
        let is_forwarded = matches!(origin, Origin::Port { .. } | Origin::Decrypted { .. });
        if is_forwarded && !wire::decrement_ttl(packet.data_mut(), h) {
            return self.icmp_error(
                packet,
                h,
                origin,
                IcmpCause::TimeExceeded,
                DropReason::TtlExceeded,
            );
        }
        let params = &sa.config.params;
        let to = match self.next_hop(params.dst, params.src) {
            Ok(to) => to,
            Err(reason) => return self.drop_packet(packet, reason),
        };
        let fits = sa.esp.max_inner_len(to.mtu);
        if packet.span.len <= fits {
            return self.gather(packet, h, sa, to);
        }
        if h.dont_fragment {
            let cause = IcmpCause::TooBig { mtu: fits as u32 };
            return self.icmp_error(packet, h, origin, cause, DropReason::OutTooBig);
        }
        self.counters.work.fragmented.add(1);
        let sa = Arc::clone(sa);
        self.fragment(packet, h, fits, move |worker, piece, h| worker.gather(piece, h, &sa, to));
    }

    /// Writes everything but the ciphertext, and adds the packet to the burst.
    fn gather(&mut self, mut packet: Packet, h: &Headers, sa: &Arc<SaEntry<Sa>>, to: NextHop) {
        let span = packet.span;
        let buffer = packet.frame.bytes_mut();
        match sa.esp.seal_prepare(buffer, span, h, &mut self.ivs, to.mtu, self.now.wall_s) {
            Err(reason) => self.drop_packet(packet, reason),
            Ok(sealing) => {
                if self.sealing.is_full() {
                    self.seal_gathered();
                }
                self.sealing.push(Sealing { packet, sa: Arc::clone(sa), sealing, to });
            }
        }
    }

    /// Runs the gathered packets through the engine and sends them.
    pub(crate) fn seal_gathered(&mut self) {
        if self.sealing.is_empty() {
            return;
        }
        let mut statuses: ArrayVec<JobStatus, CRYPTO_BURST_LEN> = ArrayVec::new();
        {
            let mut jobs: ArrayVec<Job<'_>, CRYPTO_BURST_LEN> = ArrayVec::new();
            for item in &mut self.sealing {
                let esp = item.sealing.esp.range();
                let bytes = item.packet.frame.bytes_mut().get_mut(esp).unwrap_or(&mut []);
                jobs.push(Job::esp(item.sa.esp.session(), Op::Seal, bytes, item.sealing.seq_hi));
            }
            self.engine.run(&mut jobs);
            statuses.extend(jobs.iter().map(|job| job.status));
        }
        let gathered = core::mem::take(&mut self.sealing);
        for (item, status) in gathered.into_iter().zip(statuses) {
            let Sealing { mut packet, sa, sealing, to } = item;
            match sa.esp.seal_finish(packet.frame.bytes_mut(), &sealing, status) {
                Ok(span) => {
                    self.counters.work.encrypted.add(1);
                    packet.span = span;
                    self.emit(packet, to.ifindex, to.addr);
                }
                Err(reason) => self.drop_packet(packet, reason),
            }
        }
    }

    /// Where a packet to an address goes, out of a port.
    pub(crate) fn next_hop(
        &self,
        dst: core::net::IpAddr,
        src: core::net::IpAddr,
    ) -> Result<NextHop, DropReason> {
        let route = self.topology.fib.lookup(dst, src, 0, 0);
        match route {
            RouteResult::Unicast { ifindex, gateway, mtu, .. } => {
                let interface = self
                    .topology
                    .interfaces
                    .get(&ifindex)
                    .filter(|interface| interface.port.is_some())
                    .ok_or(DropReason::EgressNotPort)?;
                let mtu = mtu.unwrap_or(interface.mtu).min(interface.mtu) as usize;
                Ok(NextHop { ifindex, addr: gateway.unwrap_or(dst), mtu })
            }
            _ => Err(route.drop_reason().unwrap_or(DropReason::EgressNotPort)),
        }
    }
}
