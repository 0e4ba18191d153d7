//! What tests of both sources share.

use std::net::{IpAddr, Ipv4Addr};

use crypto::{AesKey, IcvLen, Keys, Suite};
use esp::{Mode, Protocol, SaFlags, SaParams};
use policy::{Mark, SaConfig, VolumeLimits};

/// This host.
pub const HERE: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
/// The peer.
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
        limits: VolumeLimits::NONE,
        added_s: 1,
        generation: spi.into(),
    }
}

/// Keys for AES-GCM with 128 bits.
pub fn keys() -> Keys {
    Keys { cipher: vec![1; 16], salt: vec![2; 4], auth: Vec::new() }
}
