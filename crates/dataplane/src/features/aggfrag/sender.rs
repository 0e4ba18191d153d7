//! Payloads of one outbound SA, and the packets that fill them.

use std::collections::VecDeque;

use esp::Sa;
use io::Frame;
use iptfs::{Filling, Header};
use outcome::{DropReason, Outcome};
use policy::{Iptfs, IptfsRate, SaEntry, SaHandle};
use wire::Family;

use super::control::Control;
use super::counts::count;
use super::pace::Pace;
use super::places::Places;
use crate::model::{Adjacency, NextHop};
use crate::out::Out;
use crate::resolve::payload_len::{LEAST_PIECE, header_len, payload_len};
use crate::resolve::{adjacency, next_hop_of};
use crate::view::View;

/// Codepoint of a packet that congestion may mark (RFC 3168), in the traffic class.
const ECT_0: u8 = 0b10;

/// Payloads of a constant rate that wait, at most, whatever the queue may have in bytes: each has a frame.
pub(super) const MOST_READY: usize = 512;

/// The senders of one worker.
#[derive(Default)]
pub(super) struct Senders {
    pub(super) all: Vec<Sender>,
    pub(super) places: Places,
    /// Senders that have a payload to send, or send at a constant rate, by place.
    pub(super) awake: Vec<usize>,
}

/// Filler of the payloads of one SA.
pub(super) struct Sender {
    pub(super) sa: SaHandle,
    pub(super) rules: Iptfs,
    /// Where payloads go; none until that is found out, with these tables.
    pub(super) way: Option<PayloadPath>,
    /// The payload that is being filled.
    pub(super) filling: Option<Building>,
    /// Payloads that wait for their time.
    pub(super) ready: VecDeque<Building>,
    /// Packets that wait, in bytes.
    pub(super) waiting_bytes: usize,
    pub(super) pace: Option<Pace>,
    /// Of a rate that heeds losses.
    pub(super) control: Option<Box<Control>>,
    pub(super) is_awake: bool,
}

#[derive(Clone, Copy)]
pub(super) struct PayloadPath {
    pub(super) to: NextHop,
    pub(super) adjacency: Option<Adjacency>,
    pub(super) payload_len: usize,
    header_len: usize,
}

impl PayloadPath {
    /// Room of a payload for packets, in bytes.
    #[inline]
    pub(super) fn capacity(&self) -> usize {
        self.payload_len - self.header_len
    }

    /// An empty payload; `carried` is what is left of a packet that began before.
    #[inline]
    pub(super) fn filling(&self, carried: usize) -> Filling {
        match self.header_len {
            Header::LEN => Filling::new(self.payload_len, carried),
            _ => Filling::with_congestion(self.payload_len, carried),
        }
    }
}

/// A payload, complete or not.
pub(super) struct Building {
    pub(super) frame: Frame,
    pub(super) filling: Filling,
    /// Packets that end in it, and how many of these began in another one.
    pub(super) packets: u32,
    pub(super) spread: u32,
    pub(super) bytes: u32,
    /// When its first packet, or piece, came.
    pub(super) since_ns: u64,
    /// The first packet's traffic class.
    pub(super) class: u8,
}

impl Building {
    pub(super) fn new(frame: Frame, filling: Filling, since_ns: u64, class: u8) -> Building {
        Building { frame, filling, packets: 0, spread: 0, bytes: 0, since_ns, class }
    }

    /// Memory of the payload, from its header on.
    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        let start = self.frame.headroom();
        self.frame.bytes_mut().get_mut(start..).unwrap_or_default()
    }
}

impl Sender {
    fn new(sa: SaHandle, rules: Iptfs) -> Sender {
        Sender {
            sa,
            rules,
            way: None,
            filling: None,
            ready: VecDeque::with_capacity(if rules.rate.is_some() { MOST_READY } else { 0 }),
            waiting_bytes: 0,
            pace: None,
            control: None,
            is_awake: false,
        }
    }

    /// Where payloads go and how long they are, by the tables at hand. `most` is what a frame has room for.
    pub(super) fn way(
        &mut self,
        view: &View,
        sa: &SaEntry<Sa>,
        most: usize,
    ) -> Result<PayloadPath, DropReason> {
        if let Some(way) = self.way.filter(|way| way.adjacency.is_some()) {
            return Ok(way);
        }
        let params = &sa.config.params;
        let to = next_hop_of(view, params.dst, params.src)?;
        let family = if params.dst.is_ipv4() { Family::V4 } else { Family::V6 };
        let len = payload_len(sa, to.mtu).ok_or(DropReason::OutTooBig)?.min(most);
        let (adjacency, header_len) = (adjacency(view, to, family), header_len(sa));
        let way = PayloadPath { to, adjacency, payload_len: len, header_len };
        if let Some(rate) = self.rules.rate {
            self.set_pace(view, sa, rate, sa.esp.sealed_len(len, 0));
        }
        self.way = Some(way);
        Ok(way)
    }

