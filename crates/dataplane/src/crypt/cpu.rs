//! Work done by the processor's own engine: finished when the call returns.

use arrayvec::ArrayVec;
use crypto::{Engine, Job, JobStatus, Op};
use esp::{IvSource, Sa};
use io::{BURST_LEN, Packet};
use mem::Cache;
use outcome::DropReason;
use policy::{MAX_BUNDLE, Reader, SaHandle};

use super::open_batch::Opens;
use super::seal_batch::{Further, SealWork, Seals};
use crate::model::AGAIN;

/// Writes headers and trailers, and encrypts: each packet is then what is sent, from its Ethernet
/// header on where its next hop is known, else from its IP header on.
pub(super) fn seal_all(
    seals: &mut Seals,
    reader: &Reader<Sa>,
    engine: &mut dyn Engine,
    ivs: &mut IvSource,
) {
    seal_first(seals, reader, engine, ivs);
    if !seals.further.is_empty() {
        (0..MAX_BUNDLE - 1).for_each(|step| seal_next(seals, step, reader, engine, ivs));
        seals.further.clear();
    }
}

/// Each packet by its first SA.
#[inline(always)]
fn seal_first(seals: &mut Seals, reader: &Reader<Sa>, engine: &mut dyn Engine, ivs: &mut IvSource) {
    let Seals { packets, work, .. } = seals;
    let mut statuses: ArrayVec<JobStatus, BURST_LEN> = ArrayVec::new();
    let mut is_to_finish = false;
    {
        let mut sas = SameSa::new(reader);
        let mut jobs: ArrayVec<Job<'_>, BURST_LEN> = ArrayVec::new();
        let mut each = packets.iter_mut();
        for work in work.iter_mut() {
            let Some(packet) = each.next() else { break };
            if let Some(next) = each.as_slice().get(AGAIN) {
                // Outer headers go in front, the trailer behind.
                next.prefetch(Cache::First, mem::LINE_LEN.wrapping_neg());
                next.prefetch(Cache::First, next.span.len);
            }
            let sa = sas.get(work.sa);
            let (Some(sa), Some(number)) = (sa, work.number.take()) else {
                work.end = Some(no_number(sa));
                continue;
            };
            is_to_finish |= sa.has_to_finish();
            match work.prepare(packet, sa, number, ivs) {
                Ok((bytes, seq_hi)) => {
                    work.end = None;
                    // As many as there are packets.
                    let _ = jobs.try_push(Job::esp(sa.session(), Op::Seal, bytes, seq_hi));
                }
                Err(reason) => work.end = Some(reason),
            }
        }
        engine.run(&mut jobs);
        if !is_to_finish && jobs.iter().all(|job| job.status == JobStatus::Done) {
            return;
        }
        statuses.extend(jobs.iter().map(|job| job.status));
    }
    finish_all(packets, work, reader, &statuses);
}

/// The packets that are protected by one more SA, by that.
#[inline(never)]
fn seal_next(
    seals: &mut Seals,
    step: usize,
    reader: &Reader<Sa>,
    engine: &mut dyn Engine,
    ivs: &mut IvSource,
) {
    let Seals { packets, work, further, .. } = seals;
    let mut statuses: ArrayVec<JobStatus, BURST_LEN> = ArrayVec::new();
    // Which packets the engine has run over.
    let mut ran: ArrayVec<u8, BURST_LEN> = ArrayVec::new();
    {
        let mut jobs: ArrayVec<Job<'_>, BURST_LEN> = ArrayVec::new();
        let mut each = packets.iter_mut().zip(work.iter_mut()).enumerate();
        for Further { at, sas } in further.iter_mut() {
            let rest = each.by_ref();
            let Some((_, (packet, work))) = rest.find(|(n, _)| *n == usize::from(*at)) else {
                break;
            };
            let Some((handle, number)) = sas.get_mut(step).filter(|_| work.end.is_none()) else {
                continue;
            };
            work.sa = *handle;
            let sa = reader.sa(*handle);
            let (Some(sa), Some(number)) = (sa, number.take()) else {
                work.end = Some(no_number(sa.map(|sa| &sa.esp)));
                continue;
            };
            match work.prepare_again(packet, &sa.esp, number, ivs) {
                Ok((bytes, seq_hi)) => {
                    // As many as there are packets.
                    let _ = jobs.try_push(Job::esp(sa.esp.session(), Op::Seal, bytes, seq_hi));
                    let _ = ran.try_push(*at);
                }
                Err(reason) => work.end = Some(reason),
            }
        }
        engine.run(&mut jobs);
        statuses.extend(jobs.iter().map(|job| job.status));
    }
    for (at, status) in ran.into_iter().zip(statuses) {
        if let (Some(packet), Some(work)) =
            (packets.get_mut(usize::from(at)), work.get_mut(usize::from(at)))
        {
            work.end = finish(packet, work, reader, status).err();
        }
    }
}

