//! ESP packets whose SA is known: decrypted by the burst, then accepted one after the other.
//!
//! What is done here falls in two, as with packets that are sealed. The work on the packets
//! themselves, [`open_all`], touches nothing but the packets, so it may be done by any thread. The
//! replay window and the counters of an SA have one writer at a time ([`Worker::accept_all`]).

use core::net::IpAddr;
use core::sync::atomic::Ordering::Relaxed;

use arrayvec::ArrayVec;
use crypto::{Engine, Job, JobStatus, Op};
use esp::{Content, Sa};
use io::Packet;
use mem::Cache;
use outcome::{DropReason, Outcome};
use policy::{SaHandle, Volume};
use wire::Brief;

use crate::flow_cache::Ingress;
use crate::guess::Guess;
use crate::ingress::{AGAIN, Head, Heads};
use crate::sealing::SameSa;
use crate::volume::check_volume;
use crate::worker::{CRYPTO_BURST_LEN, Worker};

/// What is to be done with a packet that is to be opened.
///
/// Apart from the packets, and written in place: what is moved whole is moved through memory.
#[derive(Debug)]
pub(crate) struct Note {
    outer: Brief,
    pub(crate) sa: SaHandle,
    /// Which flow it may be of.
    pub(crate) guess: Guess,
    pub(crate) opening: esp::Opening,
    /// Where it came from, if it is encapsulated in UDP.
    from: Option<(IpAddr, u16)>,
    ifindex: u32,
    /// Whether it went through the engine: its SA was still there.
    has_job: bool,
    content: Result<Content, DropReason>,
}

/// Packets that are opened in one run of the engine, and what was inside, once that is known.
#[derive(Default)]
pub(crate) struct Opens {
    pub(crate) packets: ArrayVec<Packet, CRYPTO_BURST_LEN>,
    /// Each packet's, and what is left of earlier bursts.
    pub(crate) notes: ArrayVec<Note, CRYPTO_BURST_LEN>,
    pub(crate) heads: Heads,
}

impl Opens {
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

    /// Adds a packet; it comes back if the burst is full.
    #[inline(always)]
    pub(crate) fn push(
        &mut self,
        packet: Packet,
        head: &Head,
        (sa, guess): (SaHandle, Guess),
        opening: esp::Opening,
        from: Option<(IpAddr, u16)>,
    ) -> Result<(), Packet> {
        packet.prefetch_content();
        let (outer, ifindex) = (head.digest.brief, head.ingress.ifindex);
        match self.notes.get_mut(self.packets.len()) {
            Some(note) => {
                note.outer = outer;
                (note.sa, note.guess) = (sa, guess);
                note.opening = opening;
                // Not as a whole: most often there is none.
                match from {
                    None => note.from = None,
                    Some(from) => note.from = Some(from),
                }
                note.ifindex = ifindex;
            }
            None => {
                let content = Err(DropReason::InCrypto);
                let has_job = false;
                let note = Note { outer, sa, guess, opening, from, ifindex, has_job, content };
                // As many as there are packets.
                let _ = self.notes.try_push(note);
            }
        }
        self.packets.try_push(packet).map_err(|full| full.element())
    }

    /// The SAs of the packets, in their order.
    pub(crate) fn sas(&self) -> impl DoubleEndedIterator<Item = SaHandle> {
        self.notes.iter().zip(&self.packets).map(|(note, _)| note.sa)
    }
}

impl Worker {
    /// Runs the gathered packets through the engine and moves on what came out.
    pub(crate) fn open_gathered(&mut self) {
        if self.opening.packets.is_empty() {
            return;
        }
        let Some(mut gathered) = self.spare_opening.take() else { return };
        core::mem::swap(&mut gathered, &mut self.opening);
        self.open(&mut gathered);
        self.accept_all(&mut gathered);
        self.spare_opening = Some(gathered);
    }

