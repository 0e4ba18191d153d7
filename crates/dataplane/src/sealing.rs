//! Packets that an SA protects: numbered by the burst, then written and encrypted.
//!
//! What is done here falls in two. Numbers and counters of an SA have one writer at a time
//! ([`Worker::gather`], [`Worker::seal_gathered`]). The work on the packets themselves,
//! [`seal_all`], touches nothing but the packets, so it may be done by any thread.

use arrayvec::ArrayVec;
use crypto::{Engine, Job, JobStatus, Op};
use esp::{IvSource, Number, Sa};
use io::Packet;
use mem::Cache;
use outcome::DropReason;
use policy::{SaEntry, SaHandle};
use wire::{Brief, Headers};

use crate::egress::NextHop;
use crate::ingress::AGAIN;
use crate::plan::Adjacency;
use crate::worker::{CRYPTO_BURST_LEN, Worker};

/// What is to be done with a packet that is to be sealed.
///
/// Apart from the packets, and written in place: what is moved whole is moved through memory.
#[derive(Debug)]
pub(crate) struct Note {
    h: Brief,
    sa: SaHandle,
    number: Option<Number>,
    /// Of the path to the peer, in bytes.
    mtu: usize,
    /// The next hop, if it is known. Beside the next field, not in one enum with it: such an enum is made in
    /// memory and moved.
    adjacency: Adjacency,
    /// The next hop whose neighbour has to be found, if it is not.
    to: Option<NextHop>,
    sealing: esp::Sealing,
    /// Why the packet is not sealed, if it is not.
    end: Option<DropReason>,
}

/// How a sealed packet leaves.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Exit<'e> {
    /// By a next hop that is known.
    Ready(&'e Adjacency),
    /// Its neighbour has to be found.
    To(&'e NextHop),
}

/// Packets that are sealed in one run of the engine.
#[derive(Default)]
pub(crate) struct Seals {
    packets: ArrayVec<Packet, CRYPTO_BURST_LEN>,
    /// Each packet's, and what is left of earlier bursts.
    notes: ArrayVec<Note, CRYPTO_BURST_LEN>,
    /// Whether packets get their numbers when they are gathered, one by one: where hardly two are of one SA, a
    /// pass of its own would touch the lines of each SA once more.
    is_numbered: bool,
}

impl Seals {
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
        h: Brief,
        (handle, sa): (SaHandle, &SaEntry<Sa>),
        mtu: usize,
        exit: Exit<'_>,
        now_s: u64,
    ) -> Result<(), (Packet, DropReason)> {
        // Where the trailer goes: stores to lines that are far fill the store buffer, and then all waits.
        packet.prefetch(Cache::First, packet.span.len);
        packet.prefetch_content();
        let len = match sa.esp.is_tunnel() {
            true => usize::from(h.total_len()),
            false => match sa.esp.payload_len(packet.data(), h) {
                Ok(len) => len,
                Err(reason) => return Err((packet, reason)),
            },
        };
        match self.notes.get_mut(self.packets.len()) {
            Some(note) => {
                note.h = h;
                note.sa = handle;
                note.mtu = mtu;
                match exit {
                    Exit::Ready(adjacency) => {
                        note.adjacency = *adjacency;
                        note.to = None;
                    }
                    Exit::To(to) => note.to = Some(*to),
                }
            }
            None => {
                let (adjacency, to) = match exit {
                    Exit::Ready(adjacency) => (*adjacency, None),
                    Exit::To(to) => (Adjacency::default(), Some(*to)),
                };
                let (number, end, sealing) = (None, None, esp::Sealing::default());
                let note = Note { h, sa: handle, number, mtu, adjacency, to, sealing, end };
                // As many as there are packets.
                let _ = self.notes.try_push(note);
            }
        }
        if let Err(full) = self.packets.try_push(packet) {
            return Err((full.element(), DropReason::OutNoRoom));
        }
        sa.esp.cells().count(len as u64, now_s);
        if self.is_numbered
            && let Some(note) = self.notes.get_mut(self.packets.len() - 1)
        {
            // No number: the packet is dropped as one for which there is none.
            note.number = sa.esp.lease(1).ok().and_then(|mut lease| lease.next());
        }
        Ok(())
    }
}

