//! Where a packet goes first: from a port, or from Linux.
//!
//! A burst goes through three passes, so that what one packet waits for from memory is under way
//! while others are worked on: all are parsed and hashed, all are looked for in the flow cache,
//! and then each is moved on.

use core::net::IpAddr;
use core::ops::{Deref, DerefMut};
use std::sync::Arc;

use esp::Sa;
use forward::RouteResult;
use io::{BURST_LEN, Burst, Packet};
use mem::Cache;
use outcome::{DropReason, Outcome};
use policy::{Direction, Ends, Flow, Outbound, PolicyEntry, SaEntry, SaSpot, SaTag, WorkerIndex};
use wire::ethernet::{EtherType, EthernetHeader, HEADER_LEN, MacAddr};
use wire::natt::{self, NattPayload};
use wire::{Digest, Family, FlowKey, Headers, Span, protocol};

use crate::batch::Source;
use crate::flow_cache::{FlowCache, Ingress, Key};
use crate::plan::{Action, Lesson};
use crate::worker::{Origin, Worker};

/// What the first pass finds out about a packet; the packet itself stays where it is.
#[derive(Clone, Debug, Default)]
pub(crate) struct Head {
    pub(crate) digest: Digest,
    pub(crate) ingress: Ingress,
    /// How the flow cache finds the flow, if it is to be looked for there.
    pub(crate) hash: u64,
    /// Where its flow's plan may stand.
    pub(crate) place: Option<u32>,
    /// Bare ESP for this host, as its destination alone tells: it needs no plan, and the rest of this
    /// says nothing about one.
    pub(crate) is_own_esp: bool,
    /// Whether its flow's place is looked for by the hash.
    pub(crate) is_sought: bool,
    /// Whether its flow may have a plan at all: what is done to all packets of the flow hangs on
    /// nothing but the key.
    pub(crate) has_flow: bool,
    /// How the packet ends here, if it does; the rest says nothing then.
    pub(crate) end: Option<Outcome>,
    /// By what that is found, if it is ESP for this host.
    pub(crate) tag: Option<SaTag>,
    /// Where the SA is that it is most likely for, if it is ESP for this host and if bursts are spread over
    /// many.
    pub(crate) sa: Option<SaSpot>,
}

impl Head {
    /// What the flow cache knows the flow by.
    #[inline(always)]
    pub(crate) fn key(&self) -> Key {
        Key { flow: self.digest.flow, ingress: self.ingress }
    }

    /// Completes a head whose digest is there, but for what is said of its flow.
    #[inline(always)]
    pub(crate) fn enter(&mut self, ingress: Ingress, has_flow: bool) {
        self.ingress = ingress;
        self.has_flow = has_flow;
        self.end = None;
    }

    /// Says by what the flow is looked for.
    #[inline(always)]
    pub(crate) fn seek(&mut self, flows: &FlowCache) {
        self.is_sought = true;
        self.hash = flows.hasher().hash(&self.key());
        flows.prefetch(self.hash);
    }
}

/// One for each packet of a burst, in their order. Written in place: what is moved whole is moved
/// through memory.
pub(crate) struct Heads {
    all: [Head; BURST_LEN],
    len: usize,
}

impl Default for Heads {
    fn default() -> Heads {
        Heads { all: core::array::from_fn(|_| Head::default()), len: 0 }
    }
}

impl Heads {
    /// The places of `len` heads, to be written.
    #[inline]
    pub(crate) fn places(&mut self, len: usize) -> &mut [Head] {
        self.len = len.min(BURST_LEN);
        self
    }
}

impl Deref for Heads {
    type Target = [Head];

    #[inline]
    fn deref(&self) -> &[Head] {
        self.all.get(..self.len).unwrap_or(&self.all)
    }
}

impl DerefMut for Heads {
    #[inline]
    fn deref_mut(&mut self) -> &mut [Head] {
        match self.all.get_mut(..self.len) {
            Some(heads) => heads,
            None => &mut [],
        }
    }
}

/// What a round works with: allocated once, borrowed by whoever moves a burst.
#[derive(Default)]
pub(crate) struct Scratch {
    pub(crate) burst: Burst,
    pub(crate) heads: Heads,
}

/// Length of an Ethernet address.
const MAC_LEN: usize = 6;

