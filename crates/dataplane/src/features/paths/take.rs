//! Probes of others, and replies to probes of this host.

use core::net::SocketAddr;

use io::Packet;
use paths::stamp::Counts;
use paths::{Asked, Reply, Stay, Unread};
use policy::SaHandle;
use wire::udp::UdpHeader;
use wire::{Headers, L4Checksum, icmp, parse_ip, protocol, verify_l4_checksum};

use super::counted::{received_with, sent_before};
use super::sessions::{Paths, wall};
use crate::features::crafted::{Outside, TTL, Upper, headers, made, way_out};
use crate::features::hands::Hands;
use crate::features::reception::Reception;
use crate::model::{Meta, Origin};
use crate::view::View;

/// Longest probe of others that is sent back, in bytes of its UDP payload.
const LONGEST: usize = 1472;

impl Paths {
    /// Takes a packet that may be a probe or a reply.
    pub(super) fn take(
        &mut self,
        hands: &mut Hands<'_>,
        packet: &Packet,
        meta: &Meta,
    ) -> Reception {
        let bytes = packet.data();
        let Ok(h) = parse_ip(bytes) else { return Reception::Other };
        let way = way_of(hands.view, meta);
        if verify_l4_checksum(bytes, &h) == L4Checksum::Invalid {
            return Reception::Other;
        }
        let whole = bytes.get(usize::from(h.header_len)..h.total_len.into());
        let Some(above) = whole else { return Reception::Other };
        if h.protocol != protocol::UDP {
            return self.take_echo(hands, &h, above, way);
        }
        let Ok(datagram) = UdpHeader::parse(above) else { return Reception::Other };
        let key = (h.dst, h.src, true, h.dst_port);
        let session = self.by_reply.get(&key).and_then(|at| self.sessions.get_mut(*at));
        if let Some(session) = session.filter(|session| session.is_of(way.is_decrypted())) {
            let is_counted = way.is_decrypted()
                && session.prober.counts_packets()
                && h.traffic_class >> 2 == session.dscp;
            let received = is_counted.then(|| received_with(hands.view, &h, meta)).flatten();
            let now_ns = hands.out.reports.clock_ns();
            let reply = session.prober.receive(now_ns, datagram.payload(), received);
            return counted(hands, reply);
        }
        self.reflect(hands, &h, datagram.payload(), meta)
    }

    fn take_echo(
        &mut self,
        hands: &mut Hands<'_>,
        h: &Headers,
        above: &[u8],
        way: ProbeWay,
    ) -> Reception {
        let Some((header, body)) = above.split_first_chunk::<{ icmp::HEADER_LEN }>() else {
            return Reception::Other;
        };
        let ident = u16::from_be_bytes([header[4], header[5]]);
        let key = (h.dst, h.src, false, ident);
        let session = self.by_reply.get(&key).and_then(|at| self.sessions.get_mut(*at));
        // Another program's echoes may have the same identifier.
        let Some(session) = session
            .filter(|it| it.is_of(way.is_decrypted()) && paths::echo::Echo::parse(body).is_some())
        else {
            return Reception::Other;
        };
        let reply = session.prober.receive(hands.out.reports.clock_ns(), body, None);
        counted(hands, reply)
    }

