//! Policy databases as real gateways have them, of any size, to measure and test with.
//!
//! Each builder gives the policies that strongSwan would install for so many tunnels: three for
//! each (out, in, forward), with its priorities, its `reqid`s, and a template that names the
//! peer. An SA fits a policy if its outer addresses, `reqid` and mode are the template's. What is
//! built depends on the arguments only.

use core::net::{IpAddr, Ipv4Addr};

use esp::Mode;
use wire::{Fragment, Headers};

use crate::model::{Action, Direction, Mark, PolicyConfig, PolicyFlags, Template};
use crate::selector::{PortMask, Prefix, Selector};

/// A remote-access gateway: every client has one virtual address, and all its traffic is
/// protected. One shape in each direction. Up to 2^22 clients.
pub fn remote_access(clients: u32) -> Vec<PolicyConfig> {
    let mut list = List::new();
    for i in 0..clients {
        list.tunnel(i, &Selector::between(net(0, 0), net(CLIENTS + i, 32)));
    }
    list.policies
}

/// The hub of a star: each of the sites has a /24, and so has the centre. One shape in each
/// direction. Up to 2^22 sites.
pub fn hub(sites: u32) -> Vec<PolicyConfig> {
    let mut list = List::new();
    for i in 0..sites {
        list.tunnel(i, &Selector::between(net(CENTRE, 24), net(SITES + (i << 8), 24)));
    }
    list.policies
}

/// Everything at once: clients, sites with networks of many lengths, pairs of hosts, tunnels for
/// one protocol or port (GRE, L2TP, HTTPS, a range), and over them some broad policies that let
/// pass or block; under them all the rest passes. Twenty-six shapes in each direction. Up to 2^22
/// tunnels.
pub fn mixed(tunnels: u32) -> Vec<PolicyConfig> {
    const ONE: u16 = u16::MAX;
    let mut list = List::new();
    for i in 0..tunnels {
        let client = net(CLIENTS + i, 32);
        let site = |len| net(SITES + (i << 8), len);
        let selector = match i % 16 {
            0..8 => Selector::between(net(0, 0), client),
            8 => Selector::between(net(CENTRE, 24), site(24)),
            9 => Selector::between(net(CENTRE, 16), site(20 + (i / 16 % 10) as u8)),
            10 => Selector::between(net(CENTRE | i & 0xff, 32), client),
            11 => ports(17, (1701, ONE), (0, 0), net(GATEWAY, 32), client),
            12 => ports(47, (0, 0), (0, 0), net(GATEWAY, 32), client),
            13 => ports(6, (0, 0), (443, ONE), net(CENTRE, 24), site(28)),
            14 => ports(6, (0, 0), (0x2000, 0xf800), net(CENTRE, 24), client),
            _ => Selector::between(net(CENTRE, 8), site(22 + (i / 16 % 4) as u8)),
        };
        list.tunnel(i, &selector);
    }
    let (all, centre) = (net(0, 0), net(CENTRE, 16));
    // ICMP of the centre passes, Windows shares never leave it, and the rest is free.
    list.each_way(Action::Allow, PASS, &ports(1, (0, 0), (0, 0), centre, centre));
    list.each_way(Action::Block, PASS, &ports(6, (0, 0), (445, ONE), all, all));
    list.each_way(Action::Block, PASS, &ports(17, (0, 0), (137, 0xfffe), all, all));
    list.each_way(Action::Allow, PASS, &Selector::between(centre, centre));
    list.each_way(Action::Allow, FALLBACK, &Selector::between(all, all));
    list.policies
}

/// The worst case, which no network has: every policy has another shape, by the lengths of its two
/// prefixes and the bits of its ports. All match much, so a look-up has to try many. Up to 16 384.
pub fn many_shapes(policies: u32) -> Vec<PolicyConfig> {
    let mut list = List::new();
    for i in 0..policies.min(1 << 14) {
        let (src, dst) = (8 + (i & 15) as u8, 8 + (i >> 4 & 15) as u8);
        // Every second mask needs the lowest port bit to be set; none is that of another policy.
        let mask = |n: u32| ((1 << n) - 1) as u16;
        let (from, to) = (mask(i >> 8 & 7), mask(i >> 11 & 7));
        let selector = ports(17, (from, from), (to, to), net(CENTRE, src), net(SITES, dst));
        list.tunnel(i, &selector);
    }
    list.policies
}

/// One pair of networks and a policy for each port: one shape, and one key for later fragments.
/// Up to 65 535.
pub fn many_ports(policies: u32) -> Vec<PolicyConfig> {
    let mut list = List::new();
    for i in 0..policies.min(u32::from(u16::MAX)) {
        let port = (i + 1) as u16;
        list.tunnel(i, &ports(6, (0, 0), (port, u16::MAX), net(CENTRE, 24), net(SITES, 24)));
    }
    list.policies
}

/// A packet for which a policy's selector is made; `n` picks one of many. IPv4.
///
/// Among overlapping policies another one may come before it.
pub fn hit(policy: &PolicyConfig, n: u32) -> Headers {
    let s = &policy.selector;
    let noise = n.wrapping_mul(0x9e37_79b9) >> 8;
    let inside = |prefix: &Prefix| match prefix.addr {
        IpAddr::V4(addr) if prefix.len < 32 => {
            let host = u32::MAX >> prefix.len;
            IpAddr::V4(Ipv4Addr::from_bits(addr.to_bits() & !host | noise & host))
        }
        addr => addr,
    };
    let port = |port: PortMask| port.value & port.mask | noise as u16 & !port.mask;
    let protocol = if s.protocol == 0 { 17 } else { s.protocol };
    packet(inside(&s.src), inside(&s.dst), protocol, port(s.src_port), port(s.dst_port))
}