    /// Runs a burst through the engine, and looks inside. Writes nothing but the packets and the burst.
    pub(crate) fn open(&mut self, gathered: &mut Opens) {
        let len = gathered.len();
        let (mut last, mut runs) = (None, 0);
        for sa in gathered.sas() {
            runs += usize::from(last != Some(sa));
            last = Some(sa);
        }
        self.note_spread(runs, len);
        if self.is_spread {
            // Their flows' plans have come; what those count comes while the cipher computes.
            let places = gathered.notes.iter().take(len).filter_map(|note| note.guess.place());
            places.for_each(|place| {
                self.look_at_plan(Cache::First, place);
            });
            self.ask_again(gathered.sas(), |sa| sa.prefetch_to_open(Cache::First));
        }
        let reader = &self.reader;
        let sa_of = |_, sa| reader.sa(sa).map(|entry| &entry.esp);
        let Opens { packets, notes, heads } = gathered;
        open_all(packets, notes, heads, sa_of, &mut *self.engine);
    }

    /// Accepts what has been decrypted, in the order of arrival, moves it on in the passes of every
    /// burst, and empties the burst.
    pub(crate) fn accept_all(&mut self, opens: &mut Opens) {
        let is_spread = self.is_spread;
        let Opens { packets, notes, heads } = opens;
        // Those of earlier bursts may follow.
        let notes = notes.get(..packets.len()).unwrap_or_default();
        let mut rest = notes.iter();
        if is_spread {
            rest.by_ref().take(AGAIN).for_each(|next| self.look_at_note(next));
        }
        let each = packets.iter_mut().zip(notes).zip(heads.iter_mut());
        for ((packet, note), head) in each {
            if is_spread && let Some(next) = rest.next() {
                self.look_at_note(next);
            }
            if head.end.is_none() {
                self.seek(head, note.guess);
                // Where the guess was right: its plan is near now.
                if is_spread && !head.is_sought {
                    self.look_at_tallies(head);
                }
            }
            if let Err(outcome) = self.accept(packet, note) {
                head.end = Some(outcome);
            }
        }
        self.find_all(heads);
        if is_spread {
            self.look_at_plans(heads, notes);
        }
        let mut heads = heads.iter();
        for packet in packets.drain(..) {
            if let Some(place) = heads.as_slice().get(AGAIN).and_then(|next| next.place) {
                self.flows.prefetch_at(Cache::First, place);
            }
            match heads.next() {
                Some(head) => self.enter(packet, head, None),
                // There are as many.
                None => self.drop_packet(packet, DropReason::InCrypto),
            }
        }
    }

    /// Finds the place of a decrypted packet's flow, or says by what it is to be looked for.
    #[inline(always)]
    fn seek(&self, head: &mut Head, guess: Guess) {
        match guess.place().filter(|place| self.flows.is_of(*place, &head.key())) {
            Some(place) => (head.is_sought, head.place) = (false, Some(place)),
            None => head.seek(&self.flows),
        }
    }

    /// Whether a packet may go on that was decrypted: the SA's limits, the replay window, and
    /// where it came from.
    #[inline(always)]
    fn accept(&mut self, packet: &mut Packet, note: &Note) -> Result<(), Outcome> {
        let sa = self.reader.sa(note.sa).ok_or(DropReason::InStateExpired)?;
        // Most packets: nothing is near a limit, nothing is to be told.
        let (cells, buffer) = (sa.esp.cells(), packet.frame.bytes_mut());
        if sa.is_below_alarms(cells.bytes().load(Relaxed), cells.packets().load(Relaxed))
            && sa.state().is_usable()
            && note.content.is_ok_and(|content| content.is_whole())
            && note.from.is_none()
        {
            sa.esp.open_accept(buffer, &note.opening, note.content, self.now.wall_s)?;
            self.counters.work.decrypted.add(1);
            return Ok(());
        }
        self.accept_any(packet, note)
    }

    /// [`Worker::accept`] for every packet.
    #[inline(never)]
    fn accept_any(&mut self, packet: &mut Packet, note: &Note) -> Result<(), Outcome> {
        let sa = self.reader.sa(note.sa).ok_or(DropReason::InStateExpired)?;
        // Before this packet is counted, so that a limit of n packets lets n through.
        let volume = if note.content.is_ok() { check_volume(sa) } else { Volume::Within };
        let is_over = matches!(volume, Volume::HardReached | Volume::Unusable);
        let buffer = packet.frame.bytes_mut();
        let accepted = match is_over {
            true => Err(DropReason::InStateExpired),
            false => sa.esp.open_accept(buffer, &note.opening, note.content, self.now.wall_s),
        };
        let is_packet = accepted.is_ok() && !note.content.is_ok_and(|content| content.is_dummy());
        let moved = note
            .from
            .filter(|(src, port)| is_packet && !is_mapping_of(&sa.config.params, *src, *port));
        if volume != Volume::Within || moved.is_some() {
            let id = sa.config.id();
            self.tell_volume(id, volume);
            if let Some((src, port)) = moved {
                self.tell_mapping(id, src, port);
            }
        }
        accepted?;
        if !is_packet {
            return Err(Outcome::Consumed);
        }
        self.counters.work.decrypted.add(1);
        Ok(())
    }
}

