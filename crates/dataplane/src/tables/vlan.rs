//! VLANs: Linux's interfaces that lie on a port, whose frames have one or two tags.
//!
//! ```text
//!   in:   port, tags ──> the VLAN's interface: tags off; all that follows asks by that interface
//!   out:  the VLAN's slot ──> tags on, with the priority ──> the port's slot
//! ```
//!
//! A VLAN has addresses, routes, neighbours and an MTU of its own, as any interface; here is what it has beside
//! these. To be sent it has a slot as a port has one, above all slots of ports: so a port without VLANs costs
//! nothing, and the plan of a flow has room for no more than the slot.
//!
//! The bit that lets a frame be dropped first (DEI) goes from the tags of one VLAN to those of another: it is noted in
//! the packet's buffer where tags are taken off, and the slot says whether what is noted there is the packet's.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::collections::HashMap;
use std::sync::Arc;

use arrayvec::ArrayVec;
use io::Packet;
use wire::ethernet::{HEADER_LEN, MAX_TAGS, TAG_LEN, Tag};
use wire::{EthernetHeader, MacAddr, Span, VlanTags};

use crate::model::{FIRST_VLAN_SLOT, KEEPS_DEI};
use crate::tables::remark::{CodePoints, Remark};

/// The byte of a packet's buffer that is 1 if it came in drop eligible, where it came by a VLAN. No header that is
/// put in front of a packet comes so far forward: there are 128 bytes at least, and one that does is seen.
const DEI_AT: usize = 0;

/// Length of both Ethernet addresses.
const MACS_LEN: usize = 12;

/// Code points of DSCP (RFC 2474).
const DSCPS: usize = 64;

/// The priority of a tag (PCP) for each code point.
pub type Priorities = [u8; DSCPS];

/// One VLAN of one port.
#[derive(Debug)]
pub struct Vlan {
    /// Index of the VLAN's interface.
    pub ifindex: u32,
    /// The port's interface.
    pub port: u32,
    /// The port's slot.
    pub port_slot: usize,
    /// The tags of its frames, at least one.
    pub tags: VlanTags,
    /// The addresses of the interfaces that the tags stand for, the outermost first: each may have its own, and
    /// takes what is sent to the port's as well.
    pub macs: ArrayVec<MacAddr, MAX_TAGS>,
    /// The priority that each tag gets, by the packet's DSCP.
    pub priorities: ArrayVec<Priorities, MAX_TAGS>,
    /// The DSCP that what comes by it gets.
    pub remark: Option<Remark>,
    /// Counters of its frames.
    pub counters: Arc<VlanCounters>,
}

impl Vlan {
    /// True if a frame to this station is this host's.
    pub(crate) fn is_mac(&self, mac: MacAddr) -> bool {
        self.macs.contains(&mac)
    }

    /// Puts the tags into a frame that has none; false if there is no room in front of it. `slot` is that by which
    /// it was found.
    pub(crate) fn tag(&self, packet: &mut Packet, slot: usize) -> bool {
        let dei = if slot & KEEPS_DEI != 0 { came_drop_eligible(packet) } else { 0 };
        let dscp = dscp(packet.data().get(HEADER_LEN..).unwrap_or_default());
        let Span { start, len } = packet.span;
        let added = TAG_LEN * self.tags.len();
        let Some(start) = start.checked_sub(added) else { return false };
        packet.span = Span { start, len: len + added };
        let Some(header) = packet.data_mut().get_mut(..MACS_LEN + added) else { return false };
        header.copy_within(added.., 0);
        let places = header.get_mut(MACS_LEN..).unwrap_or_default().chunks_exact_mut(TAG_LEN);
        for ((Tag { tpid, tci }, priorities), place) in
            self.tags.iter().zip(&self.priorities).zip(places)
        {
            let priority = priorities.get(dscp).copied().unwrap_or(0);
            let tci = tci | u16::from(priority) << 13 | dei;
            let ([a, b], [c, d]) = (tpid.0.to_be_bytes(), tci.to_be_bytes());
            place.copy_from_slice(&[a, b, c, d]);
        }
        true
    }
}

/// Takes a frame's tags off, `tags_len` bytes of them. The last tag's priority stays in front of the header, where
/// it is found if the frame goes back to Linux ([`io::tun::back`]); whether one of them is drop eligible is noted.
pub(crate) fn untag(packet: &mut Packet, header: &EthernetHeader) {
    let tags_len = header.payload_offset - HEADER_LEN;
    if let Some(place) = packet.buffer_mut().get_mut(DEI_AT) {
        *place = header.tags.iter().flatten().any(|tag| tag.is_drop_eligible()).into();
    }
    let Span { start, len } = packet.span;
    if let Some(header) = packet.data_mut().get_mut(..MACS_LEN + tags_len) {
        let priority = header.get(MACS_LEN + tags_len - 2).copied();
        header.copy_within(..MACS_LEN, tags_len);
        let place = tags_len.checked_sub(io::tun::back::PRIORITY_LEN);
        if let Some((place, priority)) = place.and_then(|at| header.get_mut(at)).zip(priority) {
            *place = priority;
        }
    }
    packet.span = Span { start: start + tags_len, len: len.saturating_sub(tags_len) };
}