    /// Sets the pace for packets of this length.
    fn set_pace(&mut self, view: &View, sa: &SaEntry<Sa>, rate: IptfsRate, packet_len: usize) {
        let now_ns = view.now.ns;
        let pace = self.pace.get_or_insert_with(|| Pace::new(rate.bits_per_s, packet_len, now_ns));
        pace.set_packet_len(rate.bits_per_s, packet_len);
        if !rate.has_reports() {
            return count(sa, |counters| counters.now.bits_per_s.set(rate.bits_per_s));
        }
        let control =
            self.control.get_or_insert_with(|| Box::new(Control::new(view, sa, rate, packet_len)));
        control.set_packet_len(pace, packet_len, now_ns);
        control.show(sa);
    }

    /// True if a packet begins in another payload than the one being filled. A packet that fits a
    /// payload is split only where all are of one size: a piece that is lost is a packet that is
    /// lost.
    pub(super) fn begins_anew(&self, len: usize, capacity: usize) -> bool {
        let Some(building) = &self.filling else { return false };
        let room = building.filling.room();
        let is_split = !self.rules.dont_fragment && (self.pace.is_some() || len > capacity);
        len > room && !(is_split && room >= LEAST_PIECE)
    }

    /// Why a packet finds no room.
    #[cold]
    pub(super) fn full(&self) -> DropReason {
        match self.control.as_ref().is_some_and(|control| control.is_broken()) {
            true => DropReason::OutIptfsBroken,
            false => DropReason::OutNoQueueSpace,
        }
    }

    /// The traffic class of packets at a constant rate, which tell nothing else.
    pub(super) fn class(&self) -> u8 {
        if self.rules.rate.is_some_and(|rate| rate.has_ecn()) { ECT_0 } else { 0 }
    }

    /// When it has to send something.
    pub(super) fn due_ns(&self) -> Option<u64> {
        match &self.pace {
            Some(pace) => Some(pace.next_ns()),
            None => self.filling.as_ref().map(|building| {
                building.since_ns.saturating_add(u64::from(self.rules.init_delay_us) * 1_000)
            }),
        }
    }

    /// All that waits.
    pub(super) fn take_all(&mut self) -> impl Iterator<Item = Building> {
        self.waiting_bytes = 0;
        self.ready.drain(..).chain(self.filling.take())
    }
}

impl Senders {
    pub(super) fn due_ns(&self) -> Option<u64> {
        let awake = self.awake.iter().filter_map(|place| self.all.get(*place));
        awake.filter_map(Sender::due_ns).min()
    }

    /// The place of an SA's sender, which is made with its first packet.
    #[inline]
    pub(super) fn place(&mut self, sa: SaHandle, entry: &SaEntry<Sa>) -> usize {
        match self.places.get(sa) {
            Some(place) => place,
            None => self.add(sa, entry),
        }
    }

    #[cold]
    fn add(&mut self, sa: SaHandle, entry: &SaEntry<Sa>) -> usize {
        let place = self.all.len();
        let rules = entry.config.iptfs.as_deref().copied().unwrap_or_default();
        self.all.push(Sender::new(sa, rules));
        self.places.add(sa, place);
        place
    }

    pub(super) fn wake(&mut self, place: usize) {
        if let Some(sender) = self.all.get_mut(place).filter(|sender| !sender.is_awake) {
            sender.is_awake = true;
            self.awake.push(place);
        }
    }

    /// Tables have changed: ways have to be found again.
    pub(super) fn forget_ways(&mut self) {
        self.all.iter_mut().for_each(|sender| sender.way = None);
    }
}

/// Drops a payload with what is in it.
pub(super) fn drop_payload(
    out: &mut Out,
    sa: Option<&SaEntry<Sa>>,
    building: Building,
    reason: DropReason,
) {
    if let Some(sa) = sa {
        count(sa, |counters| counters.dropped.add(building.packets.into()));
    }
    out.counters.count(Outcome::Dropped(reason), 1);
    out.pool.put(building.frame);
}