impl Worker {
    /// Counts a packet with its SA, and adds it to the burst.
    pub(crate) fn gather(
        &mut self,
        packet: Packet,
        h: &Headers,
        sa: SaHandle,
        mtu: usize,
        exit: Exit<'_>,
    ) {
        if self.sealing.is_full() {
            self.seal_gathered();
        }
        let Some(entry) = self.reader.sa(sa) else {
            return self.drop_packet(packet, DropReason::OutStateExpired);
        };
        let now_s = self.now.wall_s;
        let gathered = self.sealing.gather(packet, h.into(), (sa, entry), mtu, exit, now_s);
        if let Err((packet, reason)) = gathered {
            self.drop_packet(packet, reason);
        }
    }

    /// Runs the gathered packets through the engine and sends them.
    ///
    /// They leave in the order of their sequence numbers, which is that of their arrival.
    pub(crate) fn seal_gathered(&mut self) {
        if self.sealing.packets.is_empty() {
            return;
        }
        let Some(mut gathered) = self.spare_sealing.take() else { return };
        core::mem::swap(&mut gathered, &mut self.sealing);
        // While it is empty: of one burst all packets get their numbers in one way, in their order.
        self.sealing.is_numbered = self.is_spread;
        self.number_all(&mut gathered);
        self.seal(&mut gathered);
        self.spare_sealing = Some(gathered);
    }

    /// Gives the packets of a burst their numbers.
    pub(crate) fn number_all(&mut self, gathered: &mut Seals) {
        let burst_len = gathered.packets.len();
        let notes = gathered.notes.get_mut(..burst_len).unwrap_or_default();
        let runs = self.number(notes, gathered.is_numbered);
        self.note_spread(runs, burst_len);
    }

    /// Runs a burst that has its numbers through the engine and sends it. Writes nothing but the
    /// packets and the burst.
    pub(crate) fn seal(&mut self, gathered: &mut Seals) {
        let Seals { packets, notes, .. } = gathered;
        if self.is_spread {
            let sas = notes.iter().take(packets.len()).map(|note| note.sa);
            self.ask_again(sas, |sa| sa.prefetch_to_seal(Cache::First));
        }
        let reader = &self.reader;
        let sa_of = |_, sa| reader.sa(sa).map(|entry| &entry.esp);
        seal_all(packets, notes, sa_of, &mut *self.engine, &mut self.ivs);
        self.send_sealed(gathered);
    }

