//! Probes of others, and replies to probes of this host.

use core::net::SocketAddr;

use io::Packet;
use paths::stamp::Counts;
use paths::{Asked, Reply, Stay};
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
        let is_decrypted = meta.ingress.via().is_some();
        if verify_l4_checksum(bytes, &h) == L4Checksum::Invalid {
            return Reception::Other;
        }
        let whole = bytes.get(usize::from(h.header_len)..h.total_len.into());
        let Some(above) = whole else { return Reception::Other };
        if h.protocol != protocol::UDP {
            return self.take_echo(hands, &h, above, is_decrypted);
        }
        let Ok(datagram) = UdpHeader::parse(above) else { return Reception::Other };
        let key = (h.dst, h.src, true, h.dst_port);
        let session = self.by_reply.get(&key).and_then(|at| self.sessions.get_mut(*at));
        if let Some(session) = session.filter(|session| session.is_of(is_decrypted)) {
            let of_class = session.prober.counts_packets() && h.traffic_class >> 2 == session.dscp;
            let received = of_class.then(|| received_with(hands.view, &h, meta)).flatten();
            let now_ns = hands.out.reports.clock_ns();
            let reply = session.prober.receive(now_ns, datagram.payload(), received);
            return counted(hands, reply);
        }
        match is_decrypted {
            true => self.reflect(hands, &h, datagram.payload(), meta),
            false => Reception::Other,
        }
    }

    fn take_echo(
        &mut self,
        hands: &mut Hands<'_>,
        h: &Headers,
        above: &[u8],
        is_decrypted: bool,
    ) -> Reception {
        let Some((header, body)) = above.split_first_chunk::<{ icmp::HEADER_LEN }>() else {
            return Reception::Other;
        };
        let ident = u16::from_be_bytes([header[4], header[5]]);
        let key = (h.dst, h.src, false, ident);
        let session = self.by_reply.get(&key).and_then(|at| self.sessions.get_mut(*at));
        // Another program's echoes may have the same identifier.
        let Some(session) =
            session.filter(|it| it.is_of(is_decrypted) && paths::echo::Echo::parse(body).is_some())
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
        let Some(it) = self.reflector.as_mut().filter(|it| it.port == h.dst_port) else {
            return Reception::Other;
        };
        let mut out = [0; LONGEST];
        if self.answers.is_full() || payload.len() > LONGEST {
            return Reception::Refused;
        }
        let from = SocketAddr::new(h.src, h.src_port);
        let asked = Asked { from, ttl: h.ttl, class: h.traffic_class };
        let received = wall();
        let stay = Stay { now_ns: hands.out.reports.clock_ns(), received, sent: received };
        let Some(origin) = way_back(hands.view, meta) else { return Reception::Refused };
        let upper = Upper::Udp(h.dst_port, h.src_port);
        let view = hands.view;
        let count = || {
            let dscp = h.traffic_class >> 2;
            let ends = Outside { src: h.dst, dst: h.src, dscp, ttl: TTL };
            let received = received_with(view, h, meta)?;
            let sent = sent_before(view, &headers(ends, upper, payload.len()), origin)?;
            Some(Counts { received: received.packets, sent: sent.packets })
        };
        let Some((len, dscp)) = it.reflector.reflect(payload, asked, stay, count, &mut out) else {
            return Reception::Refused;
        };
        let ends = Outside { src: h.dst, dst: h.src, dscp, ttl: TTL };
        let reply = out.get(..len).unwrap_or_default();
        let Some((packet, h)) = made(hands.out, ends, upper, reply) else {
            return Reception::Refused;
        };
        hands.out.counters.work.probes_reflected.add(1);
        // There is room: it was looked at before.
        let _ = self.answers.try_push((packet, h, origin));
        Reception::Taken
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

/// How the answer to a decrypted packet leaves: by the tunnel interface that the packet came in by, if there is one.
fn way_back(view: &View, meta: &Meta) -> Option<Origin> {
    let sa = meta.ingress.via().and_then(|via| view.reader.sa(via))?;
    let tunnel = view.topology.tunnels.of_sa(&sa.config);
    way_out(view, tunnel.map_or(0, |(_, tunnel)| tunnel.ifindex), true)
}
