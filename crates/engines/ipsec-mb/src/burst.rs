//! Everything but AES-GCM and AES-GMAC: packets of one suite and direction go through the library together.
//!
//! 1. An entry is made for each job. Where extended sequence numbers are in use, HMAC suites get
//!    the high half where the ICV is (RFC 4303 §2.2.1), and the received ICV is kept.
//! 2. `Seal`: AES-CBC over all, HMAC over all; `Open`: HMAC over all. ChaCha20-Poly1305 and what the scheduler
//!    runs whole.
//! 3. `Open`: tags are compared; what did not verify is zeroised if it is plaintext.
//! 4. `Open` with AES-CBC: what verified is decrypted. Decryption has no lanes to fill, so packets
//!    that did not verify cost the others nothing.

use arrayvec::ArrayVec;
use crypto::{Cipher, Job, JobStatus, KeyLine, Layout, Op, Suite, esn_aad};
use ipsec_mb_sys as sys;

use crate::edge::Edge;
use crate::keys::Placed;
use crate::manager::{ChaChas, Entry, Manager, Packets, Shape};
use crate::scheduled;
use crate::slot::{MAX_PACKET_LEN, NO_SLOT, SEQ_HI_LEN, Slot};
use crate::suites::cbc_hmac;
use crate::tag::equal;

/// How many jobs are worked on together.
pub(crate) const STRETCH_LEN: usize = sys::BURST_LEN;

/// Kind of jobs that may run together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// ChaCha20-Poly1305 (RFC 7634).
    ChaCha(Op),
    /// HMAC, with AES-CBC or without.
    Hmac(Shape),
    /// Whatever the library's scheduler runs.
    Scheduled(Op),
}

impl Class {
    /// The class of a job whose session has this suite, and where the parts of its packet lie;
    /// `None` if the lengths do not fit the suite, or if the suite is none of those.
    #[inline]
    pub(crate) fn of(job: &Job<'_>, suite: Suite) -> Option<(Class, Layout)> {
        let (len, op) = (job.packet.len(), job.op);
        let layout = Layout::of(suite, job.header_len, len, job.seq_hi.is_some())?;
        if len > MAX_PACKET_LEN {
            return None;
        }
        let class = match suite {
            Suite::ChaCha20Poly1305 => Class::ChaCha(op),
            Suite::Separate { cipher, integrity } => {
                match cbc_hmac(cipher, integrity) {
                    Some((key, hmac)) => {
                        // An empty text is nothing to encrypt, and the library does not take it.
                        let key = key.filter(|_| layout.icv > layout.text);
                        Class::Hmac(Shape { op, hmac, key })
                    }
                    None => Class::Scheduled(op),
                }
            }
            Suite::AesCcm { .. } => Class::Scheduled(op),
            Suite::AesGcm { .. } | Suite::AesGmac { .. } | Suite::Sm4Gcm { .. } | Suite::None => {
                return None;
            }
        };
        Some((class, layout))
    }
}

/// One worker's room for a burst.
pub(crate) struct Burst {
    class: Class,
    members: ArrayVec<Member, STRETCH_LEN>,
    /// Slots of the members, by their numbers.
    slots: Box<[Slot; STRETCH_LEN]>,
    /// Requests for ChaCha20-Poly1305, by the members' numbers.
    chachas: Box<ChaChas>,
    /// Requests for the scheduler, by the members' numbers.
    packets: Box<Packets>,
    edge: Edge,
}

// SAFETY: the raw pointers in `chachas` and `packets` are used only inside `run`, and forgotten by the next
// `begin`; everything they point to is borrowed from `enter` until `run`.
unsafe impl Send for Burst {}

/// A job of the burst.
#[derive(Clone, Copy)]
struct Member {
    /// Number of the job in the stretch.
    job: u8,
    /// True if the high half of the sequence number is where the ICV was.
    moved: bool,
    /// Where the text and the ICV start.
    text: u16,
    icv: u16,
}

impl Burst {
    /// An empty one.
    pub(crate) fn new() -> Burst {
        Burst {
            class: Class::ChaCha(Op::Seal),
            members: ArrayVec::new(),
            slots: Box::new([NO_SLOT; STRETCH_LEN]),
            chachas: Box::default(),
            packets: Box::default(),
            edge: Edge::new(),
        }
    }

    /// Begins a burst of a class.
    #[inline]
    pub(crate) fn begin(&mut self, manager: &mut Manager, class: Class) {
        self.class = class;
        self.members.clear();
        self.chachas.clear();
        self.packets.clear();
        if let Class::Hmac(shape) = class {
            manager.shape(shape);
        }
    }

