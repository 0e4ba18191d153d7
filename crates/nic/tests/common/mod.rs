//! SAs for tests.

use core::net::IpAddr;

use crypto::{AesKey, IcvLen, Keys, Suite};
use esp::{Mode, Protocol, SaFlags, SaParams};
use policy::{Mark, SaConfig, VolumeLimits};

pub const GCM: Suite = Suite::AesGcm { key: AesKey::Aes128, icv: IcvLen::Icv16 };

/// An SA that asks for nothing special.
pub fn config(suite: Suite, src: IpAddr, dst: IpAddr, spi: u32) -> SaConfig {
    SaConfig {
        params: SaParams {
            spi,
            src,
            dst,
            protocol: Protocol::Esp,
            mode: Mode::Tunnel,
            suite,
            encap: None,
            esn: false,
            replay_window: 64,
            tfc_pad_len: 0,
            flags: SaFlags::default(),
        },
        mark: Mark::default(),
        if_id: 0,
        reqid: 7,
        selector: None,
        set_mark: Mark::default(),
        cpu: None,
        limits: VolumeLimits::NONE,
        added_s: 0,
        generation: 0,
    }
}

/// Keys that differ by number.
pub fn keys(suite: Suite, number: u32) -> Keys {
    let mut cipher: Vec<u8> = (1..).take(suite.cipher_key_len_bytes()).collect();
    cipher[..4].copy_from_slice(&number.to_be_bytes());
    Keys { cipher, salt: vec![2, 3, 5, 7], auth: Vec::new() }
}
