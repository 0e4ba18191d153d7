//! Packets that an SA protects: numbered by the burst, then written and encrypted.
//!
//! What is done here falls in two. Numbers and counters of an SA have one writer, the worker
//! ([`Worker::gather`], [`Worker::seal_gathered`]). The work on the packets themselves,
//! [`seal_all`], touches nothing but the packets, so it may be done by any thread.

use arrayvec::ArrayVec;
use crypto::{Engine, Job, JobStatus, Op};
use esp::{IvSource, Number, Sa};
use io::Packet;
use outcome::DropReason;
use policy::{Reader, SaHandle};
use wire::Headers;

use crate::crypto_pool::HeldSas;
use crate::egress::NextHop;
use crate::ingress::prefetch_headers;
use crate::plan::Adjacency;
use crate::worker::{CRYPTO_BURST_LEN, Worker};

/// What is to be done with a packet that is to be sealed.
///
/// Apart from the packets, and written in place: what is moved whole is moved through memory.
#[derive(Debug)]
pub(crate) struct Note {
    h: Headers,
    sa: SaHandle,
    number: Option<Number>,
    /// Of the path to the peer, in bytes.
    mtu: usize,
    exit: Exit,
    state: Result<esp::Sealing, DropReason>,
}

/// How a sealed packet leaves.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Exit {
    /// By a next hop that is known.
    Ready(Adjacency),
    /// Its neighbour has to be found.
    To(NextHop),
}

/// Packets that are sealed in one run of the engine.
#[derive(Default)]
pub(crate) struct Seals {
    packets: ArrayVec<Packet, CRYPTO_BURST_LEN>,
    /// Each packet's, and what is left of earlier bursts.
    notes: ArrayVec<Note, CRYPTO_BURST_LEN>,
    /// Held while the burst is with another thread: each packet's SA by its place.
    held: HeldSas,
}

impl Seals {
    pub(crate) fn len(&self) -> usize {
        self.packets.len()
    }

    /// Adds a packet; it comes back if the burst is full.
    #[inline(always)]
    fn push(
        &mut self,
        packet: Packet,
        h: &Headers,
        sa: SaHandle,
        mtu: usize,
        exit: Exit,
    ) -> Result<(), Packet> {
        let state = Err(DropReason::OutSequenceExhausted);
        match self.notes.get_mut(self.packets.len()) {
            Some(note) => {
                note.h = *h;
                note.sa = sa;
                note.number = None;
                note.mtu = mtu;
                note.exit = exit;
                note.state = state;
            }
            None => {
                let note = Note { h: *h, sa, number: None, mtu, exit, state };
                if self.notes.try_push(note).is_err() {
                    return Err(packet);
                }
            }
        }
        self.packets.try_push(packet).map_err(|full| full.element())
    }

    /// Holds the packets' SAs.
    pub(crate) fn hold(&mut self, reader: &Reader<Sa>) {
        self.held.hold(reader, self.notes.iter().take(self.packets.len()).map(|note| note.sa));
    }

    /// Asks for all that another core has written last.
    pub(crate) fn prefetch(&self) {
        self.packets.iter().for_each(mem::prefetch_all);
        self.notes.iter().take(self.packets.len()).for_each(mem::prefetch_all);
    }

    /// [`seal_all`] by the SAs that are held.
    pub(crate) fn run(&mut self, engine: &mut dyn Engine, ivs: &mut IvSource) {
        self.prefetch();
        let Seals { packets, notes, held } = self;
        packets.iter().for_each(prefetch_headers);
        seal_all(packets, notes, |at, _| held.get(at).map(|sa| &sa.esp), engine, ivs);
    }

    /// The packets alone, to be dropped.
    pub(crate) fn into_packets(self) -> impl Iterator<Item = Packet> {
        self.packets.into_iter()
    }
}