/// Why a packet is not sealed that has no number, or whose SA went before it had one.
#[cold]
fn no_number(sa: Option<&Sa>) -> DropReason {
    sa.map_or(DropReason::OutSequenceExhausted, Sa::no_number)
}

/// Completes packets where the cipher was not all, or not done.
#[cold]
#[inline(never)]
fn finish_all(
    packets: &mut [Packet],
    work: &mut [SealWork],
    reader: &Reader<Sa>,
    statuses: &[JobStatus],
) {
    let mut statuses = statuses.iter();
    for (packet, work) in packets.iter_mut().zip(work.iter_mut()) {
        if work.end.is_some() {
            continue;
        }
        let status = statuses.next().copied().unwrap_or(JobStatus::Failed);
        work.end = finish(packet, work, reader, status).err();
    }
}

/// Completes a packet. Whatever was prepared goes nowhere unless it was encrypted.
fn finish(
    packet: &mut Packet,
    work: &SealWork,
    reader: &Reader<Sa>,
    status: JobStatus,
) -> Result<(), DropReason> {
    let sa = reader.sa(work.sa).ok_or(DropReason::OutCrypto)?;
    sa.esp.seal_finish(packet.frame.bytes_mut(), &work.sealing, status).map(drop)
}

/// Decrypts, and finds out what was inside: each packet's span is then the inner packet, and each
/// has metadata. A packet whose SA is gone is not opened.
pub(super) fn open_all(opens: &mut Opens, reader: &Reader<Sa>, engine: &mut dyn Engine) {
    let Opens { packets, work, metas, nested } = opens;
    let mut statuses: ArrayVec<JobStatus, BURST_LEN> = ArrayVec::new();
    {
        let mut sas = SameSa::new(reader);
        let mut jobs: ArrayVec<Job<'_>, BURST_LEN> = ArrayVec::new();
        for (packet, work) in packets.iter_mut().zip(work.iter_mut()) {
            let sa = sas.get(work.sa);
            work.has_job = sa.is_some();
            let Some(sa) = sa else { continue };
            if !work.opening.is_esp() && !work.make_ready(packet) {
                continue;
            }
            let esp = work.opening.esp.range();
            let bytes = packet.frame.bytes_mut().get_mut(esp).unwrap_or(&mut []);
            // As many as there are packets.
            let _ = jobs.try_push(Job::esp(sa.session(), Op::Open, bytes, work.opening.seq_hi));
        }
        engine.run(&mut jobs);
        statuses.extend(jobs.iter().map(|job| job.status));
    }
    let mut statuses = statuses.into_iter();
    let metas = metas.places(packets.len());
    let mut each = packets.iter_mut();
    for (work, meta) in work.iter_mut().zip(&mut *metas) {
        let Some(packet) = each.next() else { break };
        if let Some(next) = each.as_slice().get(AGAIN) {
            prefetch_decrypted(next);
        }
        let found = match work.has_job {
            true => work.look_inside(packet, statuses.next(), meta),
            false if !work.opening.has_job() => {
                work.look_inside(packet, Some(JobStatus::Done), meta)
            }
            false => Err(DropReason::InStateExpired.into()),
        };
        if let Err(outcome) = found {
            meta.end = Some(outcome);
        }
    }
    for (at, outers) in nested.drain(..) {
        if let Some(meta) = metas.get_mut(usize::from(at)) {
            meta.set_outers(outers);
        }
    }
}

/// Prefetches what is read of a packet that was decrypted: its first two lines, with the inner
/// header, and the one with the trailer. A burst and all about it do not stay in a first-level cache
/// of 32 KiB.
#[inline(always)]
fn prefetch_decrypted(packet: &Packet) {
    let trailer_at = packet.span.len.wrapping_sub(TRAILER_AND_ICV);
    for at in [0, mem::LINE_LEN, trailer_at] {
        packet.prefetch(Cache::First, at);
    }
}

/// How far from a packet's end its trailer is, about, in bytes.
const TRAILER_AND_ICV: usize = 2 + 16;

/// Finds SAs for packets one after the other: most are of the same one as the packet before.
struct SameSa<'s> {
    reader: &'s Reader<Sa>,
    last: Option<(SaHandle, &'s Sa)>,
}

impl<'s> SameSa<'s> {
    fn new(reader: &'s Reader<Sa>) -> SameSa<'s> {
        SameSa { reader, last: None }
    }

    #[inline(always)]
    fn get(&mut self, handle: SaHandle) -> Option<&'s Sa> {
        match self.last {
            Some((last, sa)) if last == handle => Some(sa),
            _ => {
                let sa = &self.reader.sa(handle)?.esp;
                self.last = Some((handle, sa));
                Some(sa)
            }
        }
    }
}