/// How many packets ahead the first pass asks for what it will read and write.
const AHEAD: usize = 8;

/// How many packets ahead what was asked for a burst at a time is asked for again.
pub(crate) const AGAIN: usize = 4;

/// How many packets ahead what is found by way of that is asked for again.
const SOON: usize = 2;

/// How many bursts a port's turn has at most.
const BURSTS_AT_ONCE: usize = 8;

/// Brings near a packet's headers, and the line in front of them, where outer headers go.
#[inline(always)]
fn prefetch_headers(cache: Cache, packet: &Packet) {
    for offset in [0, mem::LINE_LEN.wrapping_neg(), mem::LINE_LEN] {
        packet.prefetch(cache, offset);
    }
}

impl Worker {
    /// Receives from a port and moves each packet on: one burst, or several while they are full and
    /// spread over many SAs, so that what one asks memory for comes while the one before is encrypted
    /// or decrypted.
    pub(crate) fn receive_some(&mut self, slot: usize) -> usize {
        let is_timed = self.is_spread && self.crypto.is_none();
        let is_measuring = is_timed && self.asking.is_measuring();
        let begun_ns = is_measuring.then(|| self.clock.now().ns);
        let mut came = self.receive(slot);
        for turn in 1..BURSTS_AT_ONCE {
            if !self.is_spread || came < turn * BURST_LEN {
                break;
            }
            came += self.receive(slot);
        }
        // What comes in small numbers says more about gaps than about memory.
        if is_timed && came >= BURST_LEN {
            let took_ns = begun_ns.map_or(0, |begun| self.clock.now().ns.saturating_sub(begun));
            self.asking.note(came as u64, took_ns);
        }
        came
    }

    /// Receives one burst from a port and moves each packet on.
    pub(crate) fn receive(&mut self, slot: usize) -> usize {
        if self.crypto.is_some() {
            return self.receive_for_pool(slot);
        }
        let Some(mut scratch) = self.scratch.take() else { return 0 };
        let Scratch { burst, heads } = &mut *scratch;
        let source = self.take_in(slot, burst);
        let came = burst.len();
        if came > 0 {
            self.move_on(burst, heads, source);
        }
        self.scratch = Some(scratch);
        came
    }

    /// Moves each packet of a burst on.
    pub(crate) fn move_on(&mut self, burst: &mut Burst, heads: &mut Heads, source: Source) {
        self.look_at_all(burst, heads, source);
        let is_spread = self.is_spread;
        let mut heads = heads.iter();
        for packet in burst.drain(..) {
            if is_spread && let Some(next) = heads.as_slice().get(AGAIN) {
                self.look_again(next);
            }
            if is_spread
                && let Some(next) = heads.as_slice().get(SOON).filter(|next| !next.is_own_esp)
            {
                self.look_at_tallies(next);
            }
            match heads.next() {
                Some(head) if head.is_own_esp => self.enter_own_esp(packet, head),
                Some(head) => self.enter(packet, head, None),
                // There are as many.
                None => self.drop_packet(packet, DropReason::NoFrames),
            }
        }
    }

    /// The first two passes.
    pub(crate) fn look_at_all(&mut self, burst: &mut Burst, heads: &mut Heads, source: Source) {
        self.first_pass(burst, heads, source);
        self.find_all(heads);
        if self.is_spread {
            self.look_ahead(burst, heads);
        }
    }

    /// Receives one burst from a port.
    pub(crate) fn take_in(&mut self, slot: usize, burst: &mut Burst) -> Source {
        let Some(Some(place)) = self.ports.get_mut(slot) else { return Source::default() };
        let (ifindex, is_linux) = (place.ifindex, place.is_linux);
        let result = place.port.rx(&mut self.pool, burst);
        if result.is_err_and(|error| error.is_gone()) {
            self.lose_port(ifindex);
        }
        if burst.is_empty() {
            return Source::default();
        }
        self.counters.received.add(burst.len() as u64);
        let mac = self.topology.interfaces.get(&ifindex).map(|interface| interface.mac);
        // All zeros: Linux has told none.
        Source { ifindex, is_linux, mac: mac.filter(|mac| mac.0 != [0; 6]) }
    }