    /// Step 1: enters a job of the burst's class with its layout, from [`Class::of`], and the lines
    /// of its session; `number` is its place among the jobs that [`Burst::run`] gets. Its packet
    /// and session stay untouched until then.
    ///
    /// False if it does not fit after all.
    #[inline]
    pub(crate) fn enter(
        &mut self,
        manager: &mut Manager,
        number: usize,
        job: &mut Job<'_>,
        layout: Layout,
        lines: &[KeyLine],
    ) -> bool {
        let at = self.members.len();
        let Some(slot) = self.slots.get_mut(at) else { return false };
        let moved = match self.class {
            Class::ChaCha(op) => {
                let Some(entry) = chacha(job, layout, op, Placed::new(lines), slot) else {
                    return false;
                };
                // There is room: as much as for members.
                let _ = self.chachas.try_push(entry);
                false
            }
            Class::Hmac(shape) => {
                let Some(entry) = hmac(job, layout, shape, Placed::new(lines), slot) else {
                    return false;
                };
                manager.enter(at, shape, entry);
                job.seq_hi.is_some()
            }
            Class::Scheduled(op) => {
                let keys = Placed::new(lines);
                let Some((entry, moved)) = scheduled::entry(job, layout, op, keys, slot) else {
                    return false;
                };
                if Edge::concerns(&entry, job.packet) {
                    if !self.edge.run(manager, entry, job.packet) {
                        return false;
                    }
                } else {
                    // There is room: as much as for members.
                    let _ = self.packets.try_push(entry);
                }
                moved
            }
        };
        let (text, icv) = (layout.text as u16, layout.icv as u16);
        self.members.try_push(Member { job: number as u8, moved, text, icv }).is_ok()
    }