/// Decrypts, and finds out what was inside: each packet's span is then the inner packet, and each
/// has a head.
///
/// `sa_of` says which SA a packet, told by its place in the burst and by its handle, is of; without
/// one it is not opened.
pub(crate) fn open_all<'s>(
    packets: &mut [Packet],
    notes: &mut [Note],
    heads: &mut Heads,
    sa_of: impl Fn(usize, SaHandle) -> Option<&'s Sa>,
    engine: &mut dyn Engine,
) {
    let mut statuses: ArrayVec<JobStatus, CRYPTO_BURST_LEN> = ArrayVec::new();
    {
        let mut sas = SameSa::new(&sa_of);
        let mut jobs: ArrayVec<Job<'_>, CRYPTO_BURST_LEN> = ArrayVec::new();
        for (at, (packet, note)) in packets.iter_mut().zip(notes.iter_mut()).enumerate() {
            let sa = sas.get(at, note.sa);
            note.has_job = sa.is_some();
            let Some(sa) = sa else { continue };
            let esp = note.opening.esp.range();
            let bytes = packet.frame.bytes_mut().get_mut(esp).unwrap_or(&mut []);
            // As many as there are packets.
            let _ = jobs.try_push(Job::esp(sa.session(), Op::Open, bytes, note.opening.seq_hi));
        }
        engine.run(&mut jobs);
        statuses.extend(jobs.iter().map(|job| job.status));
    }
    let mut statuses = statuses.into_iter();
    let heads = heads.places(packets.len());
    let mut each = packets.iter_mut();
    for (note, head) in notes.iter_mut().zip(heads) {
        let Some(packet) = each.next() else { break };
        if let Some(next) = each.as_slice().get(AGAIN) {
            prefetch_decrypted(next);
        }
        let found = match note.has_job {
            true => note.look_inside(packet, statuses.next(), head),
            false => Err(DropReason::InStateExpired.into()),
        };
        if let Err(outcome) = found {
            head.end = Some(outcome);
        }
    }
}

/// Asks for what is read of a packet that was decrypted: its first two lines, with the inner header,
/// and the one with the trailer. A burst and all about it do not stay in a first-level cache of 32 KiB.
#[inline(always)]
fn prefetch_decrypted(packet: &Packet) {
    let trailer_at = packet.span.len.wrapping_sub(TRAILER_AND_ICV);
    for at in [0, mem::LINE_LEN, trailer_at] {
        packet.prefetch(Cache::First, at);
    }
}

/// How far from a packet's end its trailer is, about, in bytes.
const TRAILER_AND_ICV: usize = 2 + 16;

impl Note {
    #[inline(always)]
    fn look_inside(
        &mut self,
        packet: &mut Packet,
        status: Option<JobStatus>,
        head: &mut Head,
    ) -> Result<(), Outcome> {
        let status = status.unwrap_or(JobStatus::Failed);
        let outer = (packet.span, self.outer);
        let buffer = packet.frame.bytes_mut();
        self.content = self.opening.content(buffer, outer, status, &mut head.digest);
        let content = self.content?;
        if let Some(span) = content.span() {
            packet.span = span;
        }
        if !content.is_whole() {
            return Err(content.broken().map_or(Outcome::Consumed, Outcome::from));
        }
        let ingress = Ingress { ifindex: self.ifindex, via: Some(self.sa) };
        head.enter(ingress, true);
        Ok(())
    }
}

/// Whether a UDP-encapsulated packet came from where the SA has its peer.
fn is_mapping_of(params: &esp::SaParams, src: IpAddr, src_port: u16) -> bool {
    params.src == src && params.encap.is_some_and(|e| e.src_port == src_port)
}
