//! A gateway behind the offload interface, with SAs and policies of every kind, and the software twins of all of
//! them.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use crypto::Suite;
use esp::Mode;
use offload::{Device, Live, NewPolicy, NewSa, Queue, SaDirection, SaHandle};
use policy::{
    Action, Direction, Mark, PolicyConfig, PolicyFlags, PortMask, Prefix, SaConfig, Selector,
    Template, VolumeLimits,
};
use rtl::{GatewayDevice, SharedSimulation, Simulation};

use crate::packets::Random;
use crate::software::{Policies, Software};
use crate::world::{Pair, Tunnel, here, reqid, suites, there};

/// The UDP port that passes in clear, the TCP port that is never let through, and the UDP port that
/// goes by another SA than its network does.
pub const BYPASS_PORT: u16 = 500;
pub const DISCARD_PORT: u16 = 9;
pub const OTHER_PORT: u16 = 4433;

/// Decision of a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    Discard,
    Bypass,
    /// Through the SAs of this tunnel.
    Tunnel(usize),
}

/// The data path's part: a device and its queue. `gateway` is to look on, and to disturb.
pub struct Offloaded {
    pub gateway: SharedSimulation,
    pub device: Box<dyn Device<Vec<u8>>>,
    pub queue: Box<dyn Queue<Vec<u8>>>,
    pub software: Software,
    pub policies: Policies,
    pub tunnels: Vec<Tunnel<SaHandle>>,
    pub random: Random,
    /// Decisions of the policies, by their index.
    pub decisions: BTreeMap<u32, Decision>,
}

impl Offloaded {
    /// Every suite in both modes, with both versions outside, with and without extended numbers.
    pub fn with_tunnels(seed: u64) -> Offloaded {
        let gateway = Arc::new(Mutex::new(Simulation::new()));
        // Every third priority gives way.
        let device =
            GatewayDevice::new(Arc::clone(&gateway), |policy| policy.priority.is_multiple_of(3));
        let mut device: Box<dyn Device<Vec<u8>>> = Box::new(device.unwrap());
        let queue = device.queue().unwrap();
        let mut world = Offloaded {
            gateway,
            device,
            queue,
            software: Software::new(),
            policies: Policies::new(),
            tunnels: Vec::new(),
            random: Random(seed),
            decisions: BTreeMap::new(),
        };
        for suite in suites() {
            for shape in 0..8 {
                let mode = if shape & 1 == 0 { Mode::Tunnel } else { Mode::Transport };
                world.add_tunnel(suite, mode, shape & 2 != 0, shape & 4 != 0);
            }
        }
        for number in 0..world.tunnels.len() {
            world.add_networks(number);
        }
        world.add_ports();
        world
    }

    fn add_tunnel(&mut self, suite: Suite, mode: Mode, v6: bool, esn: bool) {
        let number = self.tunnels.len() as u8;
        let pair = Pair::new(number, suite, mode, v6, esn, &mut self.random);
        let device = &mut self.device;
        let tunnel = pair.tunnel(&mut self.software, |is_inbound, params, keys| {
            let direction = if is_inbound { SaDirection::Inbound } else { SaDirection::Outbound };
            let config = SaConfig {
                params: params.clone(),
                mark: Mark::default(),
                if_id: 0,
                reqid: reqid(number).into(),
                selector: None,
                iptfs: None,
                set_mark: Mark::default(),
                cpu: None,
                limits: VolumeLimits::NONE,
                added_s: 0,
                generation: 0,
            };
            let start = &Live::default();
            device.put_sa(NewSa { direction, config: &config, keys, start }).unwrap()
        });
        self.tunnels.push(tunnel);
    }

    /// A policy in the device and in software; both directions of one selector.
    fn add_policy(&mut self, outbound: Selector, priority: u32, decision: Decision) {
        let inbound = Selector {
            src: outbound.dst,
            dst: outbound.src,
            src_port: outbound.dst_port,
            dst_port: outbound.src_port,
            ..outbound
        };
        for (direction, selector) in [(Direction::Out, outbound), (Direction::In, inbound)] {
            let index = self.decisions.len() as u32 + 1;
            let template = |number: usize| {
                let params = self.tunnels[number].receiver.params();
                Template {
                    src: params.src,
                    dst: params.dst,
                    spi: 0,
                    protocol: 50,
                    mode: params.mode,
                    reqid: reqid(number as u8).into(),
                    optional: false,
                }
            };
            let (action, templates, sa) = match decision {
                Decision::Discard => (Action::Block, vec![], None),
                Decision::Bypass => (Action::Allow, vec![], None),
                Decision::Tunnel(number) => {
                    let sa = (direction == Direction::Out).then_some(self.tunnels[number].out);
                    (Action::Allow, vec![template(number)], sa)
                }
            };
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
            self.device.put_policy(NewPolicy { config: &config, sa }).unwrap();
            self.policies.add(config);
            self.decisions.insert(index, decision);
        }
    }

    /// The networks behind a tunnel: of both versions in tunnel mode.
    fn add_networks(&mut self, number: usize) {
        let tunnel = &self.tunnels[number];
        let (mode, own) = (tunnel.mode, tunnel.v6);
        for v6 in [false, true] {
            if mode == Mode::Transport && v6 != own {
                continue;
            }
            let net = Prefix { addr: there(number as u8, v6), len: if v6 { 64 } else { 24 } };
            let selector = Selector::between(any(v6), net);
            self.add_policy(selector, 1000 + number as u32, Decision::Tunnel(number));
        }
    }

    /// Policies by protocol and port, over the networks; and those that lie under them.
    fn add_ports(&mut self) {
        for v6 in [false, true] {
            let port = |protocol, value| Selector {
                protocol,
                dst_port: PortMask { value, mask: u16::MAX },
                ..Selector::between(any(v6), any(v6))
            };
            self.add_policy(port(17, BYPASS_PORT), 10, Decision::Bypass);
            self.add_policy(port(6, DISCARD_PORT), 11, Decision::Discard);
            // From each tunnel's host to one port: by the first tunnel, whichever network it is.
            for number in (0..self.tunnels.len() as u8).step_by(5) {
                let host = Prefix { addr: here(number, v6), len: if v6 { 128 } else { 32 } };
                let from_host = Selector { src: host, ..port(17, OTHER_PORT) };
                self.add_policy(from_host, 100 + u32::from(number), Decision::Tunnel(0));
            }
            // Wider than every network: their remainder is discarded.
            let wide = Prefix { addr: there(0, v6), len: if v6 { 48 } else { 16 } };
            self.add_policy(Selector::between(any(v6), wide), 5000, Decision::Discard);
        }
    }
}

fn any(v6: bool) -> Prefix {
    let addr: IpAddr = if v6 { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() };
    Prefix { addr, len: 0 }
}