    /// Steps 2 to 4 for the jobs that were entered: sets their statuses.
    pub(crate) fn run(&mut self, manager: &mut Manager, jobs: &mut [Job<'_>]) {
        let n = self.members.len();
        if n == 0 {
            return;
        }
        match self.class {
            Class::ChaCha(op) => {
                // SAFETY: `chacha` took every pointer from a job's own packet, its session or its
                // own slot; they are borrowed since, and nobody has touched the packets.
                let ran = unsafe { manager.chacha(&self.chachas, op) };
                match op {
                    Op::Seal => self.sealed(jobs, ran),
                    Op::Open => {
                        self.verify(jobs, ran, Text::Plain);
                    }
                }
            }
            Class::Scheduled(op) => {
                // SAFETY: as above, by `scheduled`.
                let ran = unsafe { manager.scheduled(&self.packets) };
                match op {
                    Op::Seal => self.sealed(jobs, ran),
                    Op::Open => {
                        self.verify(jobs, ran, Text::Plain);
                    }
                }
            }
            Class::Hmac(Shape { op: Op::Seal, hmac, key }) => {
                // SAFETY: `begin` and `enter` were for this shape; `hmac` took every pointer as
                // above, and `Class::of` has checked the lengths.
                let ran = key.is_none_or(|key| unsafe { manager.cipher(0, n, key, Op::Seal) });
                // SAFETY: as above.
                let ran = ran && unsafe { manager.hash(n, hmac) };
                self.sealed(jobs, ran);
            }
            Class::Hmac(Shape { op: Op::Open, hmac, key }) => {
                // SAFETY: as above.
                let ran = unsafe { manager.hash(n, hmac) };
                let text = if key.is_some() { Text::Encrypted } else { Text::Plain };
                let mut verified = self.verify(jobs, ran, text);
                while let Some(key) = key
                    && verified != 0
                {
                    let from = verified.trailing_zeros() as usize;
                    let count = (verified >> from).trailing_ones() as usize;
                    // Adding to the lowest bit of a run of ones clears the run.
                    verified &= verified.wrapping_add(1 << from);
                    // SAFETY: as above; since the hash the packets have only been read.
                    let ran = unsafe { manager.cipher(from, count, key, Op::Open) };
                    self.decrypted(jobs, from, count, ran);
                }
            }
        }
    }

    /// Step 3 of `Seal`.
    fn sealed(&self, jobs: &mut [Job<'_>], ran: bool) {
        for (member, slot) in self.members.iter().zip(&*self.slots) {
            let Some(job) = jobs.get_mut(usize::from(member.job)) else { continue };
            job.status = if ran { JobStatus::Done } else { JobStatus::Failed };
            if ran
                && member.moved
                && let Some(icv) = job.packet.get_mut(usize::from(member.icv)..)
                && let Some(tag) = slot.tag.get(..icv.len())
            {
                icv.copy_from_slice(tag);
            }
        }
    }

    /// Step 3 of `Open`: the bits of those members that verified. Statuses are final where the text
    /// is plain or did not verify.
    fn verify(&self, jobs: &mut [Job<'_>], ran: bool, text: Text) -> u64 {
        let mut all = 0;
        for ((at, member), slot) in self.members.iter().enumerate().zip(&*self.slots) {
            let Some(job) = jobs.get_mut(usize::from(member.job)) else { continue };
            let icv = job.packet.get(usize::from(member.icv)..).unwrap_or_default();
            let received = if member.moved { slot.received.get(..icv.len()) } else { Some(icv) };
            let verified = match (slot.tag.get(..icv.len()), received) {
                (Some(tag), Some(received)) => ran && equal(tag, received),
                _ => false,
            };
            if verified {
                all |= 1 << at;
                job.status = JobStatus::Done;
            } else {
                job.status = if ran { JobStatus::BadIcv } else { JobStatus::Failed };
                if text == Text::Plain {
                    member.wipe(job);
                }
            }
        }
        all
    }

    /// Step 4's end for `count` members from the one at `from`.
    fn decrypted(&self, jobs: &mut [Job<'_>], from: usize, count: usize, ran: bool) {
        if ran {
            return;
        }
        for member in self.members.iter().skip(from).take(count) {
            if let Some(job) = jobs.get_mut(usize::from(member.job)) {
                job.status = JobStatus::Failed;
                member.wipe(job);
            }
        }
    }
}

impl Member {
    /// Zeroises the text.
    fn wipe(self, job: &mut Job<'_>) {
        if let Some(text) = job.packet.get_mut(usize::from(self.text)..usize::from(self.icv)) {
            text.fill(0);
        }
    }
}

/// State of a text when its ICV is compared.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Text {
    /// Decrypted already, or never encrypted.
    Plain,
    /// Still to be decrypted.
    Encrypted,
}

/// The entry of a ChaCha20-Poly1305 job.
#[inline]
fn chacha(
    job: &mut Job<'_>,
    layout: Layout,
    op: Op,
    keys: Placed<'_>,
    slot: &mut Slot,
) -> Option<sys::ChaCha> {
    let (header, rest) = job.packet.split_at_checked(layout.iv)?;
    let (salt, iv) = slot.nonce.split_first_chunk_mut::<4>()?;
    *salt = keys.chacha_salt().to_ne_bytes();
    *iv.first_chunk_mut::<8>()? = *rest.first_chunk()?;
    if let Some(hi) = job.seq_hi {
        slot.aad = esn_aad(header, hi)?;
    }
    let packet = job.packet.as_mut_ptr();
    let (aad, aad_len) = match job.seq_hi {
        None => (packet.cast_const(), layout.iv),
        Some(_) => (slot.aad.as_ptr(), slot.aad.len()),
    };
    Some(sys::ChaCha {
        key: keys.keys(),
        nonce: slot.nonce.as_ptr(),
        aad,
        text: packet.wrapping_add(layout.text),
        tag: match op {
            Op::Seal => packet.wrapping_add(layout.icv),
            Op::Open => slot.tag.as_mut_ptr(),
        },
        text_len: (layout.icv - layout.text) as u32,
        aad_len: aad_len as u32,
    })
}

/// The entry of a job with HMAC; on `Seal` the tag goes into the packet, unless the high half of
/// the sequence number is there.
#[inline]
fn hmac(
    job: &mut Job<'_>,
    layout: Layout,
    shape: Shape,
    keys: Placed<'_>,
    slot: &mut Slot,
) -> Option<Entry> {
    // Of the session, not of the shape: an empty text is not encrypted, and its keys lie where
    // the suite has them.
    let key = match job.session.suite() {
        Suite::Separate { cipher: Cipher::AesCbc(key), .. } => Some(key),
        _ => None,
    };
    let mut behind = 0;
    if let Some(hi) = job.seq_hi {
        let icv = job.packet.get_mut(layout.icv..)?;
        slot.received.get_mut(..icv.len())?.copy_from_slice(icv);
        *icv.first_chunk_mut()? = hi.to_be_bytes();
        behind = SEQ_HI_LEN;
    }
    let packet = job.packet.as_mut_ptr();
    Some(Entry {
        keys: match (shape.op, key) {
            (Op::Open, Some(key)) => keys.decryption(key),
            _ => keys.keys(),
        },
        mac: keys.mac(key),
        packet,
        tag: match (shape.op, job.seq_hi) {
            (Op::Seal, None) => packet.wrapping_add(layout.icv),
            _ => slot.tag.as_mut_ptr(),
        },
        text: layout.text as u16,
        text_len: (layout.icv - layout.text) as u16,
        behind,
    })
}