impl Worker {
    /// Counts a packet with its SA, and adds it to the burst.
    #[inline(always)]
    pub(crate) fn gather(
        &mut self,
        packet: Packet,
        h: &Headers,
        sa: SaHandle,
        mtu: usize,
        exit: Exit,
    ) {
        if self.sealing.packets.is_full() {
            self.seal_gathered();
        }
        let Some(entry) = self.reader.sa(sa) else {
            return self.drop_packet(packet, DropReason::OutStateExpired);
        };
        match entry.esp.payload_len(packet.data(), h) {
            Ok(len) => entry.esp.cells().count(len as u64, self.now.wall_s),
            Err(reason) => return self.drop_packet(packet, reason),
        }
        if let Err(packet) = self.sealing.push(packet, h, sa, mtu, exit) {
            self.drop_packet(packet, DropReason::OutNoRoom);
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
        let burst_len = gathered.packets.len();
        let runs = self.number(gathered.notes.get_mut(..burst_len).unwrap_or_default());
        self.note_spread(runs, burst_len);
        if self.crypto.is_some() {
            self.spare_sealing = Some(self.submit_seals(gathered));
            return;
        }
        let reader = &self.reader;
        let sa_of = |_, sa| reader.sa(sa).map(|entry| &entry.esp);
        let Seals { packets, notes, .. } = &mut *gathered;
        seal_all(packets, notes, sa_of, &mut *self.engine, &mut self.ivs);
        self.send_sealed(&mut gathered);
        self.spare_sealing = Some(gathered);
    }

    /// Gives each packet its number: a run of packets of one SA takes its numbers at once. Returns
    /// how many runs there were.
    fn number(&self, notes: &mut [Note]) -> usize {
        let mut runs = 0;
        let mut rest = notes;
        while let Some(first) = rest.first() {
            let sa = first.sa;
            let run = rest.iter().position(|item| item.sa != sa).unwrap_or(rest.len());
            let (these, others) = rest.split_at_mut(run);
            // No number: the packet is dropped as one for which there is none.
            if let Some(Ok(lease)) = self.reader.sa(sa).map(|entry| entry.esp.lease(run as u32)) {
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
            match (note.state, note.exit) {
                (Ok(_), Exit::Ready(adjacency)) => {
                    encrypted += 1;
                    self.enqueue(adjacency.slot.into(), packet);
                }
                (Ok(_), Exit::To(to)) => {
                    encrypted += 1;
                    self.emit_sealed(packet, to);
                }
                (Err(reason), _) => self.drop_packet(packet, reason),
            }
        }
        seals.held.clear();
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
    for (at, (packet, note)) in packets.iter_mut().zip(notes.iter_mut()).enumerate() {
        let (Some(sa), Some(number)) = (sa_of(at, note.sa), note.number.take()) else { continue };
        note.prepare(packet, sa, number, ivs);
    }
    let mut statuses: ArrayVec<JobStatus, CRYPTO_BURST_LEN> = ArrayVec::new();
    {
        let mut jobs: ArrayVec<Job<'_>, CRYPTO_BURST_LEN> = ArrayVec::new();
        for (at, (packet, note)) in packets.iter_mut().zip(notes.iter()).enumerate() {
            let (Ok(sealing), Some(sa)) = (&note.state, sa_of(at, note.sa)) else { continue };
            let esp = sealing.esp.range();
            let bytes = packet.frame.bytes_mut().get_mut(esp).unwrap_or(&mut []);
            jobs.push(Job::esp(sa.session(), Op::Seal, bytes, sealing.seq_hi));
        }
        engine.run(&mut jobs);
        statuses.extend(jobs.iter().map(|job| job.status));
    }
    let mut statuses = statuses.into_iter();
    for (at, (packet, note)) in packets.iter_mut().zip(notes.iter_mut()).enumerate() {
        let Ok(sealing) = &note.state else { continue };
        // Whatever was prepared goes nowhere unless it was encrypted.
        let sealed = match sa_of(at, note.sa) {
            Some(sa) => {
                let status = statuses.next().unwrap_or(JobStatus::Failed);
                sa.seal_finish(packet.frame.bytes_mut(), sealing, status)
            }
            None => Err(DropReason::OutCrypto),
        };
        match sealed {
            // With a next hop that is known the frame was complete but for the cipher.
            Ok(ip) => {
                if let Exit::To(_) = note.exit {
                    packet.span = ip;
                }
            }
            Err(reason) => note.state = Err(reason),
        }
    }
}

impl Note {
    #[inline(always)]
    fn prepare(&mut self, packet: &mut Packet, sa: &Sa, number: Number, ivs: &mut IvSource) {
        let span = packet.span;
        let buffer = packet.frame.bytes_mut();
        self.state = sa.seal_prepare(buffer, span, &self.h, number, ivs, self.mtu);
        if let (Ok(sealing), Exit::Ready(adjacency)) = (&self.state, &self.exit) {
            match adjacency.frame(buffer, sealing.packet) {
                Some(frame) => packet.span = frame,
                None => self.state = Err(DropReason::OutNoRoom),
            }
        }
    }
}