    /// The first pass.
    #[inline(always)]
    fn first_pass(&mut self, burst: &mut Burst, heads: &mut Heads, source: Source) {
        let Source { ifindex, is_linux, mac } = source;
        let cache = self.asked_into();
        burst.iter().take(AHEAD).for_each(|packet| prefetch_headers(cache, packet));
        let heads = heads.places(burst.len());
        for at in 0..burst.len() {
            if let Some(next) = burst.get(at + AHEAD) {
                prefetch_headers(cache, next);
            }
            let (Some(packet), Some(head)) = (burst.get_mut(at), heads.get_mut(at)) else { break };
            let found = match is_linux {
                true => self.head_from_linux(packet, head),
                false => self.head_from_port(packet, head, ifindex, mac),
            };
            match found {
                Ok(()) => {
                    let is_own_esp = self.is_own_esp(head);
                    head.is_own_esp = is_own_esp;
                    match is_own_esp {
                        false => head.seek(&self.flows),
                        true => (head.is_sought, head.sa) = (false, None),
                    }
                }
                Err(reason) => head.end = Some(reason.into()),
            }
        }
    }

    /// The second pass.
    #[inline]
    pub(crate) fn find_all(&self, heads: &mut [Head]) {
        let cache = self.asked_into();
        for head in heads {
            // Of those that end here too: it does no harm.
            if head.is_sought {
                head.place = self.flows.place(cache, head.hash);
            }
        }
    }

    /// A frame from an Ethernet port, up to its flow. `mac` is the port's own address, where it is
    /// known. The packet's span is then the IP packet.
    ///
    /// A VLAN's frames belong to an interface of their own, which no port stands for: they are not
    /// taken for the parent's. A tag of VLAN 0 only carries a priority (IEEE 802.1Q §6.9).
    #[inline(always)]
    fn head_from_port(
        &self,
        packet: &mut Packet,
        head: &mut Head,
        ifindex: u32,
        mac: Option<MacAddr>,
    ) -> Result<(), DropReason> {
        // Most frames, in a few comparisons: to this port, untagged.
        if let Some(header) = packet.data().first_chunk::<HEADER_LEN>()
            && mac.is_some_and(|mac| is_to(header, mac))
            && let Some(family) = ip_family(header)
        {
            let Span { start, len } = packet.span;
            let span = Span { start: start + HEADER_LEN, len: len - HEADER_LEN };
            let bytes = packet.frame.bytes().get(span.start..).unwrap_or_default();
            if let Some((digest, may_be_partial)) = wire::digest(bytes, span.len)
                && digest.brief.family() == family
                && !may_be_partial
            {
                // What Ethernet padded is not part of the packet.
                packet.span = Span { len: digest.brief.total_len().into(), ..span };
                head.digest = digest;
                head.enter(Ingress { ifindex, via: None }, true);
                return Ok(());
            }
        }
        self.head_of_any(packet, head, ifindex, mac)
    }

    /// The same for every frame.
    #[inline(never)]
    fn head_of_any(
        &self,
        packet: &mut Packet,
        head: &mut Head,
        ifindex: u32,
        mac: Option<MacAddr>,
    ) -> Result<(), DropReason> {
        let header = EthernetHeader::parse(packet.data())?;
        let is_to_many = header.dst.is_multicast();
        if !is_to_many && mac.is_some_and(|mac| mac != header.dst) {
            return Err(DropReason::OtherHost);
        }
        let family = match header.ether_type {
            EtherType::IPV4 => Family::V4,
            EtherType::IPV6 => Family::V6,
            _ => return Err(DropReason::UnexpectedProtocol),
        };
        if header.tags.iter().flatten().any(|tag| tag.vlan_id() != 0) {
            return Err(DropReason::UnexpectedProtocol);
        }
        let payload = header.payload_offset;
        if payload > HEADER_LEN {
            // Without tags, as whoever gives it back to Linux finds it in front of the IP packet.
            packet.data_mut().copy_within(..2 * MAC_LEN, payload - HEADER_LEN);
        }
        packet.span = Span { start: packet.span.start + payload, len: packet.span.len - payload };
        let h = wire::parse_ip(packet.data())?;
        packet.span.len = usize::from(h.total_len);
        if h.family() != family {
            return Err(DropReason::MalformedIp);
        }
        // A veth peer leaves TCP and UDP checksums to a device that is not there.
        if wire::complete_partial(packet.data_mut(), &h) {
            self.counters.work.checksums_completed.add(1);
        }
        head.digest = (&h).into();
        head.enter(Ingress { ifindex, via: None }, !is_to_many);
        Ok(())
    }

