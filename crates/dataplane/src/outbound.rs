//! Packets that leave: policy before route, then the SA's work or the forwarder's.

use core::net::IpAddr;

use arrayvec::ArrayVec;
use esp::{Mode, Sa};
use forward::{IcmpCause, RouteResult};
use io::Packet;
use outcome::{DropReason, Outcome};
use policy::{Direction, Ends, Flow, Outbound, SaEntry, SaHandle};
use wire::natt::{self, NattPayload};
use wire::{Family, Fragment, Headers, protocol};

use crate::egress::NextHop;
use crate::event::Event;
use crate::fit::Fit;
use crate::plan::{self, Action, Lesson, Seal};
use crate::sealing::Exit;
use crate::volume::check_volume;
use crate::worker::{LOOPBACK, Origin, Worker};

/// Packets that wait for one SA: what an acquire is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct SaWait {
    /// The policy's index.
    policy: u32,
    /// Transport mode: each pair of hosts has its own SA.
    ends: Option<(IpAddr, IpAddr)>,
}

/// A packet that waits for an SA.
pub(crate) struct Waiting {
    packet: Packet,
    origin: Origin,
    /// When this one's time is up, the owner of the policy is asked again.
    asks: bool,
}

impl Waiting {
    pub(crate) fn into_packet(self) -> Packet {
        self.packet
    }
}

/// What the policy database said, without its references.
enum Verdict {
    Clear,
    Drop(DropReason),
    Wait(SaWait),
    Protect(SaHandle),
}

/// Where the tables lead a packet.
pub(crate) enum Way {
    /// Out of a port.
    Port(NextHop),
    /// Over an interface, or by a rule, that is Linux's alone.
    Linux,
    /// To this host.
    Local,
    /// Nowhere, and whether the sender is told.
    Nowhere(DropReason, Option<IcmpCause>),
}

impl Worker {
    /// A packet that leaves, or is forwarded.
    pub(crate) fn outbound(
        &mut self,
        packet: Packet,
        h: &Headers,
        origin: Origin,
        lesson: &mut Lesson,
    ) {
        match self.judge(&packet, h, origin, lesson) {
            Verdict::Drop(reason) => self.drop_packet(packet, reason),
            Verdict::Clear => self.forward_clear(packet, h, origin, lesson),
            Verdict::Protect(sa) => self.protect(packet, h, origin, sa, lesson),
            Verdict::Wait(key) => self.wait_for_sa(packet, h, origin, key),
        }
    }

    /// Asks the policy database, before any route is used.
    ///
    /// Where a policy wants protection and there is no SA, the packet waits; also under a template
    /// with `level use`, with which Linux would let it pass in clear.
    fn judge(
        &mut self,
        packet: &Packet,
        h: &Headers,
        origin: Origin,
        lesson: &mut Lesson,
    ) -> Verdict {
        if self.is_own_ike(packet, h, origin) {
            return Verdict::Clear;
        }
        let flow = Flow::new(h, self.leads_to(h, origin.iif()));
        let (verdict, policy) = match self.reader.outbound(&flow) {
            Outbound::NoPolicy => (Verdict::Clear, None),
            Outbound::DefaultBlock => return Verdict::Drop(DropReason::OutPolicyBlock),
            Outbound::Bypass(policy) => (Verdict::Clear, Some(policy)),
            Outbound::Block(policy) => (Verdict::Drop(DropReason::OutPolicyBlock), Some(policy)),
            Outbound::Unsupported(policy) => {
                (Verdict::Drop(DropReason::OutUnsupported), Some(policy))
            }
            // Counted when it goes on: it will be judged again.
            Outbound::NoState(policy, template) => {
                let ends = (template.mode == Mode::Transport).then_some((h.src, h.dst));
                return Verdict::Wait(SaWait { policy: policy.config.index, ends });
            }
            Outbound::Protect(policy, sa) => (Verdict::Protect(sa), Some(policy)),
        };
        self.count_policy(policy, h);
        let policy = policy.map(|policy| &**policy);
        lesson.allowed_by(policy, self.reader.stamp(Direction::Out, &flow, policy));
        verdict
    }

    /// Whether a packet is key exchange (or neighbour discovery) of this very host, which no
    /// policy applies to. Linux forwards other people's packets through the private interface as
    /// well: those do not have an address of ours.
    fn is_own_ike(&self, packet: &Packet, h: &Headers, origin: Origin) -> bool {
        origin == Origin::Linux
            && self.topology.is_local_addr(h.src)
            && policy::always_bypass(h, Ends::Local, self.is_natt_ike(packet, h))
    }

