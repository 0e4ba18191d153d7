//! Packets that an SA protects: counted and numbered, to be written and encrypted.

use arrayvec::ArrayVec;
use esp::{IvSource, Number, Sa};
use io::{BURST_LEN, Packet};
use mem::Cache;
use outcome::DropReason;
use policy::{MAX_BUNDLE, Reader, SaBundle, SaEntry, SaHandle};
use wire::Fields;

use crate::model::{Adjacency, NextHop, Turn};

/// Work on a packet that is to be sealed.
///
/// Apart from the packets, and written in place: a record that is moved whole goes through memory.
#[derive(Debug)]
pub(crate) struct SealWork {
    h: Fields,
    pub(super) sa: SaHandle,
    pub(super) number: Option<Number>,
    /// Of the path to the peer, in bytes.
    mtu: usize,
    /// The next hop, if it is known. Beside the next field, not in one enum with it: such an enum
    /// is made in memory and moved.
    adjacency: Adjacency,
    /// The next hop whose neighbour has to be found, if it is not.
    to: Option<NextHop>,
    pub(super) sealing: esp::Sealing,
    /// Why the packet is not sealed, if it is not.
    pub(crate) end: Option<DropReason>,
}

/// Steps after the first SA has sealed the packet: SAs, in the order of application, and their
/// numbers.
#[derive(Debug)]
pub(crate) struct Further {
    /// The packet's place in the burst.
    pub(super) at: u8,
    pub(super) sas: ArrayVec<(SaHandle, Option<Number>), { MAX_BUNDLE - 1 }>,
}

