//! How parts of SAs and policies are shown.

use esp::{Mode, Protocol, SaParams};
use policy::{Direction, PortMask, Prefix, Selector};

use config::{TunnelConfig, or_any};
use report::protocol;

/// An SPI in hexadecimal.
pub fn spi_text(spi: u32) -> String {
    format!("{spi:#010x}")
}

/// An SA's algorithms.
pub fn suite_text(params: &SaParams) -> String {
    match params.protocol {
        Protocol::Esp => params.suite.to_string(),
        // That there is no encryption says the protocol.
        Protocol::Ah => params.suite.to_string().trim_start_matches("null-").to_owned(),
        Protocol::IpComp => "deflate".to_owned(),
        Protocol::IpInV4 | Protocol::IpInV6 => params.suite.to_string(),
    }
}

/// A policy's direction, as `ip xfrm policy` says it.
pub fn direction_text(direction: Direction) -> String {
    match direction {
        Direction::In => "in",
        Direction::Out => "out",
        Direction::Forward => "fwd",
    }
    .into()
}

/// An SA's mode.
pub const fn mode_text(mode: Mode) -> &'static str {
    match mode {
        Mode::Tunnel => "tunnel",
        Mode::Transport => "transport",
        Mode::Iptfs => "iptfs",
    }
}

/// A mark, where there is one.
pub fn mark_text(mark: policy::Mark) -> Option<String> {
    (mark.mask != 0).then(|| format!("{:#x}/{:#x}", mark.value, mark.mask))
}

/// The protocol of a selector; 0 stands for all.
pub fn selected_protocol(number: u8) -> String {
    if number == 0 { "any".into() } else { protocol::name(number) }
}

/// One end of a selector.
pub fn end_text(prefix: Prefix, port: PortMask) -> String {
    match port.mask {
        0 => format!("{}/{}", prefix.addr, prefix.len),
        u16::MAX => format!("{}/{} port {}", prefix.addr, prefix.len, port.value),
        mask => format!("{}/{} port {:#x}/{mask:#x}", prefix.addr, prefix.len, port.value),
    }
}

/// A selector, in one line.
pub fn selector_text(selector: &Selector) -> String {
    let Selector { src, src_port, dst, dst_port, protocol, .. } = selector;
    let (src, dst) = (end_text(*src, *src_port), end_text(*dst, *dst_port));
    format!("{src} > {dst}, {}", selected_protocol(*protocol))
}

/// SAs of a tunnel interface, in words: its `if_id`, or its marks and ends.
pub fn binding_text(config: &TunnelConfig) -> String {
    let TunnelConfig { if_id, ikey, okey, local, remote, .. } = config;
    match if_id {
        0 => {
            let (local, remote) = (or_any(*local), or_any(*remote));
            format!("ikey {ikey:#x} okey {okey:#x}, {local} - {remote}")
        }
        id => format!("if_id {id:#x}"),
    }
}

/// An Ethernet address.
pub fn mac_text(mac: [u8; 6]) -> String {
    mac.map(|b| format!("{b:02x}")).join(":")
}
