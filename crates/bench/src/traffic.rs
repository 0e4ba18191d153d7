//! The inner packets: UDP over IPv4 or IPv6 between hosts of the local network and each SA's remote one.
//!
//! Flow `f` belongs to SA `f % sas`; its hosts and ports follow from its number, as in
//! `bench/peer`, where DPDK's gateway gets the same: 1024 flows by default, no two with the same
//! addresses and ports.

use core::net::{IpAddr, Ipv4Addr};

use wire::ipv4::Ipv4Fields;
use wire::ipv6::{self, Ipv6Fields};
use wire::udp::UdpFields;
use wire::{parse_ip, protocol};

use crate::options::Direction;
use crate::random::{Random, Zipf};
use crate::shape::Shape;

/// How packets choose among flows.
#[derive(Clone, Debug)]
pub(crate) enum Choice {
    /// One after the other.
    InTurn(usize),
    /// Of so many flows in a row one, and of the next ones again: of so many SAs one, if their number is a
    /// multiple.
    EveryNth {
        /// The next flow; at first below `n`.
        next: usize,
        /// Divides the number of SAs.
        n: usize,
    },
    /// Each is as likely.
    Uniform(Random),
    /// SAs by Zipf's law, and any of the SA's flows.
    Zipf(Box<Zipf>, Random),
}

/// Which flows there are, and what their packets look like.
#[derive(Clone, Debug)]
pub(crate) struct Traffic {
    pub(crate) direction: Direction,
    /// Length of the inner IP packet in bytes.
    pub(crate) size: usize,
    pub(crate) sas: usize,
    /// At least one for each SA; the same number for each.
    pub(crate) flows: usize,
    pub(crate) shape: Shape,
    choice: Choice,
    body: Vec<u8>,
}

impl Traffic {
    /// `flows` is rounded up to the same number for each SA.
    pub(crate) fn new(
        direction: Direction,
        size: usize,
        sas: usize,
        flows: usize,
        choice: Choice,
    ) -> Traffic {
        let flows = flows.div_ceil(sas) * sas;
        Traffic {
            direction,
            size,
            sas,
            flows,
            shape: Shape::default(),
            choice,
            body: (0..size).map(|i| (i * 7) as u8).collect(),
        }
    }

    /// This traffic with other headers.
    pub(crate) fn shaped(self, shape: Shape) -> Traffic {
        Traffic { shape, ..self }
    }

    /// This traffic with another choice of flows.
    pub(crate) fn chosen(self, choice: Choice) -> Traffic {
        Traffic { choice, ..self }
    }

    /// The flow of the next packet.
    pub(crate) fn next_flow(&mut self) -> usize {
        match &mut self.choice {
            Choice::InTurn(next) => {
                let flow = *next;
                *next = if flow + 1 < self.flows { flow + 1 } else { 0 };
                flow
            }
            Choice::EveryNth { next, n } => {
                let flow = *next;
                *next = if flow + *n < self.flows { flow + *n } else { flow % *n };
                flow
            }
            Choice::Uniform(random) => random.below(self.flows),
            Choice::Zipf(zipf, random) => {
                zipf.draw(random) + self.sas * random.below(self.flows / self.sas)
            }
        }
    }

    /// The SA of a flow.
    pub(crate) const fn sa(&self, flow: usize) -> usize {
        flow % self.sas
    }

    /// Writes a packet of a flow: `size` bytes. UDP without a checksum where IPv4 allows that.
    pub(crate) fn write(&self, flow: usize, out: &mut [u8]) {
        let number = flow / self.sas;
        let here = local_host(flow);
        let there = remote_host(self.sa(flow) as u32, number);
        let (src, dst) = match self.direction {
            Direction::Outbound => (here, there),
            Direction::Inbound => (there, here),
        };
        let ip = match (self.shape.addr(src), self.shape.addr(dst)) {
            (IpAddr::V6(src), IpAddr::V6(dst)) => Ipv6Fields {
                traffic_class: 0,
                flow_label: 0,
                payload_len: (self.size - ipv6::HEADER_LEN) as u16,
                next_header: protocol::UDP,
                hop_limit: TTL,
                src,
                dst,
            }
            .to_bytes()
            .to_vec(),
            _ => Ipv4Fields {
                traffic_class: 0,
                total_len: self.size as u16,
                ident: flow as u16,
                dont_fragment: false,
                ttl: TTL,
                protocol: protocol::UDP,
                src,
                dst,
            }
            .to_bytes()
            .to_vec(),
        };
        let udp = UdpFields {
            src_port: 1024 + (number % 64) as u16,
            dst_port: 2000 + (number / 64) as u16,
            len: (self.size - ip.len()) as u16,
            checksum: 0,
        };
        let headers = [&ip[..], &udp.to_bytes()].concat();
        for (place, byte) in out.iter_mut().zip(headers.iter().chain(&self.body)) {
            *place = *byte;
        }
        if self.shape.v6
            && let Ok(h) = parse_ip(out)
        {
            wire::fill_l4_checksum(out, &h);
        }
    }

