//! SAs, policies and interfaces for tests.

use std::net::{IpAddr, Ipv4Addr};

use crypto::{AesKey, IcvLen, Keys, Suite};
use esp::{Mode, Protocol, SaFlags, SaParams};
use mirror::{Link, XfrmInterface};
use policy::{
    Action, Direction, Mark, PolicyConfig, PolicyFlags, Prefix, SaConfig, Selector, Template,
    VolumeLimits,
};

/// Address of this host.
pub const HERE: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
/// Address of the peer.
pub const THERE: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 2));

/// A tunnel's SA with AES-GCM, for [`keys`].
pub fn config(spi: u32, (src, dst): (IpAddr, IpAddr), reqid: u32) -> SaConfig {
    let params = SaParams {
        spi,
        src,
        dst,
        protocol: Protocol::Esp,
        mode: Mode::Tunnel,
        suite: Suite::AesGcm { key: AesKey::Aes128, icv: IcvLen::Icv16 },
        encap: None,
        esn: false,
        replay_window: 32,
        tfc_pad_len: 0,
        flags: SaFlags::default(),
    };
    SaConfig {
        params,
        mark: Mark::default(),
        set_mark: Mark::default(),
        if_id: 0,
        reqid,
        cpu: None,
        selector: None,
        iptfs: None,
        limits: VolumeLimits::NONE,
        added_s: 1,
        generation: spi.into(),
    }
}

/// Keys for AES-GCM with 128 bits.
pub fn keys() -> Keys {
    Keys { cipher: vec![1; 16], salt: vec![2; 4], auth: Vec::new() }
}

/// A template for ESP by a tunnel between these ends.
pub fn template((src, dst): (IpAddr, IpAddr), reqid: u32) -> Template {
    Template { src, dst, spi: 0, protocol: 50, mode: Mode::Tunnel, reqid, optional: false }
}

/// A policy that protects 10.0.0.0/8 by tunnels between these ends, one after the other.
pub fn policy(
    index: u32,
    direction: Direction,
    ends: (IpAddr, IpAddr),
    reqids: &[u32],
) -> PolicyConfig {
    let all = Prefix { addr: [10, 0, 0, 0].into(), len: 8 };
    PolicyConfig {
        index,
        direction,
        selector: Selector::between(all, all),
        priority: 1,
        action: Action::Allow,
        templates: reqids.iter().map(|reqid| template(ends, *reqid)).collect(),
        flags: PolicyFlags::default(),
        mark: Mark::default(),
        if_id: 0,
    }
}

/// An XFRM interface that is up.
pub fn xfrm_interface(index: u32, if_id: u32) -> Link {
    Link {
        index,
        name: format!("ipsec{if_id}"),
        mtu: 1400,
        up: true,
        running: true,
        kind: Some("xfrm".into()),
        lower: Some(2),
        xfrm: Some(XfrmInterface::IfId(if_id)),
        ..Link::default()
    }
}
