//! SAs one inside the other in the random tests of flows ([`crate::flows`]): what these need to know of them.

use esp::Mode;
use policy::{Direction, Prefix, SaConfig, SaId, Selector, VolumeLimits};
use proptest::prelude::*;
use wire::{Fragment, parse_ip, protocol};

use crate::kinds::Kind;
use crate::nested::{
    AH_TRANSPORT, AH_TUNNEL, COMP_TRANSPORT, COMP_TUNNEL, ESP_TRANSPORT, ESP_TUNNEL, Layer,
    add_policies, configs, templates,
};
use crate::support::{Gateway, Side, Sizes, Spec, ip, make_sa, policy};

const STACKS: [&[Layer]; 7] = [
    &[ESP_TUNNEL, AH_TRANSPORT],
    &[ESP_TRANSPORT, AH_TRANSPORT],
    &[AH_TUNNEL, ESP_TRANSPORT],
    &[COMP_TUNNEL, ESP_TRANSPORT],
    &[COMP_TRANSPORT, ESP_TRANSPORT],
    &[COMP_TUNNEL, ESP_TRANSPORT, AH_TRANSPORT],
    &[ESP_TUNNEL, ESP_TRANSPORT, AH_TRANSPORT],
];

/// SAs one inside the other, the innermost first, and the peer's gateway, which has the same.
pub struct Layers {
    pub stack: Stack,
    limits: VolumeLimits,
    peer: Gateway,
    /// Packets that the peer sent last.
    last: Vec<Vec<u8>>,
}

/// Layers that protect a packet.
#[derive(Clone, Copy, Debug)]
pub struct Stack {
    layers: &'static [Layer],
    esn: bool,
    outer_v6: bool,
    inner_v6: bool,
}

impl Stack {
    /// Any stack of layers.
    pub fn any() -> impl Strategy<Value = Stack> {
        let layers = prop::sample::select(&STACKS[..]);
        (layers, any::<[bool; 3]>()).prop_map(|(layers, [esn, outer_v6, other])| {
            // Transport mode is between hosts of one family.
            let inner_v6 = other && layers[0].mode == Mode::Tunnel || outer_v6;
            Stack { layers, esn, outer_v6, inner_v6 }
        })
    }

    /// A kind of SA for what is the same with one.
    pub fn kind(self) -> Kind {
        let is_tunnel = self.layers.iter().any(|layer| layer.mode == Mode::Tunnel);
        let mode = if is_tunnel { Mode::Tunnel } else { Mode::Transport };
        let spec = Spec { mode, outer_v6: self.outer_v6, ..Spec::default() };
        Kind { spec, inner_v6: self.inner_v6, by_linux: false }
    }

    /// True if a packet from the peer that is too short to be compressed comes through one SA alone, and so
    /// has a flow.
    pub fn is_one_when_short(self) -> bool {
        matches!(self.layers, [comp, _] if *comp == COMP_TRANSPORT)
    }

    fn layers(self) -> Vec<Layer> {
        self.layers
            .iter()
            .map(|layer| Layer { esn: self.esn && !layer.protocol.is_bare(), ..*layer })
            .collect()
    }

    fn configs(self) -> Vec<SaConfig> {
        configs(&self.layers(), self.outer_v6)
    }
}

impl Layers {
    pub fn new(stack: Stack, limits: VolumeLimits) -> Layers {
        let sizes = Sizes { chunks: 2048, stock: 1024, port_limit: 256 };
        let mut peer = Gateway::with_sizes(Side::B, sizes);
        // It sends everything, also what is no packet of ours.
        for v6 in [false, true] {
            let any = Prefix { addr: ip(if v6 { "::" } else { "0.0.0.0" }), len: 0 };
            let templates = templates(&stack.layers(), Side::B, stack.outer_v6);
            let selector = Selector::between(any, any);
            peer.db.put_policy(policy(1 + u32::from(v6), Direction::Out, selector, templates));
        }
        let mut layers = Layers { stack, limits: VolumeLimits::NONE, peer, last: vec![] };
        layers.add_sas_to_peer(1);
        Layers { limits, ..layers }
    }

    pub fn add_policies(&self, gateway: &mut Gateway) {
        add_policies(gateway, &self.stack.layers(), self.stack.outer_v6);
    }

    /// New SAs in place of the old ones, if there are any, at both ends.
    pub fn rekey(&mut self, gateway: &mut Gateway, generation: u64) {
        for config in self.stack.configs() {
            let config = SaConfig { generation, limits: self.limits, ..config };
            let sa = make_sa(&config.params);
            gateway.db.replace_sa(config, sa);
        }
        self.add_sas_to_peer(generation);
    }

    fn add_sas_to_peer(&mut self, generation: u64) {
        for config in self.stack.configs() {
            let sa = make_sa(&config.params);
            self.peer.db.replace_sa(SaConfig { generation, ..config }, sa);
        }
    }

    pub fn ids(&self) -> Vec<SaId> {
        self.stack.configs().iter().map(SaConfig::id).collect()
    }

    /// A packet as the peer sends it; none to have what it sent last once more.
    pub fn seal(&mut self, packet: Option<&[u8]>) -> Vec<Vec<u8>> {
        if let Some(packet) = packet {
            self.peer.put_linux(packet);
            self.peer.run();
            self.last = self.peer.wan_out();
        }
        self.last.clone()
    }

    /// True if a packet is an SA's, as far as its first header tells.
    pub fn is_protected(packet: &[u8]) -> bool {
        let h = parse_ip(packet).expect("packet");
        let protocols = [protocol::ESP, protocol::AH, protocol::IPCOMP];
        protocols.contains(&h.protocol) || h.fragment == Fragment::Later
    }

    /// A packet without what depends on its numbers: its outer header remains.
    pub fn without_numbers(packet: &mut Vec<u8>) {
        let h = parse_ip(packet).expect("packet");
        packet.truncate(h.header_len.into());
    }
}