/// How a sealed packet leaves.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Exit<'e> {
    /// By a next hop that is known.
    Ready(&'e Adjacency),
    /// To a next hop whose link-layer address has to be found.
    To(&'e NextHop),
}

/// Packets that are sealed in one run of the engine.
#[derive(Default)]
pub(crate) struct Seals {
    pub(crate) packets: ArrayVec<Packet, BURST_LEN>,
    /// Each packet's, and what is left of earlier bursts.
    pub(crate) work: ArrayVec<SealWork, BURST_LEN>,
    /// Packets that other SAs protect after the first, in their order.
    pub(super) further: ArrayVec<Further, BURST_LEN>,
    /// Packets that go on to another worker once they are sealed: their places in the burst, in that order, and
    /// the SAs that protect them there. Rare, so it takes memory with the first one.
    pub(crate) onward: Vec<(u8, SaBundle)>,
    /// True if packets get their numbers when they are gathered, one by one. Where hardly two are
    /// of one SA, a pass of its own would touch the lines of each SA once more.
    pub(crate) is_numbered: bool,
}

impl Seals {
    pub(crate) fn len(&self) -> usize {
        self.packets.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    #[inline(always)]
    pub(crate) fn is_full(&self) -> bool {
        self.packets.is_full()
    }

    /// Counts a packet with its SA, and adds it; it comes back, with the reason, if the SA cannot
    /// seal it or the burst is full.
    #[inline(always)]
    pub(crate) fn gather(
        &mut self,
        packet: Packet,
        h: Fields,
        (handle, sa): (SaHandle, &SaEntry<Sa>),
        mtu: usize,
        exit: Exit<'_>,
        (now_s, _turn): (u64, Turn<'_>),
    ) -> Result<(), (Packet, DropReason)> {
        // Where the trailer goes: stores to distant lines would fill the store buffer.
        packet.prefetch(Cache::First, packet.span.len);
        packet.prefetch_content();
        let len = match sa.esp.is_tunnel() {
            true => usize::from(h.total_len()),
            false => match sa.esp.payload_len(packet.data(), h) {
                Ok(len) => len,
                Err(reason) => return Err((packet, reason)),
            },
        };
        match self.work.get_mut(self.packets.len()) {
            Some(work) => {
                work.h = h;
                work.sa = handle;
                work.mtu = mtu;
                match exit {
                    Exit::Ready(adjacency) => {
                        work.adjacency = *adjacency;
                        work.to = None;
                    }
                    Exit::To(to) => work.to = Some(*to),
                }
            }
            None => {
                let (adjacency, to) = match exit {
                    Exit::Ready(adjacency) => (*adjacency, None),
                    Exit::To(to) => (Adjacency::default(), Some(*to)),
                };
                let (number, end, sealing) = (None, None, esp::Sealing::default());
                let work = SealWork { h, sa: handle, number, mtu, adjacency, to, sealing, end };
                // As many as there are packets.
                let _ = self.work.try_push(work);
            }
        }
        if let Err(full) = self.packets.try_push(packet) {
            return Err((full.element(), DropReason::OutNoRoom));
        }
        sa.esp.live().count(len as u64, now_s);
        if let Some(classes) = sa.classes() {
            classes.count(h.traffic_class());
        }
        if self.is_numbered
            && let Some(work) = self.work.get_mut(self.packets.len() - 1)
        {
            // No number: the packet is dropped as one for which there is none.
            work.number = sa.esp.lease(1).ok().and_then(|mut lease| lease.next());
        }
        Ok(())
    }

    /// Counts the last packet with a further SA, which protects it next, and takes a number of the SA
    /// for it. `payload_len` is what that SA protects of it.
    pub(crate) fn gather_further(
        &mut self,
        (handle, sa): (SaHandle, &SaEntry<Sa>),
        payload_len: usize,
        (now_s, _turn): (u64, Turn<'_>),
    ) {
        let Some(at) = self.packets.len().checked_sub(1) else { return };
        let at = at as u8;
        if self.further.last().is_none_or(|last| last.at != at) {
            // One for each packet at most.
            let _ = self.further.try_push(Further { at, sas: ArrayVec::new() });
        }
        sa.esp.live().count(payload_len as u64, now_s);
        // No number: the packet is dropped as one for which there is none.
        let number = sa.esp.lease(1).ok().and_then(|mut lease| lease.next());
        if let Some(further) = self.further.last_mut() {
            // As many as a bundle has.
            let _ = further.sas.try_push((handle, number));
        }
    }

    /// The last packet goes on to another worker once it is sealed.
    #[cold]
    pub(crate) fn note_onward(&mut self, onward: SaBundle) {
        if let Some(at) = self.packets.len().checked_sub(1) {
            self.onward.push((at as u8, onward));
        }
    }

    /// Gives each packet its number, unless they have theirs: a run of packets of one SA takes its
    /// numbers at once. Returns how many runs there were.
    pub(super) fn number(&mut self, reader: &Reader<Sa>, _turn: Turn<'_>) -> usize {
        let mut runs = 0;
        let mut rest = self.work.get_mut(..self.packets.len()).unwrap_or_default();
        while let Some(first) = rest.first() {
            let sa = first.sa;
            let run = rest.iter().position(|item| item.sa != sa).unwrap_or(rest.len());
            let (these, others) = rest.split_at_mut(run);
            // No number: the packet is dropped as one for which there is none.
            if !self.is_numbered
                && let Some(Ok(lease)) = reader.sa(sa).map(|entry| entry.esp.lease(run as u32))
            {
                for (item, number) in these.iter_mut().zip(lease) {
                    item.number = Some(number);
                }
            }
            rest = others;
            runs += 1;
        }
        runs
    }

    /// Prefetches once more what sealing reads of each SA.
    #[inline]
    pub(super) fn prefetch_sas(&self, reader: &Reader<Sa>) {
        let sas = self.work.iter().take(self.packets.len()).map(|work| work.sa);
        sas.filter_map(|sa| reader.sa(sa)).for_each(|sa| sa.esp.prefetch_to_seal(Cache::First));
    }
}

impl SealWork {
    /// The SA that protects the packet, of several the last.
    pub(crate) fn sa(&self) -> SaHandle {
        self.sa
    }

    /// How the sealed packet leaves.
    #[inline(always)]
    pub(crate) fn exit(&self) -> Exit<'_> {
        match &self.to {
            None => Exit::Ready(&self.adjacency),
            Some(to) => Exit::To(to),
        }
    }

    /// [`SealWork::prepare`] for the SA that protects a packet next, once it has been sealed by another.
    pub(super) fn prepare_again<'p>(
        &mut self,
        packet: &'p mut Packet,
        sa: &Sa,
        number: Number,
        ivs: &mut IvSource,
    ) -> Result<(&'p mut [u8], Option<u32>), DropReason> {
        packet.span = self.sealing.packet;
        self.h = Fields::from(&wire::parse_ip(packet.data())?);
        self.prepare(packet, sa, number, ivs)
    }

    /// Writes headers and trailer; returns what is to be encrypted, and the high half of the
    /// number, if it counts. The packet's span is then what will be sent.
    #[inline(always)]
    pub(super) fn prepare<'p>(
        &mut self,
        packet: &'p mut Packet,
        sa: &Sa,
        number: Number,
        ivs: &mut IvSource,
    ) -> Result<(&'p mut [u8], Option<u32>), DropReason> {
        let Packet { frame, span } = packet;
        let buffer = frame.bytes_mut();
        let sealing = sa.seal_prepare(buffer, *span, self.h, number, ivs, self.mtu)?;
        *span = match self.exit() {
            Exit::Ready(adjacency) => {
                adjacency.frame(buffer, sealing.packet).ok_or(DropReason::OutNoRoom)?
            }
            Exit::To(_) => sealing.packet,
        };
        self.sealing = sealing;
        let bytes = buffer.get_mut(sealing.esp.range()).ok_or(DropReason::OutNoRoom)?;
        Ok((bytes, sealing.seq_hi))
    }
}