    /// UDP on the NAT traversal port that is not ESP: IKE behind its marker, or a keepalive.
    fn is_natt_ike(&self, packet: &Packet, h: &Headers) -> bool {
        let is_natt_port =
            self.topology.is_natt_port(h.src_port) || self.topology.is_natt_port(h.dst_port);
        if h.protocol != protocol::UDP || h.fragment == Fragment::Later || !is_natt_port {
            return false;
        }
        let payload = packet.data().get(usize::from(h.header_len) + wire::udp::HEADER_LEN..);
        let kind = payload.map(natt::classify);
        matches!(kind, Some(NattPayload::NonEspMarker | NattPayload::Keepalive))
    }

    /// There is no SA yet: the owner of the policy is asked for one, and the packet waits.
    ///
    /// Asked when the first packet comes, and again each time that a packet has waited in vain
    /// since the last time: also while more of them come all the time.
    fn wait_for_sa(&mut self, packet: Packet, h: &Headers, origin: Origin, key: SaWait) {
        let asks = self.held_for_sa.len_of(&key) == 0;
        match self.held_for_sa.push(key, Waiting { packet, origin, asks }, self.now.ns) {
            Ok(_) => {
                self.counters.count(Outcome::Held, 1);
                if asks {
                    self.acquire(&key, h);
                }
            }
            Err(refused) => {
                let packet = refused.into_packet().into_packet();
                self.drop_packet(packet, DropReason::OutNoState);
            }
        }
    }

    fn acquire(&mut self, key: &SaWait, h: &Headers) {
        self.counters.work.acquires.add(1);
        self.events.send(Event::Acquire { policy: key.policy, flow: *h });
    }

    /// Drops what has waited for an SA in vain.
    pub(crate) fn expire_held_for_sa(&mut self) {
        while let Some((key, waiting)) = self.held_for_sa.pop_expired(self.now.ns) {
            self.counters.released(1);
            self.drop_packet(waiting.packet, DropReason::HoldTimeout);
            if waiting.asks {
                self.acquire_again(&key);
            }
        }
    }

    /// The one that had asked is gone, and others wait: asks for the first, and again when the
    /// last has waited as long.
    fn acquire_again(&mut self, key: &SaWait) {
        let front = self.held_for_sa.front(key);
        let Some(Ok(h)) = front.map(|waiting| wire::parse_ip(waiting.packet.data())) else {
            return;
        };
        if let Some(last) = self.held_for_sa.back_mut(key) {
            last.asks = true;
            self.acquire(key, &h);
        }
    }

    /// Sends on what waited for SAs that are there now, each SA's in the order of arrival.
    ///
    /// A packet that still has none stays where it is, and those behind it wait with it: what is
    /// taken out does not come back in this round, so this ends.
    pub(crate) fn retry_held_for_sa(&mut self) {
        loop {
            let is_ready = |key: &&SaWait| self.front_has_sa(key);
            let mut ready: ArrayVec<SaWait, KEYS_AT_ONCE> =
                self.held_for_sa.keys().filter(is_ready).take(KEYS_AT_ONCE).copied().collect();
            if ready.is_empty() {
                return;
            }
            // So that the order is the same whenever the same happens.
            ready.sort_unstable();
            for key in &ready {
                let mut asked = false;
                while self.front_has_sa(key) {
                    let Some(waiting) = self.held_for_sa.pop(key) else { break };
                    let Waiting { packet, origin, asks } = waiting;
                    asked |= asks;
                    self.counters.released(1);
                    match wire::parse_ip(packet.data()) {
                        Ok(h) => self.outbound(packet, &h, origin, &mut Lesson::default()),
                        Err(error) => self.drop_packet(packet, error.into()),
                    }
                }
                // What that SA does not carry needs another one.
                if asked {
                    self.acquire_again(key);
                }
            }
        }
    }

    /// Whether the first packet that waits there need not wait any longer.
    fn front_has_sa(&self, key: &SaWait) -> bool {
        self.held_for_sa.front(key).is_some_and(|waiting| {
            // One that does not parse any more may go too: to be dropped.
            wire::parse_ip(waiting.packet.data()).map_or(true, |h| {
                let flow = Flow::new(&h, self.leads_to(&h, waiting.origin.iif()));
                !matches!(self.reader.outbound(&flow), Outbound::NoState(..))
            })
        })
    }

