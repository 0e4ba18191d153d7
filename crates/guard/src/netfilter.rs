//! Barriers for IPv6, as nftables rules.

use core::fmt::Write as _;
use std::collections::HashSet;
use std::io::Write as _;
use std::process::{Command, Stdio};

use policy::{Direction, PortMask};

use crate::barrier::{Barrier, Effect};
use crate::direction_number;

/// The whole table as one transaction: nft replaces it at once, or leaves it as it is.
///
/// A chain for each question that XFRM would ask: a forwarded packet has to pass the forward and
/// the out policies, one after the other, and what one chain lets pass the other may still stop.
/// IKE is spared where this host itself speaks it.
pub(crate) fn ruleset(instance: &str, tun: &str, barriers: &HashSet<Barrier>) -> String {
    let table = format!("ip6 culvert-guard-{instance}");
    // Declared first, so that deleting it does not fail where it is not there.
    let mut text = format!("table {table} {{}}\ndelete table {table}\n");
    let mut rules: Vec<&Barrier> = barriers.iter().filter(|b| b.is_netfilter()).collect();
    if rules.is_empty() {
        return text;
    }
    rules.sort_by_key(|b| (b.priority(), b.to_string()));
    let lines = |direction| -> String {
        let of_direction = rules.iter().filter(|b| b.direction() == direction_number(direction));
        of_direction.map(|b| rule(b)).collect()
    };
    let from = format!("iifname {{ \"lo\", \"{tun}\" }} accept");
    let to = format!("oifname {{ \"lo\", \"{tun}\" }} accept");
    let chains = [
        ("local", "output", &to, "udp sport { 500, 4500 } accept", Direction::Out),
        ("forwarded", "forward", &to, "", Direction::Out),
        ("arrived", "input", &from, "udp dport { 500, 4500 } accept", Direction::In),
        ("passing", "forward", &from, "", Direction::Forward),
    ];
    text.push_str(&format!("table {table} {{\n"));
    for (name, hook, spared, ike, direction) in chains {
        text.push_str(&format!(
            "  chain {name} {{\n    type filter hook {hook} priority filter; policy accept;\n    \
             {spared}\n    {DISCOVERY}\n    {ike}\n{}  }}\n",
            lines(direction)
        ));
    }
    text.push_str("}\n");
    text
}

/// Neighbour discovery (RFC 4861), which no barrier may stop: without it no peer is reached.
const DISCOVERY: &str = "icmpv6 type { 133, 134, 135, 136, 137 } accept";

fn rule(barrier: &Barrier) -> String {
    let s = barrier.selector();
    let mut line = String::from("   ");
    if let (value, mask @ 1..) = barrier.mark() {
        let _ = write!(line, " meta mark & {mask:#x} == {value:#x}");
    }
    for (name, prefix) in [("saddr", s.src), ("daddr", s.dst)] {
        if prefix.len > 0 {
            let _ = write!(line, " ip6 {name} {}/{}", prefix.addr, prefix.len);
        }
    }
    if s.protocol != 0 {
        let _ = write!(line, " meta l4proto {}", s.protocol);
    }
    let (src, dst) = match s.protocol {
        ICMPV6 => ("icmpv6 type", "icmpv6 code"),
        _ => ("th sport", "th dport"),
    };
    for (name, PortMask { value, mask }) in [(src, s.src_port), (dst, s.dst_port)] {
        match mask {
            0 => {}
            u16::MAX => line.push_str(&format!(" {name} {value}")),
            mask => line.push_str(&format!(" {name} & {mask:#x} == {value:#x}")),
        }
    }
    line.push_str(match barrier.effect() {
        Effect::Block => " drop\n",
        Effect::Pass => " accept\n",
    });
    line
}

/// Hands a ruleset to `nft`.
pub(crate) fn apply(ruleset: &str) -> Result<(), String> {
    let mut child = Command::new("nft")
        .args(["-f", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|e| e.to_string())?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(ruleset.as_bytes()).map_err(|e| e.to_string())?;
    }
    let output = child.wait_with_output().map_err(|e| e.to_string())?;
    match output.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
    }
}

const ICMPV6: u8 = 58;
