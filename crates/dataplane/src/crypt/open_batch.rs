//! ESP packets, and those with AH, whose SA is known: to be decrypted by the burst, then accepted one after the other.

use core::net::IpAddr;

use arrayvec::ArrayVec;
use crypto::JobStatus;
use esp::{Content, Sa};
use io::{BURST_LEN, Packet};
use mem::Cache;
use outcome::{DropReason, Outcome};
use policy::{Reader, SaHandle};
use wire::Fields;

use crate::model::{FlowHint, Ingress, Meta, Metas, Outers};

/// Work on a packet that is to be opened.
///
/// Apart from the packets, and written in place: a record that is moved whole goes through memory.
#[derive(Debug)]
pub(crate) struct OpenWork {
    pub(super) outer: Fields,
    pub(crate) sa: SaHandle,
    /// The flow that the packet is probably of.
    pub(crate) hint: FlowHint,
    pub(crate) opening: esp::Opening,
    /// Where it came from, if it is encapsulated in UDP.
    pub(crate) from: Option<(IpAddr, u16)>,
    ifindex: u32,
    /// True if it went through the engine: its SA was still there, and has work for one.
    pub(super) has_job: bool,
    pub(crate) content: Result<Content, DropReason>,
}

/// Packets that are opened in one run of the engine, and what was inside, once that is known.
#[derive(Default)]
pub(crate) struct Opens {
    pub(crate) packets: ArrayVec<Packet, BURST_LEN>,
    /// Each packet's, and what is left of earlier bursts.
    pub(crate) work: ArrayVec<OpenWork, BURST_LEN>,
    /// Of the inner packets.
    pub(crate) metas: Metas,
    /// Which packets were inside another SA's packet, and the SAs that they came through.
    pub(super) nested: ArrayVec<(u8, Outers), BURST_LEN>,
}

impl Opens {
    pub(crate) fn len(&self) -> usize {
        self.packets.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// How many packets there is room for.
    pub(crate) fn room(&self) -> usize {
        self.packets.remaining_capacity()
    }

    /// Adds a packet; it comes back if the burst is full.
    #[inline(always)]
    pub(crate) fn push(
        &mut self,
        packet: Packet,
        meta: &Meta,
        (sa, hint): (SaHandle, FlowHint),
        opening: esp::Opening,
        from: Option<(IpAddr, u16)>,
    ) -> Result<(), Packet> {
        packet.prefetch_content();
        let (outer, ifindex) = (meta.summary.fields, meta.ingress.ifindex);
        match self.work.get_mut(self.packets.len()) {
            Some(work) => {
                work.outer = outer;
                (work.sa, work.hint) = (sa, hint);
                work.opening = opening;
                // Not as a whole: most often there is none.
                match from {
                    None => work.from = None,
                    Some(from) => work.from = Some(from),
                }
                work.ifindex = ifindex;
            }
            None => {
                let content = Err(DropReason::InCrypto);
                let has_job = false;
                let work = OpenWork { outer, sa, hint, opening, from, ifindex, has_job, content };
                // As many as there are packets.
                let _ = self.work.try_push(work);
            }
        }
        self.packets.try_push(packet).map_err(|full| full.element())
    }

    /// Notes the SAs that the last packet came through.
    #[cold]
    pub(crate) fn note_outers(&mut self, outers: Outers) {
        if let Some(last) = self.packets.len().checked_sub(1) {
            // One for each packet at most.
            let _ = self.nested.try_push((last as u8, outers));
        }
    }

    /// True if the last packet is one that the engine has no work with.
    pub(crate) fn is_to_unwrap(&self) -> bool {
        let last = self.packets.len().checked_sub(1);
        last.and_then(|last| self.work.get(last)).is_some_and(|work| !work.opening.has_job())
    }

    /// The SAs of the packets, in their order.
    pub(crate) fn sas(&self) -> impl Iterator<Item = SaHandle> {
        self.work.iter().zip(&self.packets).map(|(work, _)| work.sa)
    }

    /// How many runs of one SA there are.
    pub(crate) fn runs(&self) -> usize {
        let mut last = None;
        self.sas().filter(|sa| last.replace(*sa) != Some(*sa)).count()
    }

    /// Prefetches once more what opening reads of each SA.
    #[inline]
    pub(super) fn prefetch_sas(&self, reader: &Reader<Sa>) {
        let sas = self.sas().filter_map(|sa| reader.sa(sa));
        sas.for_each(|sa| sa.esp.prefetch_to_open(Cache::First));
    }
}

impl OpenWork {
    /// The interface that the packet came in by.
    pub(crate) fn ifindex(&self) -> u32 {
        self.ifindex
    }

    /// The traffic class of the packet around it.
    pub(crate) fn outer_class(&self) -> u8 {
        self.outer.traffic_class()
    }

    /// Makes a packet with AH as its ICV has it. One that is not what was seen before stays as it is,
    /// and its ICV is wrong. False for what the engine has no work with.
    #[inline(never)]
    pub(super) fn make_ready(&mut self, packet: &mut Packet) -> bool {
        self.has_job = self.opening.has_job();
        if self.has_job {
            let _ = self.opening.blank(packet.frame.bytes_mut(), self.outer);
        }
        self.has_job
    }

    /// Reads trailer and inner headers of a decrypted packet: its span is then the inner packet.
    #[inline(always)]
    pub(super) fn look_inside(
        &mut self,
        packet: &mut Packet,
        status: Option<JobStatus>,
        meta: &mut Meta,
    ) -> Result<(), Outcome> {
        let status = status.unwrap_or(JobStatus::Failed);
        let outer = (packet.span, self.outer);
        let buffer = packet.frame.bytes_mut();
        self.content = self.opening.content(buffer, outer, status, &mut meta.summary);
        let content = self.content?;
        if let Some(span) = content.span() {
            packet.span = span;
        }
        if content.is_aggfrag() {
            // What becomes of it is not its flow's to say.
            meta.enter(Ingress::of_sa(self.ifindex, self.sa), true);
            return Err(Outcome::Consumed);
        }
        if !content.is_whole() {
            return Err(content.broken().map_or(Outcome::Consumed, Outcome::from));
        }
        meta.enter(Ingress::of_sa(self.ifindex, self.sa), true);
        Ok(())
    }
}