    /// A packet that no policy protects.
    fn forward_clear(&mut self, packet: Packet, h: &Headers, origin: Origin, lesson: &mut Lesson) {
        match origin {
            // Culvert has taken it only to ask the policy database: it is Linux's.
            Origin::Port { ifindex, is_barred } => {
                self.leave_to_linux(packet, ifindex, is_barred, lesson);
            }
            // Whoever sent this under protection gets no answer in clear.
            Origin::Worker { protected: true } => {
                self.drop_packet(packet, DropReason::OutPolicyBlock);
            }
            Origin::Linux | Origin::Decrypted { .. } | Origin::Worker { .. } => {
                self.route_clear(packet, h, origin, lesson);
            }
        }
    }

    /// Forwards in clear by the tables, without culvert's own: decrypted packets, and what Linux
    /// sent here because its destination is a protected prefix while policy says otherwise.
    fn route_clear(
        &mut self,
        mut packet: Packet,
        h: &Headers,
        origin: Origin,
        lesson: &mut Lesson,
    ) {
        let to = match (self.way(h.dst, h.src, origin.iif()), origin) {
            (Way::Port(to), _) => to,
            // Multicast and link-local packets that Linux sends on the private interface itself
            // (MLD, router solicitations): nobody else is on that link.
            (Way::Local, Origin::Linux) if !self.topology.is_local_addr(h.dst) => {
                return self.consume(packet);
            }
            (Way::Local, Origin::Linux) => {
                return self.drop_packet(packet, DropReason::ForwardLoop);
            }
            // What came from Linux does not find the way back to us: the rule that leads here
            // exempts the private interface.
            (Way::Local | Way::Linux, _) => {
                lesson.conclude(Action::ToLinux);
                return self.give_to_linux(packet);
            }
            (Way::Nowhere(reason, Some(cause)), _) => {
                return self.icmp_error(packet, h, origin, cause, reason);
            }
            (Way::Nowhere(reason, None), _) => return self.drop_packet(packet, reason),
        };
        // As a router does: TTL, then length, and the ICMP error quotes the packet as it came.
        let is_forwarded = matches!(origin, Origin::Decrypted { .. });
        if is_forwarded && h.ttl <= 1 {
            return self.time_exceeded(packet, h, origin);
        }
        let fits = packet.span.len <= to.mtu;
        if !fits && h.dont_fragment {
            let cause = IcmpCause::TooBig { mtu: to.mtu as u32 };
            return self.icmp_error(packet, h, origin, cause, DropReason::OutTooBig);
        }
        if is_forwarded && !wire::decrement_ttl(packet.data_mut(), h) {
            return self.drop_packet(packet, DropReason::MalformedIp);
        }
        self.counters.work.forwarded_clear.add(1);
        if fits {
            if let Some(adjacency) = self.adjacency(to, h.family()) {
                let mtu = plan::ip_len(to.mtu);
                let action = Action::Forward { adjacency, mtu, is_hop: is_forwarded };
                lesson.conclude(action);
            }
            return self.emit(packet, to.ifindex, to.addr);
        }
        self.fragment(packet, h, to.mtu, |worker, piece, _| {
            worker.emit(piece, to.ifindex, to.addr);
        });
    }

