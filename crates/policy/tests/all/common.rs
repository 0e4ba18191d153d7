//! Packets, SAs and policies to test with.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crypto::{AesKey, IcvLen, Suite};
use esp::{Mode, Protocol, SaFlags, SaParams};
use policy::{
    Action, Direction, Mark, PolicyConfig, PolicyFlags, Prefix, SaConfig, Selector, Template,
    VolumeLimits,
};
use wire::{Fragment, Headers};

pub const ESP: u8 = 50;
pub const TCP: u8 = 6;
pub const UDP: u8 = 17;

/// The address 10.0.0.n.
pub fn v4(n: u8) -> IpAddr {
    Ipv4Addr::new(10, 0, 0, n).into()
}

/// The address 2001:db8::n.
pub fn v6(n: u16) -> IpAddr {
    Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, n).into()
}

pub fn any4() -> IpAddr {
    Ipv4Addr::UNSPECIFIED.into()
}

pub fn headers(src: IpAddr, dst: IpAddr, protocol: u8, src_port: u16, dst_port: u16) -> Headers {
    Headers {
        src,
        dst,
        protocol,
        ttl: 64,
        traffic_class: 0,
        dont_fragment: false,
        fragment: Fragment::Whole,
        header_len: 20,
        total_len: 100,
        src_port,
        dst_port,
    }
}

/// A selector for everything of IPv4.
pub fn everything() -> Selector {
    let all = Prefix { addr: any4(), len: 0 };
    Selector::between(all, all)
}

/// A selector for one host each way.
pub fn hosts(src: IpAddr, dst: IpAddr) -> Selector {
    let prefix = |addr: IpAddr| Prefix { addr, len: if addr.is_ipv4() { 32 } else { 128 } };
    Selector { src: prefix(src), dst: prefix(dst), ..everything() }
}

/// A tunnel SA from 10.0.0.1 to `dst`.
pub fn sa(dst: IpAddr, spi: u32) -> SaConfig {
    SaConfig {
        params: SaParams {
            spi,
            src: v4(1),
            dst,
            protocol: Protocol::Esp,
            mode: Mode::Tunnel,
            suite: Suite::AesGcm { key: AesKey::Aes128, icv: IcvLen::Icv16 },
            encap: None,
            esn: false,
            replay_window: 32,
            tfc_pad_len: 0,
            flags: SaFlags::default(),
        },
        mark: Mark::default(),
        if_id: 0,
        reqid: 1,
        selector: None,
        iptfs: None,
        set_mark: Mark::default(),
        cpu: None,
        limits: VolumeLimits::NONE,
        added_s: 100,
        generation: u64::from(spi),
    }
}

/// The template of [`sa`] to `dst`.
pub fn template(dst: IpAddr) -> Template {
    Template {
        src: v4(1),
        dst,
        spi: 0,
        protocol: ESP,
        mode: Mode::Tunnel,
        reqid: 1,
        optional: false,
    }
}

/// A bypass policy for everything.
pub fn policy(index: u32, direction: Direction, priority: u32) -> PolicyConfig {
    PolicyConfig {
        index,
        direction,
        selector: everything(),
        priority,
        action: Action::Allow,
        flags: PolicyFlags::default(),
        templates: Vec::new(),
        mark: Mark::default(),
        if_id: 0,
    }
}
