//! Where a session of `bfdd` stands in Linux's tables: its address here, its interface, and why it cannot be had.

use std::net::IpAddr;

use bfd::dplane::Peer;
use dataplane::{BfdSession, is_link_local};
use mirror::{Prefix, Snapshot};

/// Shortest interval that is had, in microseconds: a packet a millisecond.
const MIN_INTERVAL_US: u32 = 1000;

/// Linux's tables, in what sessions need of them.
#[derive(Clone, Copy)]
pub struct Places<'l> {
    /// Interfaces and addresses.
    pub snapshot: &'l Snapshot,
    /// True for the index of an interface that workers send by.
    pub leaves_by: &'l dyn Fn(u32) -> bool,
}

/// The session as a worker has it.
///
/// # Errors
/// The reason that there is none.
pub fn place(peer: &Peer, source_port: u16, places: Places<'_>) -> Result<BfdSession, String> {
    if let Some(lacks) = peer.lacks {
        return Err(format!("{lacks} is not carried out by culvert"));
    }
    let shortest = peer.settings.min_tx.min(peer.settings.min_rx);
    if shortest < MIN_INTERVAL_US {
        return Err(format!(
            "an interval of {shortest} us; {MIN_INTERVAL_US} us is the shortest of culvert"
        ));
    }
    if peer.dst.is_unspecified() || peer.dst.is_multicast() {
        return Err(format!("{} is no address of a peer", peer.dst));
    }
    // Routes alone do not say by which interface such a peer is reached. FRR 10.3 leaves it out of sessions that are older
    // than culvert's connection.
    let ifindex = match peer.ifindex {
        0 if is_link_local(peer.dst) => interface_with(peer.src, places).unwrap_or(0),
        ifindex => ifindex,
    };
    if is_link_local(peer.dst) && !(places.leaves_by)(ifindex) {
        return Err(
            "a link-local peer behind no port of culvert, tunnel interface or overlay".into()
        );
    }
    let local = match peer.src.is_unspecified() {
        true => address_towards(peer.dst, peer.ifindex, places.snapshot)
            .ok_or("no address of this host is on a link with the peer; name a local-address")?,
        false => peer.src,
    };
    let min_ttl = if peer.is_multi_hop { peer.min_ttl } else { bfd::TTL };
    Ok(BfdSession {
        settings: peer.settings,
        local,
        far: peer.dst,
        is_multi_hop: peer.is_multi_hop,
        min_ttl,
        source_port,
        ifindex,
        hold_ns: u64::from(peer.hold_ms) * 1_000_000,
    })
}

/// The interface that workers send by with an address of this host, if one alone has it.
fn interface_with(addr: IpAddr, places: Places<'_>) -> Option<u32> {
    let mut found = places
        .snapshot
        .addresses()
        .filter(|address| address.addr == addr && (places.leaves_by)(address.ifindex));
    let first = found.next()?.ifindex;
    found.next().is_none().then_some(first)
}

/// The address of this host on the link of a peer: that of the longest prefix which has both.
fn address_towards(peer: IpAddr, ifindex: u32, snapshot: &Snapshot) -> Option<IpAddr> {
    let is_of = |index: u32| ifindex == 0 || index == ifindex;
    let on_link = snapshot.addresses().filter(|address| {
        let prefix = Prefix::of(address.addr, address.prefix_len);
        is_of(address.ifindex) && !address.tentative && prefix.contains(peer)
    });
    on_link.max_by_key(|address| address.prefix_len).map(|address| address.addr)
}