    /// A packet that this SA protects.
    ///
    /// 1. The SA's limits; 2. TTL, if it is forwarded; 3. where the outer packet goes; 4. whether
    ///    it fits; 5. headers, number and padding. [`Worker::seal_gathered`] does the rest.
    fn protect(
        &mut self,
        mut packet: Packet,
        h: &Headers,
        origin: Origin,
        handle: SaHandle,
        lesson: &mut Lesson,
    ) {
        let found = self.reader.sa(handle).map(|sa| (sa.config.id(), check_volume(sa)));
        if !found.is_some_and(|(id, volume)| self.tell_volume(id, volume)) {
            return self.drop_packet(packet, DropReason::OutStateExpired);
        }
        let is_hop = matches!(origin, Origin::Port { .. } | Origin::Decrypted { .. });
        if is_hop && h.ttl <= 1 {
            return self.time_exceeded(packet, h, origin);
        }
        let Some(sa) = self.reader.sa(handle) else {
            return self.drop_packet(packet, DropReason::OutStateExpired);
        };
        let params = &sa.config.params;
        let (dst, src) = match params.mode {
            Mode::Tunnel => (params.dst, params.src),
            Mode::Transport => (h.dst, h.src),
        };
        let to = match self.way(dst, src, LOOPBACK) {
            Way::Port(to) => to,
            Way::Linux | Way::Local => {
                return self.drop_packet(packet, DropReason::EgressNotPort);
            }
            Way::Nowhere(reason, _) => return self.drop_packet(packet, reason),
        };
        let fit = match Fit::decide(&sa.esp, packet.data(), h, to.mtu) {
            Ok(Fit::TooBig { mtu }) => {
                let cause = IcmpCause::TooBig { mtu: mtu as u32 };
                return self.icmp_error(packet, h, origin, cause, DropReason::OutTooBig);
            }
            Ok(fit) => fit,
            Err(reason) => return self.drop_packet(packet, reason),
        };
        if fit == Fit::Whole
            && let Some(action) = self.seal_action(handle, sa, h, to, is_hop)
        {
            lesson.conclude(action);
        }
        if is_hop && !wire::decrement_ttl(packet.data_mut(), h) {
            return self.drop_packet(packet, DropReason::MalformedIp);
        }
        match fit {
            Fit::CutBefore { mtu } => {
                self.fragment(packet, h, mtu, |worker, piece, h| {
                    worker.gather(piece, h, handle, to.mtu, Exit::To(&to));
                });
            }
            _ => self.gather(packet, h, handle, to.mtu, Exit::To(&to)),
        }
    }

    /// What is to be done to the packets of this flow that are as short as this one.
    fn seal_action(
        &self,
        handle: SaHandle,
        sa: &SaEntry<Sa>,
        h: &Headers,
        to: NextHop,
        is_hop: bool,
    ) -> Option<Action> {
        let params = &sa.config.params;
        let (longest, family) = match params.mode {
            Mode::Tunnel => (sa.esp.max_inner_len(to.mtu), family_of(params.dst)),
            Mode::Transport => (0, h.family()),
        };
        Some(Action::Seal(Seal {
            sa: handle,
            state: sa.state(),
            adjacency: self.adjacency(to, family)?,
            mtu: plan::ip_len(to.mtu),
            longest: plan::ip_len(longest),
            is_hop,
        }))
    }

    fn time_exceeded(&mut self, packet: Packet, h: &Headers, origin: Origin) {
        self.icmp_error(packet, h, origin, IcmpCause::TimeExceeded, DropReason::TtlExceeded);
    }

    /// The interface that the tables lead a packet to, for policies that name one; 0 where that
    /// is not known, or nobody asks.
    ///
    /// By the packet's own headers, before any protection, and without culvert's own table: the
    /// interface that Linux's look-up would have found. A plan that follows from it is void with
    /// the tables that it was found in.
    pub(crate) fn leads_to(&self, h: &Headers, iif: u32) -> u32 {
        if !self.reader.names_interfaces() {
            return 0;
        }
        match self.topology.fib.lookup(h.dst, h.src, 0, iif) {
            RouteResult::Unicast { ifindex, .. } => ifindex,
            RouteResult::Local => LOOPBACK,
            _ => 0,
        }
    }

    /// Where the tables lead a packet that came in by interface `iif`.
    pub(crate) fn way(&self, dst: IpAddr, src: IpAddr, iif: u32) -> Way {
        let route = self.topology.fib.lookup(dst, src, 0, iif);
        match route {
            RouteResult::Unicast { ifindex, gateway, mtu, .. } => {
                let Some(interface) = self.topology.interfaces.get(&ifindex) else {
                    return Way::Linux;
                };
                if interface.port.is_none() {
                    return Way::Linux;
                }
                let mtu = mtu.unwrap_or(interface.mtu).min(interface.mtu) as usize;
                Way::Port(NextHop { ifindex, addr: gateway.unwrap_or(dst), mtu })
            }
            RouteResult::Local => Way::Local,
            RouteResult::Linux => Way::Linux,
            RouteResult::Blackhole
            | RouteResult::Unreachable
            | RouteResult::Prohibit
            | RouteResult::None => {
                let reason = route.drop_reason().unwrap_or(DropReason::NoRoute);
                Way::Nowhere(reason, route.icmp_cause(family_of(dst)))
            }
        }
    }
}

/// The family of an address.
const fn family_of(addr: IpAddr) -> Family {
    match addr {
        IpAddr::V4(_) => Family::V4,
        IpAddr::V6(_) => Family::V6,
    }
}

/// Keys of held packets that are looked at in one pass over all of them.
pub(crate) const KEYS_AT_ONCE: usize = 64;
