//! SAs for tests.

use core::net::IpAddr;

use crypto::{AesKey, IcvLen, Keys, Suite};
use esp::SaParams;
use policy::SaConfig;

pub const GCM: Suite = Suite::AesGcm { key: AesKey::Aes128, icv: IcvLen::Icv16 };

/// An SA that asks for nothing special.
pub fn config(suite: Suite, src: IpAddr, dst: IpAddr, spi: u32) -> SaConfig {
    let params = SaParams { replay_window: 64, ..SaParams::tunnel(suite, spi, (src, dst)) };
    SaConfig { reqid: 7, ..SaConfig::plain(params) }
}

/// Keys that differ by number.
pub fn keys(suite: Suite, number: u32) -> Keys {
    let mut cipher: Vec<u8> = (1..).take(suite.cipher_key_len_bytes()).collect();
    cipher[..4].copy_from_slice(&number.to_be_bytes());
    Keys { cipher, salt: vec![2, 3, 5, 7], auth: Vec::new() }
}