    /// A packet from Linux: made by a program of this machine, or forwarded by Linux from an
    /// interface that is not a port.
    #[inline(always)]
    fn head_from_linux(&self, packet: &mut Packet, head: &mut Head) -> Result<(), DropReason> {
        let bytes = packet.data();
        head.digest = match wire::digest(bytes, bytes.len()) {
            Some((digest, _)) => digest,
            None => (&wire::parse_ip(bytes)?).into(),
        };
        packet.span.len = head.digest.brief.total_len().into();
        // Whether those are key exchange is seen in the packet alone.
        let (src_port, dst_port) = head.digest.flow.ports();
        let is_natt = self.topology.is_natt_port(src_port) || self.topology.is_natt_port(dst_port);
        head.enter(Ingress { ifindex: 0, via: None }, !is_natt);
        Ok(())
    }

    /// The third pass without a plan: all the look-ups, and what they decide is kept for the
    /// packets that follow.
    #[inline(never)]
    pub(crate) fn enter_anew(&mut self, packet: Packet, head: &Head, held: Option<&SaEntry<Sa>>) {
        if self.batch.is_some() {
            return self.leave(packet, head);
        }
        let h = match wire::parse_ip(packet.data()) {
            Ok(h) => h,
            // It did, a moment ago.
            Err(error) => return self.drop_packet(packet, error.into()),
        };
        let mut lesson = Lesson::default();
        let ifindex = head.ingress.ifindex;
        match head.ingress {
            Ingress { via: Some(via), .. } => {
                self.counters.work.flow_misses.add(1);
                self.enter_decrypted(packet, &h, (via, held), ifindex, &mut lesson);
            }
            Ingress { ifindex: 0, .. } => {
                self.counters.work.flow_misses.add(1);
                self.outbound(packet, &h, Origin::Linux, &mut lesson);
            }
            _ => self.enter_from_port(packet, &h, head, &mut lesson),
        }
        if head.has_flow
            && let Some((plan, stamps)) = lesson.into_plan()
        {
            let key = head.key();
            self.flows.insert(self.flows.hasher().hash(&key), key, plan, stamps);
        }
    }

    /// A packet from an Ethernet port: ESP for us is opened; the rest was taken because a policy
    /// may speak of it.
    fn enter_from_port(&mut self, packet: Packet, h: &Headers, head: &Head, lesson: &mut Lesson) {
        // Those sent to all stations have no flow.
        let (ifindex, is_to_many) = (head.ingress.ifindex, !head.has_flow);
        let is_local = self.is_local(h, ifindex);
        let is_natt = h.protocol == protocol::UDP && self.topology.is_natt_port(h.dst_port);
        // ESP counts once it is decrypted.
        if !is_local || h.protocol != protocol::ESP && !is_natt {
            self.counters.work.flow_misses.add(1);
        }
        if !is_to_many && !self.is_possible_source(h.src, is_local) {
            return self.drop_packet(packet, DropReason::MartianSource);
        }
        if !is_local {
            // What was sent to all stations is not for routers (RFC 1812 §5.3.4).
            if is_to_many {
                return self.drop_packet(packet, DropReason::OtherHost);
            }
            return self.cleartext(packet, h, ifindex, Direction::Forward, lesson);
        }
        match h.protocol {
            protocol::ESP => {
                match self.topology.fib.is_local_to_all(h.dst) {
                    true => self.own.learn(head.digest.flow.dst_words()),
                    // By a rule that looks at more: this flow's alone.
                    false => lesson.conclude(Action::OpenBare),
                }
                self.esp(packet, head, None);
            }
            protocol::UDP if is_natt => {
                lesson.conclude(Action::OpenUdp);
                self.udp_encapsulated(packet, head);
            }
            _ => self.cleartext(packet, h, ifindex, Direction::In, lesson),
        }
    }

