//! The look-up of policies: by shapes of selectors, so that it does not hang on how many policies there are.

use core::net::IpAddr;
use std::collections::HashMap;

use offload::PolicyHandle;
use policy::{Direction, PolicyConfig, Prefix, Selector};
use wire::Headers;

/// Which bits of a packet a selector compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Shape {
    direction: Direction,
    is_v4: bool,
    src_len: u8,
    dst_len: u8,
    has_protocol: bool,
    /// Masks of the ports: 0 or all bits.
    ports: (u16, u16),
}

/// Bits of a packet that a shape compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key {
    src: u128,
    dst: u128,
    protocol: u8,
    ports: (u16, u16),
}

/// A policy's place among those with its key: the smallest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    priority: u32,
    age: u64,
}

/// The policies with one key, in their order.
type Chain = Vec<(Rank, PolicyHandle)>;

/// The policies of both directions.
#[derive(Debug, Default)]
pub struct Policies {
    shapes: Vec<(Shape, HashMap<Key, Chain>)>,
    next_age: u64,
}

impl Policies {
    /// Adds a policy.
    pub fn add(&mut self, handle: PolicyHandle, config: &PolicyConfig) {
        self.next_age += 1;
        let rank = Rank { priority: config.priority, age: self.next_age };
        let (shape, key) = (Shape::of(config), Key::of_selector(&config.selector));
        let at = match self.shapes.iter().position(|(other, _)| *other == shape) {
            Some(at) => at,
            None => {
                self.shapes.push((shape, HashMap::new()));
                self.shapes.len() - 1
            }
        };
        if let Some((_, table)) = self.shapes.get_mut(at) {
            let chain = table.entry(key).or_default();
            let place = chain.partition_point(|(other, _)| *other < rank);
            chain.insert(place, (rank, handle));
        }
    }

    /// Removes a policy that was added with this configuration.
    pub fn remove(&mut self, handle: PolicyHandle, config: &PolicyConfig) {
        let (shape, key) = (Shape::of(config), Key::of_selector(&config.selector));
        let Some(at) = self.shapes.iter().position(|(other, _)| *other == shape) else { return };
        let Some((_, table)) = self.shapes.get_mut(at) else { return };
        if let Some(chain) = table.get_mut(&key) {
            chain.retain(|(_, other)| *other != handle);
            if chain.is_empty() {
                table.remove(&key);
            }
        }
        if table.is_empty() {
            self.shapes.swap_remove(at);
        }
    }

    /// True if a policy of this direction has exactly this selector.
    pub fn has(&self, config: &PolicyConfig) -> bool {
        let (shape, key) = (Shape::of(config), Key::of_selector(&config.selector));
        self.shapes.iter().any(|(other, table)| *other == shape && table.contains_key(&key))
    }

    /// The policy that decides about a packet: of those that select it the one of the lowest priority, the oldest of
    /// several. One probe for each shape that there is.
    pub fn find(&self, direction: Direction, h: &Headers) -> Option<PolicyHandle> {
        let is_v4 = h.src.is_ipv4();
        let of = self
            .shapes
            .iter()
            .filter(|(shape, _)| (shape.direction, shape.is_v4) == (direction, is_v4));
        let first = of.filter_map(|(shape, table)| table.get(&Key::of_packet(shape, h))?.first());
        first.min_by_key(|(rank, _)| *rank).map(|(_, handle)| *handle)
    }
}

impl Shape {
    fn of(config: &PolicyConfig) -> Shape {
        let s = &config.selector;
        Shape {
            direction: config.direction,
            is_v4: s.src.addr.is_ipv4(),
            src_len: s.src.len,
            dst_len: s.dst.len,
            has_protocol: s.protocol != 0,
            ports: (s.src_port.mask, s.dst_port.mask),
        }
    }
}

impl Key {
    fn of_selector(s: &Selector) -> Key {
        let under = |Prefix { addr, len }: Prefix| masked(addr, len);
        Key {
            src: under(s.src),
            dst: under(s.dst),
            protocol: s.protocol,
            ports: (s.src_port.value & s.src_port.mask, s.dst_port.value & s.dst_port.mask),
        }
    }

    fn of_packet(shape: &Shape, h: &Headers) -> Key {
        Key {
            src: masked(h.src, shape.src_len),
            dst: masked(h.dst, shape.dst_len),
            protocol: if shape.has_protocol { h.protocol } else { 0 },
            ports: (h.src_port & shape.ports.0, h.dst_port & shape.ports.1),
        }
    }
}

/// The bits of an address that a prefix of this length compares.
fn masked(addr: IpAddr, len: u8) -> u128 {
    let (bits, width) = match addr {
        IpAddr::V4(addr) => (u128::from(addr.to_bits()), 32),
        IpAddr::V6(addr) => (addr.to_bits(), 128),
    };
    let host_len = width - u32::from(len).min(width);
    // All of 128 bits: nothing is compared.
    bits.checked_shr(host_len).unwrap_or(0)
}