    /// Sends a probe back by the way that it came.
    fn reflect(
        &mut self,
        hands: &mut Hands<'_>,
        h: &Headers,
        payload: &[u8],
        meta: &Meta,
    ) -> Reception {
        let way = way_of(hands.view, meta);
        let Paths { reflector, clear, answers, .. } = self;
        let (reflector, origin) = match way {
            ProbeWay::Decrypted(via) => {
                let Some(it) = reflector.as_mut().filter(|it| it.port == h.dst_port) else {
                    return Reception::Other;
                };
                (&mut it.reflector, way_back(hands.view, via))
            }
            ProbeWay::InClear { ifindex } => {
                let at = SocketAddr::new(h.dst, h.dst_port);
                let is_reflectors = hands.view.topology.path_ends.clear.reflectors.contains(&at);
                let Some(it) = clear.as_mut().filter(|_| is_reflectors) else {
                    return Reception::Other;
                };
                if !it.senders.iter().any(|prefix| prefix.contains(h.src)) {
                    it.reflector.refuse(Unread::Unnamed);
                    return Reception::Refused;
                }
                let mark = it.marks.get(&h.dst).copied().unwrap_or_default();
                (&mut it.reflector, Some(Origin::Probe { ifindex, mark }))
            }
        };
        if payload.len() > LONGEST {
            reflector.refuse(Unread::TooLong);
            return Reception::Refused;
        }
        let Some(origin) = origin.filter(|_| !answers.is_full()) else {
            reflector.refuse(Unread::NoRoom);
            return Reception::Refused;
        };
        let from = SocketAddr::new(h.src, h.src_port);
        let asked = Asked { from, ttl: h.ttl, class: h.traffic_class };
        let received = wall();
        let stay = Stay { now_ns: hands.out.reports.clock_ns(), received, sent: received };
        let upper = Upper::Udp(h.dst_port, h.src_port);
        let view = hands.view;
        let count = || {
            let dscp = h.traffic_class >> 2;
            let ends = Outside { src: h.dst, dst: h.src, dscp, ttl: TTL };
            let received = received_with(view, h, meta).filter(|_| way.is_decrypted())?;
            let sent = sent_before(view, &headers(ends, upper, payload.len()), origin)?;
            Some(Counts { received: received.packets, sent: sent.packets })
        };
        let mut reply = [0; LONGEST];
        let Some((len, dscp)) = reflector.reflect(payload, asked, stay, count, &mut reply) else {
            return Reception::Refused;
        };
        let ends = Outside { src: h.dst, dst: h.src, dscp, ttl: TTL };
        let reply = reply.get(..len).unwrap_or_default();
        let Some((packet, h)) = made(hands.out, ends, upper, reply) else {
            reflector.refuse(Unread::NoRoom);
            return Reception::Refused;
        };
        hands.out.counters.work.probes_reflected.add(1);
        // There is room: it was looked at before.
        let _ = answers.try_push((packet, h, origin));
        Reception::Taken
    }
}

/// How a packet came.
#[derive(Clone, Copy)]
enum ProbeWay {
    /// This SA has decrypted it.
    Decrypted(SaHandle),
    /// In clear, by the interface with this index.
    InClear { ifindex: u32 },
}

impl ProbeWay {
    const fn is_decrypted(self) -> bool {
        matches!(self, ProbeWay::Decrypted(_))
    }
}

/// How a packet came. What was inside of an overlay's counts as come in clear by that interface, as for policies.
fn way_of(view: &View, meta: &Meta) -> ProbeWay {
    let ifindex = meta.ingress.ifindex;
    match (view.topology.overlays.link(ifindex), meta.ingress.via()) {
        (Some(link), _) => ProbeWay::InClear { ifindex: link.ifindex },
        (None, Some(via)) => ProbeWay::Decrypted(via),
        (None, None) => ProbeWay::InClear { ifindex },
    }
}

fn counted(hands: &Hands<'_>, reply: Reply) -> Reception {
    match reply {
        Reply::Answer(_) => {
            hands.out.counters.work.probes_answered.add(1);
            Reception::Taken
        }
        Reply::Refused => Reception::Refused,
    }
}

/// How the answer to a packet that an SA has decrypted leaves: by the tunnel interface that it came in by, if there is one.
fn way_back(view: &View, via: SaHandle) -> Option<Origin> {
    let tunnel = view.topology.tunnels.of_sa(&view.reader.sa(via)?.config);
    way_out(view, tunnel.map_or(0, |(_, tunnel)| tunnel.ifindex), true)
}