    /// A packet to a NAT traversal port of ours (RFC 3948 §2).
    pub(crate) fn udp_encapsulated(&mut self, packet: Packet, head: &Head) {
        let Digest { flow, brief } = &head.digest;
        let payload_at = usize::from(brief.header_len()) + wire::udp::HEADER_LEN;
        match packet.data().get(payload_at..).map(natt::classify) {
            Some(NattPayload::Esp) => {
                let (src_port, _) = flow.ports();
                self.esp(packet, head, Some((flow.src(), src_port)));
            }
            // Steering leaves both to Linux; if one comes here all the same, Linux gets it.
            Some(NattPayload::NonEspMarker) => {
                self.leave_to_linux(packet, head.ingress.ifindex, false, &mut Lesson::default());
            }
            Some(NattPayload::Keepalive) => self.consume(packet),
            Some(NattPayload::TooShort) | None => {
                self.drop_packet(packet, DropReason::MalformedEsp);
            }
        }
    }

    /// A packet that arrived in clear: policy must allow that.
    ///
    /// So must Linux's reverse path filter, which cannot see what it is spared: a forged source on
    /// the outside would go into a tunnel. What Linux gets as received by the same interface it
    /// checks, and counts, itself.
    fn cleartext(
        &mut self,
        packet: Packet,
        h: &Headers,
        ifindex: u32,
        direction: Direction,
        lesson: &mut Lesson,
    ) {
        let ends = match direction {
            Direction::Forward => Ends::Forwarded,
            Direction::In | Direction::Out => Ends::Local,
        };
        let mut is_barred = false;
        if !policy::always_bypass(h, ends, false) {
            let flow = Flow::new(h, self.leads_to(h, ifindex));
            let policy = match self.reader.verify(direction, &flow, None) {
                Ok(policy) => policy,
                Err(reason) => return self.drop_packet(packet, reason),
            };
            self.count_policy(policy, h);
            let policy = policy.map(|policy| &**policy);
            // It wants protection, and does not insist; the guard knows only the first.
            is_barred = policy.is_some_and(|policy| !policy.config.templates.is_empty());
            lesson.allowed_by(policy, self.reader.stamp(direction, &flow, policy));
        }
        let check = self.topology.interfaces.get(&ifindex).map(|i| i.source_check);
        let check = check.unwrap_or_default();
        if !self.topology.fib.is_way_back(h, 0, ifindex, check)
            && (is_barred || !self.is_checked_by_linux(h, ifindex, direction))
        {
            return self.drop_packet(packet, DropReason::ReversePath);
        }
        match direction {
            Direction::In => self.leave_to_linux(packet, ifindex, is_barred, lesson),
            Direction::Forward | Direction::Out => {
                self.outbound(packet, h, Origin::Port { ifindex, is_barred }, lesson);
            }
        }
    }

    /// Whether a packet that arrived in clear goes back to Linux as it came.
    #[cold]
    fn is_checked_by_linux(&self, h: &Headers, ifindex: u32, direction: Direction) -> bool {
        let is_clear = || {
            let verdict = self.reader.outbound(&Flow::new(h, self.leads_to(h, ifindex)));
            matches!(verdict, Outbound::NoPolicy | Outbound::Bypass(_))
        };
        self.back(ifindex).is_some() && (direction == Direction::In || is_clear())
    }

    /// Counts a packet with the policy that allowed it.
    #[inline]
    pub(crate) fn count_policy(&self, policy: Option<&Arc<PolicyEntry>>, h: &Headers) {
        if let Some(policy) = policy {
            policy.count(WorkerIndex::FIRST, 1, u64::from(h.total_len), self.now.wall_s);
        }
    }

    /// Whether a packet is for this host.
    pub(crate) fn is_local(&self, h: &Headers, ifindex: u32) -> bool {
        let route = self.topology.fib.lookup(h.dst, h.src, 0, ifindex);
        matches!(route, RouteResult::Local)
    }

    /// Whether a packet to one host may come from where it says (RFC 1812 §5.3.7, RFC 4291 §2.5).
    ///
    /// Linux asks the same of what it receives, but the private interface has to take packets with
    /// addresses of this host.
    pub(crate) fn is_possible_source(&self, src: IpAddr, is_local: bool) -> bool {
        let is_martian = match src {
            IpAddr::V4(src) => {
                let [first, ..] = src.octets();
                first == 0 || first == 127 || src.is_multicast() || src.is_broadcast()
            }
            IpAddr::V6(src) => {
                src.is_unspecified()
                    || src.is_loopback()
                    || src.is_multicast()
                    || !is_local && src.is_unicast_link_local()
            }
        };
        !is_martian && !self.topology.is_local_addr(src)
    }

