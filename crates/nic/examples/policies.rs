//! Cost of a look-up of the device's policies, by how many there are:
//! `cargo run --release -p culvert-nic --example policies`.

use core::hint::black_box;
use core::net::{IpAddr, Ipv4Addr};
use std::time::Instant;

use esp::Mode;
use nic::Policies;
use offload::PolicyHandle;
use policy::{Action, Direction, Mark, PolicyConfig, PolicyFlags, Prefix, Selector, Template};
use wire::{Fragment, Headers};

/// The network behind a peer, and what is sent there.
fn net(number: u32) -> IpAddr {
    IpAddr::V4(Ipv4Addr::from_bits(0x0a00_0000 + (number << 6)))
}

fn policy(number: u32) -> PolicyConfig {
    let here = Prefix { addr: IpAddr::V4(Ipv4Addr::new(172, 16, 0, 0)), len: 12 };
    // Three shapes.
    let there = Prefix { addr: net(number), len: 26 + (number % 3) as u8 };
    let ends = (IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), net(number));
    PolicyConfig {
        index: number + 1,
        direction: Direction::Out,
        selector: Selector::between(here, there),
        priority: 100,
        action: Action::Allow,
        templates: vec![Template {
            src: ends.0,
            dst: ends.1,
            spi: 0,
            protocol: 50,
            mode: Mode::Tunnel,
            reqid: number + 1,
            optional: false,
        }],
        flags: PolicyFlags::default(),
        mark: Mark::default(),
        if_id: 0,
    }
}

fn headers(dst: IpAddr) -> Headers {
    Headers {
        src: IpAddr::V4(Ipv4Addr::new(172, 16, 0, 1)),
        dst,
        protocol: 17,
        ttl: 64,
        traffic_class: 0,
        dont_fragment: false,
        fragment: Fragment::Whole,
        header_len: 20,
        total_len: 100,
        src_port: 1,
        dst_port: 2,
    }
}

const LOOK_UPS: u32 = 100_000;
const ROUNDS: usize = 10;

fn main() {
    println!("policies   put, ns   look-up at random, ns");
    for count in [10, 100, 1000, 10_000, 100_000] {
        let configs: Vec<PolicyConfig> = (0..count).map(policy).collect();
        let mut policies = Policies::default();
        let begin = Instant::now();
        for (number, config) in configs.iter().enumerate() {
            policies.add(PolicyHandle(number as u32), config);
        }
        let put_ns = begin.elapsed().as_nanos() / u128::from(count);
        // Of several rounds the one that was disturbed least.
        let look_up_ns = (0..ROUNDS).map(|_| look_up_ns(&policies, count)).min().unwrap_or(0);
        println!("{count:8} {put_ns:9} {look_up_ns:23}");
    }
}

fn look_up_ns(policies: &Policies, count: u32) -> u128 {
    let begin = Instant::now();
    let mut number = 1_u32;
    for _ in 0..LOOK_UPS {
        number = number.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let found = policies.find(Direction::Out, &headers(net((number >> 8) % count)));
        assert!(black_box(found).is_some());
    }
    begin.elapsed().as_nanos() / u128::from(LOOK_UPS)
}