/// Copies the note of drop eligibility to a packet in a buffer of its own, from the packet that it
/// was made of.
pub(crate) fn note_as_of(made: &mut Packet, of: &Packet) {
    if let Some(place) = made.buffer_mut().get_mut(DEI_AT) {
        *place = of.frame.bytes().get(DEI_AT).copied().unwrap_or(0);
    }
}

/// The bit of a tag for a packet that came in by a VLAN.
fn came_drop_eligible(packet: &Packet) -> u16 {
    let is_noted = packet.span.start > DEI_AT && packet.frame.bytes().get(DEI_AT) == Some(&1);
    if is_noted { Tag::DROP_ELIGIBLE } else { 0 }
}

/// The DSCP of an IP packet.
fn dscp(packet: &[u8]) -> usize {
    match *packet {
        [first, second, ..] if first >> 4 == 6 => usize::from((first << 4 | second >> 4) >> 2),
        [_, second, ..] => usize::from(second >> 2),
        _ => 0,
    }
}

/// All VLANs of all ports.
#[derive(Debug, Default)]
pub struct Vlans {
    inbound: HashMap<(u32, VlanTags), Arc<Vlan>, ahash::RandomState>,
    /// VLANs of outbound packets, by slot.
    outbound: Vec<Option<Arc<Vlan>>>,
    /// Priority changes for the ports' own packets that have a tag of VLAN 0.
    remarks: HashMap<u32, Remark, ahash::RandomState>,
}

impl Vlans {
    /// Adds one, in a slot from [`FIRST_VLAN_SLOT`] on.
    pub fn add(&mut self, slot: usize, vlan: Vlan) {
        let vlan = Arc::new(vlan);
        self.inbound.insert((vlan.port, vlan.tags), Arc::clone(&vlan));
        let at = slot.saturating_sub(FIRST_VLAN_SLOT);
        if self.outbound.len() <= at {
            self.outbound.resize(at + 1, None);
        }
        if let Some(place) = self.outbound.get_mut(at) {
            *place = Some(vlan);
        }
    }

    /// Packets of a port that are of no VLAN, but have a priority, get this DSCP.
    pub fn add_port(&mut self, port: u32, dscps: CodePoints) {
        self.remarks.insert(port, Remark { tag: 0, dscps });
    }

    /// Priority change for priority-tagged packets of a port.
    pub(crate) fn remark_of_port(&self, port: u32) -> Option<&Remark> {
        self.remarks.get(&port)
    }

    /// The VLAN of a port's frames with these tags.
    pub(crate) fn of_frame(&self, port: u32, tags: VlanTags) -> Option<&Vlan> {
        self.inbound.get(&(port, tags)).map(|vlan| &**vlan)
    }

    /// The interface that a port's frame leaves by.
    pub(crate) fn sent_by(&self, port: u32, frame: &Packet) -> u32 {
        let header = EthernetHeader::parse(frame.data()).ok();
        let vlan = header.and_then(|header| self.of_frame(port, VlanTags::of(&header)));
        vlan.map_or(port, |vlan| vlan.ifindex)
    }

    /// The one in a slot.
    pub(crate) fn at(&self, slot: usize) -> Option<&Vlan> {
        let slot = slot & !KEEPS_DEI;
        self.outbound.get(slot.checked_sub(FIRST_VLAN_SLOT)?)?.as_deref()
    }
}

/// Frames of one VLAN. Each thread writes to a lane, and hardly two to the same.
#[derive(Debug, Default)]
pub struct VlanCounters {
    lanes: [Lane; LANES],
}

/// Lanes of a VLAN's counters.
const LANES: usize = 16;

#[derive(Debug, Default)]
#[repr(align(64))]
struct Lane {
    received: AtomicU64,
    received_bytes: AtomicU64,
    sent: AtomicU64,
    sent_bytes: AtomicU64,
}

/// Present values of a VLAN's counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VlanStats {
    /// Frames that were received.
    pub rx_packets: u64,
    /// Their bytes, with their tags.
    pub rx_bytes: u64,
    /// Frames sent: given to the port.
    pub tx_packets: u64,
    /// Their bytes, with their tags.
    pub tx_bytes: u64,
}

impl VlanCounters {
    /// Counts a frame that came.
    pub(crate) fn received(&self, lane: usize, len: usize) {
        if let Some(lane) = self.lanes.get(lane % LANES) {
            lane.received.fetch_add(1, Relaxed);
            lane.received_bytes.fetch_add(len as u64, Relaxed);
        }
    }

    /// Counts a frame that is sent.
    pub(crate) fn sent(&self, lane: usize, len: usize) {
        if let Some(lane) = self.lanes.get(lane % LANES) {
            lane.sent.fetch_add(1, Relaxed);
            lane.sent_bytes.fetch_add(len as u64, Relaxed);
        }
    }

    /// All lanes together.
    pub fn read(&self) -> VlanStats {
        self.lanes.iter().fold(VlanStats::default(), |sum, lane| VlanStats {
            rx_packets: sum.rx_packets + lane.received.load(Relaxed),
            rx_bytes: sum.rx_bytes + lane.received_bytes.load(Relaxed),
            tx_packets: sum.tx_packets + lane.sent.load(Relaxed),
            tx_bytes: sum.tx_bytes + lane.sent_bytes.load(Relaxed),
        })
    }
}