    /// [`Worker::is_possible_source`] for a packet to this host, answered from memory where it can be.
    #[inline(always)]
    pub(crate) fn is_known_source(&mut self, flow: &FlowKey) -> bool {
        self.sources.has(flow.src_words()) || self.learn_source(flow)
    }

    #[inline(never)]
    fn learn_source(&mut self, flow: &FlowKey) -> bool {
        let is_possible = self.is_possible_source(flow.src(), true);
        if is_possible {
            self.sources.learn(flow.src_words());
        }
        is_possible
    }

    /// Leaves a packet that came in clear to Linux: it only came here to be judged. One that the
    /// guard's barrier would stop comes in by the private interface, which has none.
    pub(crate) fn leave_to_linux(
        &mut self,
        packet: Packet,
        ifindex: u32,
        is_barred: bool,
        lesson: &mut Lesson,
    ) {
        match self.back(ifindex).filter(|_| !is_barred) {
            Some(tag) => {
                lesson.conclude(Action::BackToLinux { tag });
                self.give_back(packet, tag);
            }
            None => {
                lesson.conclude(Action::ToLinux);
                self.give_to_linux(packet);
            }
        }
    }

    /// The tag by which an interface gets its packets back.
    fn back(&self, ifindex: u32) -> Option<u16> {
        self.topology.interfaces.get(&ifindex).and_then(|interface| interface.back)
    }

    /// Gives a packet back to the interface that it came in by. Its Ethernet header still stands in
    /// front of it: nothing was written there since.
    pub(crate) fn give_back(&mut self, mut packet: Packet, tag: u16) {
        match io::tun::back::tag(&mut packet, tag) {
            true => self.give_to_linux(packet),
            // A port leaves more room than that in front of each frame.
            false => self.drop_packet(packet, DropReason::OutNoRoom),
        }
    }

    /// Hands an IP packet to Linux, through the private interface.
    pub(crate) fn give_to_linux(&mut self, packet: Packet) {
        match self.linux {
            Some(slot) => self.enqueue(slot, packet),
            None => self.drop_packet(packet, DropReason::LinuxFull),
        }
    }

    /// Puts a packet into a port's queue, and sends the queue if it is full.
    #[inline]
    pub(crate) fn enqueue(&mut self, slot: usize, packet: Packet) {
        if let Some(batch) = &mut self.batch {
            return batch.send(slot, packet.frame, packet.span);
        }
        if let Some(Some(place)) = self.ports.get_mut(slot)
            && !place.queue.is_full()
        {
            // There is room.
            let _ = place.queue.try_push(packet);
            return;
        }
        self.enqueue_full(slot, packet);
    }

    #[cold]
    #[inline(never)]
    fn enqueue_full(&mut self, slot: usize, packet: Packet) {
        self.transmit(slot);
        match self.ports.get_mut(slot) {
            Some(Some(place)) => {
                if let Err(full) = place.queue.try_push(packet) {
                    self.drop_packet(full.element(), DropReason::TransmitFull);
                }
            }
            _ => self.drop_packet(packet, DropReason::TransmitDown),
        }
    }
}

/// Whether a frame is to this one station.
#[inline(always)]
fn is_to(header: &[u8; HEADER_LEN], mac: MacAddr) -> bool {
    let [a, b, c, d, e, f, ..] = *header;
    u64::from_le_bytes([a, b, c, d, e, f, 0, 0]) == {
        let [a, b, c, d, e, f] = mac.0;
        u64::from_le_bytes([a, b, c, d, e, f, 0, 0])
    }
}

/// The family of what an untagged frame carries, if it is IP.
#[inline(always)]
fn ip_family(header: &[u8; HEADER_LEN]) -> Option<Family> {
    let [.., high, low] = *header;
    match EtherType(u16::from_be_bytes([high, low])) {
        EtherType::IPV4 => Some(Family::V4),
        EtherType::IPV6 => Some(Family::V6),
        _ => None,
    }
}