/// A packet between addresses that no tunnel of the builders is for, except that
/// [`remote_access`] and [`mixed`] take any address to be behind the gateway.
pub fn miss(n: u32) -> Headers {
    let noise = n.wrapping_mul(0x9e37_79b9) >> 8;
    let [src, dst] = [noise & 0xffff, noise >> 4 & 0xffff].map(|n| addr(STRANGERS + n));
    packet(src, dst, 17, noise as u16 | 0x4000, 53)
}

/// Policies in the making.
struct List {
    policies: Vec<PolicyConfig>,
}

impl List {
    fn new() -> List {
        List { policies: Vec::new() }
    }

    /// Tunnel number `i`: policies for packets that leave under a selector, and for those that come back.
    fn tunnel(&mut self, i: u32, out: &Selector) {
        let (here, peer) = (addr(GATEWAY), addr(PEERS + i));
        for (direction, selector) in ways(out) {
            let (src, dst) = if direction == Direction::Out { (here, peer) } else { (peer, here) };
            let template = Template {
                src,
                dst,
                spi: 0,
                protocol: 50,
                mode: Mode::Tunnel,
                reqid: i + 1,
                optional: false,
            };
            self.push(direction, selector, Action::Allow, vec![template], DEFAULT);
        }
    }

    /// A policy without tunnel, for packets that leave and for those that come back.
    fn each_way(&mut self, action: Action, class: u32, out: &Selector) {
        for (direction, selector) in ways(out) {
            self.push(direction, selector, action, Vec::new(), class);
        }
    }

    fn push(
        &mut self,
        direction: Direction,
        selector: Selector,
        action: Action,
        templates: Vec<Template>,
        class: u32,
    ) {
        let priority = priority(&selector, class);
        // As the kernel numbers policies: the direction below, a count above.
        let index = (self.policies.len() as u32 + 1) << 3 | direction as u32;
        let mark = Mark::default();
        let config = PolicyConfig {
            index,
            direction,
            selector,
            priority,
            action,
            flags: PolicyFlags::default(),
            templates,
            mark,
            if_id: 0,
        };
        self.policies.push(config);
    }
}

/// The selectors of the three directions.
fn ways(out: &Selector) -> [(Direction, Selector); 3] {
    let back = Selector {
        src: out.dst,
        dst: out.src,
        src_port: out.dst_port,
        dst_port: out.src_port,
        ..*out
    };
    [(Direction::Out, *out), (Direction::In, back), (Direction::Forward, back)]
}

/// strongSwan's priority: the more a selector asks for, the earlier. Network bits count 512 each,
/// the protocol 256, port bits 4, the interface 2; traps come after the policy of their tunnel.
fn priority(s: &Selector, class: u32) -> u32 {
    let networks = u32::from(s.src.len) + u32::from(s.dst.len);
    let port_bits = s.src_port.mask.count_ones() + s.dst_port.mask.count_ones();
    let (protocol, interface) = (u32::from(s.protocol != 0), u32::from(s.ifindex != 0));
    class - (networks << 9 | protocol << 8 | port_bits << 2 | interface << 1 | 1)
}

fn ports(
    protocol: u8,
    (src_port, src_mask): (u16, u16),
    (dst_port, dst_mask): (u16, u16),
    src: Prefix,
    dst: Prefix,
) -> Selector {
    Selector {
        protocol,
        src_port: PortMask { value: src_port, mask: src_mask },
        dst_port: PortMask { value: dst_port, mask: dst_mask },
        ..Selector::between(src, dst)
    }
}

fn packet(src: IpAddr, dst: IpAddr, protocol: u8, src_port: u16, dst_port: u16) -> Headers {
    Headers {
        src,
        dst,
        protocol,
        ttl: 64,
        traffic_class: 0,
        dont_fragment: false,
        fragment: Fragment::Whole,
        header_len: 20,
        total_len: 512,
        src_port,
        dst_port,
    }
}

fn addr(bits: u32) -> IpAddr {
    IpAddr::V4(Ipv4Addr::from_bits(bits))
}

fn net(bits: u32, len: u8) -> Prefix {
    Prefix { addr: addr(bits), len }
}

/// Behind the gateway: 172.16.0.0.
const CENTRE: u32 = 0xac10_0000;
/// Virtual addresses of clients: from 100.64.0.0 on (RFC 6598).
const CLIENTS: u32 = 0x6440_0000;
/// Networks of sites: from 10.0.0.0 on.
const SITES: u32 = 0x0a00_0000;
/// The gateway's outer address: 198.18.0.1 (RFC 2544).
const GATEWAY: u32 = 0xc612_0001;
/// Outer addresses of peers: from 20.0.0.0 on.
const PEERS: u32 = 0x1400_0000;
/// Where nobody is: 192.88.0.0/16.
const STRANGERS: u32 = 0xc058_0000;

/// Classes of priorities: policies that pass, those of tunnels, the rest.
const PASS: u32 = 200_000;
const DEFAULT: u32 = 400_000;
const FALLBACK: u32 = 600_000;