    /// Gives each packet its number, unless they have theirs: a run of packets of one SA takes its numbers at
    /// once. Returns how many runs there were.
    fn number(&self, notes: &mut [Note], is_numbered: bool) -> usize {
        let mut runs = 0;
        let mut rest = notes;
        while let Some(first) = rest.first() {
            let sa = first.sa;
            let run = rest.iter().position(|item| item.sa != sa).unwrap_or(rest.len());
            let (these, others) = rest.split_at_mut(run);
            // No number: the packet is dropped as one for which there is none.
            if !is_numbered
                && let Some(Ok(lease)) = self.reader.sa(sa).map(|entry| entry.esp.lease(run as u32))
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

    /// Sends what has been sealed, and empties the burst.
    pub(crate) fn send_sealed(&mut self, seals: &mut Seals) {
        let mut encrypted = 0;
        for (packet, note) in seals.packets.drain(..).zip(&seals.notes) {
            match (note.end, note.exit()) {
                (None, Exit::Ready(adjacency)) => {
                    encrypted += 1;
                    self.enqueue(adjacency.slot.into(), packet);
                }
                (None, Exit::To(to)) => {
                    encrypted += 1;
                    self.emit_sealed(packet, *to);
                }
                (Some(reason), _) => self.drop_packet(packet, reason),
            }
        }
        self.counters.work.encrypted.add(encrypted);
    }

    /// Sends a sealed packet, in fragments where it could not be made short enough.
    fn emit_sealed(&mut self, packet: Packet, to: NextHop) {
        if packet.span.len <= to.mtu {
            return self.emit(packet, to.ifindex, to.addr);
        }
        match wire::parse_ip(packet.data()) {
            Ok(h) => self.fragment(packet, &h, to.mtu, |worker, piece, _| {
                worker.emit(piece, to.ifindex, to.addr);
            }),
            Err(error) => self.drop_packet(packet, error.into()),
        }
    }
}

/// Writes headers and trailers, and encrypts: each packet is then what is sent, from its Ethernet
/// header on where its next hop is known, else from its IP header on.
///
/// `sa_of` says which SA a packet, told by its place in the burst and by its handle, is for;
/// without one it is not sealed.
fn seal_all<'s>(
    packets: &mut [Packet],
    notes: &mut [Note],
    sa_of: impl Fn(usize, SaHandle) -> Option<&'s Sa>,
    engine: &mut dyn Engine,
    ivs: &mut IvSource,
) {
    let mut statuses: ArrayVec<JobStatus, CRYPTO_BURST_LEN> = ArrayVec::new();
    let mut is_to_finish = false;
    {
        let mut sas = SameSa::new(&sa_of);
        let mut jobs: ArrayVec<Job<'_>, CRYPTO_BURST_LEN> = ArrayVec::new();
        let mut each = packets.iter_mut();
        for (at, note) in notes.iter_mut().enumerate() {
            let Some(packet) = each.next() else { break };
            if let Some(next) = each.as_slice().get(AGAIN) {
                // Outer headers go in front, the trailer behind.
                next.prefetch(Cache::First, mem::LINE_LEN.wrapping_neg());
                next.prefetch(Cache::First, next.span.len);
            }
            let (Some(sa), Some(number)) = (sas.get(at, note.sa), note.number.take()) else {
                note.end = Some(DropReason::OutSequenceExhausted);
                continue;
            };
            is_to_finish |= sa.has_to_finish();
            match note.prepare(packet, sa, number, ivs) {
                Ok((bytes, seq_hi)) => {
                    note.end = None;
                    // As many as there are packets.
                    let _ = jobs.try_push(Job::esp(sa.session(), Op::Seal, bytes, seq_hi));
                }
                Err(reason) => note.end = Some(reason),
            }
        }
        engine.run(&mut jobs);
        if !is_to_finish && jobs.iter().all(|job| job.status == JobStatus::Done) {
            return;
        }
        statuses.extend(jobs.iter().map(|job| job.status));
    }
    finish_all(packets, notes, sa_of, &statuses);
}

/// Completes packets where the cipher was not all, or not done.
#[cold]
#[inline(never)]
fn finish_all<'s>(
    packets: &mut [Packet],
    notes: &mut [Note],
    sa_of: impl Fn(usize, SaHandle) -> Option<&'s Sa>,
    statuses: &[JobStatus],
) {
    let mut statuses = statuses.iter();
    for (at, (packet, note)) in packets.iter_mut().zip(notes.iter_mut()).enumerate() {
        if note.end.is_some() {
            continue;
        }
        // Whatever was prepared goes nowhere unless it was encrypted.
        let sealed = match sa_of(at, note.sa) {
            Some(sa) => {
                let status = statuses.next().copied().unwrap_or(JobStatus::Failed);
                sa.seal_finish(packet.frame.bytes_mut(), &note.sealing, status)
            }
            None => Err(DropReason::OutCrypto),
        };
        note.end = sealed.err();
    }
}

/// Finds SAs for packets one after the other: most are of the same one as the packet before.
pub(crate) struct SameSa<'s, F> {
    sa_of: F,
    last: Option<(SaHandle, &'s Sa)>,
}

impl<'s, F: Fn(usize, SaHandle) -> Option<&'s Sa>> SameSa<'s, F> {
    pub(crate) fn new(sa_of: F) -> SameSa<'s, F> {
        SameSa { sa_of, last: None }
    }

    /// The SA of the packet at a place in the burst.
    #[inline(always)]
    pub(crate) fn get(&mut self, at: usize, handle: SaHandle) -> Option<&'s Sa> {
        match self.last {
            Some((last, sa)) if last == handle => Some(sa),
            _ => {
                let sa = (self.sa_of)(at, handle)?;
                self.last = Some((handle, sa));
                Some(sa)
            }
        }
    }
}

impl Note {
    #[inline(always)]
    fn exit(&self) -> Exit<'_> {
        match &self.to {
            None => Exit::Ready(&self.adjacency),
            Some(to) => Exit::To(to),
        }
    }

    /// Writes headers and trailer; returns what is to be encrypted, and the high half of the
    /// number, if it counts. The packet's span is then what will be sent.
    #[inline(always)]
    fn prepare<'p>(
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