    /// A packet of a flow as the gateway forwards it: one hop further.
    pub(crate) fn forwarded(&self, flow: usize) -> Option<Vec<u8>> {
        let mut packet = vec![0; self.size];
        self.write(flow, &mut packet);
        let h = parse_ip(&packet).ok()?;
        wire::decrement_ttl(&mut packet, &h).then_some(packet)
    }
}

/// The local host of a flow, in 10.1.0.0/16; there are [`LOCAL_HOSTS`].
pub(crate) const fn local_host(flow: usize) -> Ipv4Addr {
    let n = flow % LOCAL_HOSTS;
    Ipv4Addr::new(10, 1, (n / 250) as u8, (1 + n % 250) as u8)
}

/// The network of an SA, a /26 in 10.128.0.0/9.
pub(crate) const fn remote_network(sa: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(0x0a80_0000 + (sa << 6))
}

/// A host of an SA's network.
const fn remote_host(sa: u32, number: usize) -> Ipv4Addr {
    Ipv4Addr::from_bits(remote_network(sa).to_bits() + 1 + (number % 61) as u32)
}

/// Prefix length of a remote network.
pub(crate) const REMOTE_LEN: u8 = 26;
/// Prefix length of the local network.
pub(crate) const LOCAL_LEN: u8 = 16;
/// Hosts of the local network.
pub(crate) const LOCAL_HOSTS: usize = 1000;
const TTL: u8 = 64;

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn traffic(sas: usize, flows: usize, choice: Choice) -> Traffic {
        Traffic::new(Direction::Outbound, 64, sas, flows, choice)
    }

    #[test]
    fn flows_differ_and_belong_to_their_sa() {
        for (sas, flows) in [(1, 5000), (7, 1024), (3000, 1)] {
            let mut all = traffic(sas, flows, Choice::InTurn(0));
            assert!(all.flows >= flows.max(sas) && all.flows.is_multiple_of(sas));
            let mut seen = HashSet::new();
            for _ in 0..all.flows {
                let flow = all.next_flow();
                let mut packet = [0; 64];
                all.write(flow, &mut packet);
                let h = parse_ip(&packet).expect("a packet");
                assert!(seen.insert((h.src, h.dst, h.src_port, h.dst_port)), "{flow}");
                let network = remote_network(all.sa(flow) as u32).to_bits();
                let core::net::IpAddr::V4(dst) = h.dst else { panic!("IPv6") };
                assert_eq!(dst.to_bits() >> 6, network >> 6);
            }
            assert_eq!(all.next_flow(), 0, "and again");
        }
    }

    #[test]
    fn workers_that_take_every_nth_flow_meet_all_flows_and_no_sa_twice() {
        let mut seen = HashSet::new();
        for first in 0..3 {
            let mut all = traffic(6, 18, Choice::EveryNth { next: first, n: 3 });
            for _ in 0..6 {
                let flow = all.next_flow();
                assert_eq!(all.sa(flow) % 3, first);
                assert!(seen.insert(flow), "{flow}");
            }
            assert_eq!(all.next_flow(), first, "and again");
        }
        assert_eq!(seen.len(), 18);
    }

    #[test]
    fn random_choices_stay_within_and_reach_every_sa() {
        let mut random = Random::new(5);
        let zipf = Box::new(Zipf::new(10, &mut random));
        for choice in [Choice::Uniform(random.clone()), Choice::Zipf(zipf, random.clone())] {
            let mut all = traffic(10, 100, choice);
            let mut seen = [0; 10];
            for _ in 0..10_000 {
                let flow = all.next_flow();
                assert!(flow < 100);
                seen[all.sa(flow)] += 1;
            }
            assert!(seen.iter().all(|n| *n > 100), "{seen:?}");
        }
    }

    #[test]
    fn a_forwarded_packet_has_lost_one_hop_and_nothing_else() {
        let all = traffic(1, 10, Choice::InTurn(0));
        let mut packet = [0; 64];
        all.write(3, &mut packet);
        let forwarded = all.forwarded(3).expect("a packet");
        let h = parse_ip(&forwarded).expect("still a packet");
        assert_eq!((h.ttl, forwarded.len()), (TTL - 1, 64));
        assert_eq!(forwarded[12..], packet[12..]);
    }
}
