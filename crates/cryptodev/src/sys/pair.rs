//! A queue pair.

use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::ptr::{NonNull, null};
use core::slice;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use arrayvec::ArrayVec;

use super::adapter::{Adapter, Session};
use super::raw;

/// Most packets of one call.
pub const BURST_LEN: usize = 64;

/// A packet for the device, in parts. `shim/shim.h` says what it does with each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Packet<'a> {
    /// In front of the body.
    pub front: ArrayVec<u8, 12>,
    /// The IV, if it is in the packet, and the text.
    pub body: &'a [u8],
    /// Where the text begins in it.
    pub text: usize,
    /// Behind it, for a MAC alone.
    pub tail: ArrayVec<u8, 4>,
    /// The ICV that should be; `None`: it is to be made.
    pub icv: Option<&'a [u8]>,
    /// The additional data of a combined mode.
    pub aad: ArrayVec<u8, 12>,
    /// First IV or counter block of the cipher.
    pub iv: [u8; 16],
}

/// Result of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The device has sealed or opened it.
    Done,
    /// The ICV was not as it should be.
    WrongIcv,
    /// The device could not do it.
    Failed,
}

/// A packet that came back.
pub struct Done<'p> {
    /// The number that it was submitted with.
    pub index: u32,
    /// Result of the packet.
    pub outcome: Outcome,
    /// The body, if it is done.
    pub body: &'p [u8],
    /// The ICV, likewise.
    pub icv: &'p [u8],
}

/// A queue pair, and the memory of its packets: any thread's, one at a time.
pub struct Pair {
    adapter: Arc<Adapter>,
    raw: NonNull<raw::Pair>,
    most_len: usize,
    /// The sessions of packets that the device has, by the packets' numbers.
    inside: Vec<Option<Arc<Session>>>,
    _not_sync: PhantomData<*mut ()>,
}

// SAFETY: DPDK wants one thread at a time in a queue pair, and any may be it; `&mut self` sees to the first.
unsafe impl Send for Pair {}

/// Keeps the names of the library's pools apart.
static SERIAL: AtomicU32 = AtomicU32::new(0);

impl Pair {
    /// The queue pair of this number, which the device has, with memory for so many packets of so many bytes. No
    /// other [`Pair`] that is in use has the number.
    ///
    /// `None` if there is no memory.
    pub fn new(adapter: &Arc<Adapter>, pair: u16, packets: u32, most_len: u16) -> Option<Pair> {
        let serial = SERIAL.fetch_add(1, Relaxed);
        // SAFETY: the device is one; the serial number keeps the names apart.
        let raw =
            unsafe { raw::culvert_cd_queue_new(adapter.id(), pair, serial, packets, most_len) };
        Some(Pair {
            adapter: Arc::clone(adapter),
            raw: NonNull::new(raw)?,
            most_len: most_len.into(),
            inside: (0..packets).map(|_| None).collect(),
            _not_sync: PhantomData,
        })
    }

    /// Gives the device packets, at most [`BURST_LEN`], each with a number that no packet inside has, below the number
    /// of packets; how many it has taken, from the front.
    ///
    /// A packet whose parts do not fit, or whose session is another device's, is not taken.
    pub fn submit(&mut self, packets: &[(&Arc<Session>, u32, Packet<'_>)]) -> usize {
        let mut jobs = ArrayVec::<raw::Job, BURST_LEN>::new();
        for (session, index, packet) in packets.iter().take(BURST_LEN) {
            let Some(job) = self.job(session, *index, packet) else { break };
            // As long as the device may read it; so a number that is given twice is seen, too.
            self.keep(*index, Some(Arc::clone(session)));
            jobs.push(job);
        }
        // SAFETY: the queue is ours; as many jobs as are told, whose pointers are to slices of the lengths that they
        // say, borrowed for longer than the call, which copies. Together they fit a packet's memory.
        let taken =
            unsafe { raw::culvert_cd_enqueue(self.raw.as_ptr(), jobs.as_ptr(), jobs.len() as u16) };
        for job in jobs.iter().skip(taken.into()) {
            self.keep(job.index, None);
        }
        taken.into()
    }

    fn keep(&mut self, index: u32, session: Option<Arc<Session>>) {
        if let Some(place) = self.inside.get_mut(index as usize) {
            *place = session;
        }
    }

    fn job(&self, session: &Session, index: u32, packet: &Packet<'_>) -> Option<raw::Job> {
        let transform = session.transform();
        let icv_len = usize::from(transform.icv_len);
        let len = packet.front.len() + packet.body.len() + packet.tail.len() + icv_len;
        let is_whole = packet.icv.is_none_or(|icv| icv.len() == icv_len);
        let fits = len <= self.most_len && packet.text <= packet.body.len() && is_whole;
        let is_free = self.inside.get(index as usize).is_some_and(Option::is_none);
        if !fits || !is_free || !session.is_of(&self.adapter) {
            return None;
        }
        let is_aead = transform.kind == raw::KIND_AEAD;
        Some(raw::Job {
            session: session.raw(),
            body: packet.body.as_ptr(),
            icv: packet.icv.map_or(null(), <[u8]>::as_ptr),
            body_len: packet.body.len() as u32,
            text: packet.text as u32,
            index,
            kind: transform.kind,
            is_ccm: u8::from(is_aead && transform.cipher == raw::AEAD_CCM),
            icv_len: transform.icv_len,
            front_len: packet.front.len() as u8,
            tail_len: packet.tail.len() as u8,
            aad_len: packet.aad.len() as u8,
            front: padded(&packet.front),
            tail: padded(&packet.tail),
            aad: padded(&packet.aad),
            iv: packet.iv,
        })
    }

    /// Takes back at most so many packets, and shows each; how many there were.
    pub fn poll(&mut self, most: usize, mut each: impl FnMut(Done<'_>)) -> usize {
        let mut done = [MaybeUninit::<raw::Done>::uninit(); BURST_LEN];
        let most = most.min(BURST_LEN) as u16;
        // SAFETY: the queue is ours, and there is room for as many as are asked for.
        let count =
            unsafe { raw::culvert_cd_dequeue(self.raw.as_ptr(), done.as_mut_ptr().cast(), most) };
        for done in done.iter().take(count.into()) {
            // SAFETY: the call has written as many as it says.
            let done = unsafe { done.assume_init_ref() };
            let len = |len: u32| usize::try_from(len).unwrap_or(0);
            // SAFETY: the packet's memory is ours until it is released below, and as long as the shim says.
            let body = unsafe { slice::from_raw_parts(done.body, len(done.body_len)) };
            // SAFETY: likewise.
            let icv = unsafe { slice::from_raw_parts(done.icv, len(done.icv_len)) };
            let outcome = match done.status {
                raw::STATUS_DONE => Outcome::Done,
                raw::STATUS_WRONG_ICV => Outcome::WrongIcv,
                _ => Outcome::Failed,
            };
            each(Done { index: done.index, outcome, body, icv });
            self.keep(done.index, None);
        }
        // SAFETY: what the call has written, given back once; nobody looks at it any more.
        unsafe { raw::culvert_cd_release(done.as_ptr().cast(), count) };
        count.into()
    }

    /// Packets that the device has.
    pub fn outside(&self) -> usize {
        // SAFETY: the queue is ours, and nobody writes to it while we are borrowed.
        unsafe { self.raw.as_ref() }.outside as usize
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        if self.outside() > 0 {
            // The device may still read their keys.
            core::mem::forget(core::mem::take(&mut self.inside));
        }
        // SAFETY: ours, and freed once. Memory that the device still has stays.
        unsafe { raw::culvert_cd_queue_free(self.raw.as_ptr()) };
    }
}

fn padded<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut padded = [0; N];
    for (to, from) in padded.iter_mut().zip(bytes) {
        *to = *from;
    }
    padded
}

#[cfg(test)]
mod tests {
    use crypto::{AesKey, IcvLen, Op, Suite};

    use super::*;
    use crate::algorithm::transform;

    const GCM: Suite = Suite::AesGcm { key: AesKey::Aes128, icv: IcvLen::Icv16 };

    /// A device with one queue pair, and a session.
    fn device(name: &str) -> (Arc<Adapter>, Arc<Session>) {
        let arguments = [
            "--no-huge",
            "-m",
            "64",
            "--no-shconf",
            "--no-pci",
            "--no-telemetry",
            "--log-level=error",
            "--lcores=0@0",
            "--vdev=crypto_openssl_given_up",
            "--vdev=crypto_openssl_parts",
            "--vdev=crypto_openssl_at_sym",
            "--vdev=crypto_openssl_other",
        ];
        super::super::start(&arguments.map(str::to_owned)).unwrap();
        let adapter = Arc::new(Adapter::find(name, false).unwrap());
        adapter.bring_up(1, 128, 16).unwrap();
        let session = adapter.session(&transform(GCM, 0).unwrap(), Op::Seal, &[1; 16], &[]);
        (adapter, Arc::new(session.unwrap()))
    }

    fn packet(body: &[u8]) -> Packet<'_> {
        Packet { body, text: 8, aad: [5; 8].into_iter().collect(), ..Packet::default() }
    }

    #[test]
    fn a_device_may_be_called_by_its_address_and_more() {
        let (_adapter, _session) = device("crypto_openssl_other");
        assert!(Adapter::find("crypto_openssl_at", false).is_none());
        assert!(Adapter::find("crypto_openssl_a", true).is_none());
        assert!(Adapter::find("crypto_openssl_at", true).is_some());
        assert!(Adapter::find("crypto_openssl_at", true).is_none(), "somebody has it");
    }

    #[test]
    fn a_packet_that_was_given_up_comes_back_to_nobody() {
        let (adapter, session) = device("crypto_openssl_given_up");
        let mut first = Pair::new(&adapter, 0, 16, 256).unwrap();
        assert_eq!(first.submit(&[(&session, 3, packet(&[7; 40]))]), 1);
        assert_eq!(first.outside(), 1);
        drop(first);
        let mut second = Pair::new(&adapter, 0, 16, 256).unwrap();
        assert_eq!(second.submit(&[(&session, 3, packet(&[8; 72]))]), 1);
        let mut back = Vec::new();
        while second.outside() > 0 {
            second.poll(64, |done| back.push((done.index, done.outcome, done.body.len())));
        }
        assert_eq!(back, [(3, Outcome::Done, 72)]);
    }

    #[test]
    fn parts_that_do_not_fit_are_not_taken() {
        let (adapter, session) = device("crypto_openssl_parts");
        let mut pair = Pair::new(&adapter, 0, 16, 256).unwrap();
        let (short, long) = ([7; 40], [7; 241]);
        let beyond = Packet { text: 41, ..packet(&short) };
        let of_another_length = Packet { icv: Some(&[0; 12]), ..packet(&short) };
        for wrong in [packet(&long), beyond, of_another_length] {
            assert_eq!(pair.submit(&[(&session, 0, wrong)]), 0);
        }
        assert_eq!(pair.submit(&[(&session, 16, packet(&short))]), 0, "no such number");
        let good = || (&session, 0, packet(&short));
        assert_eq!(pair.submit(&[good(), good()]), 1, "a number twice");
        assert_eq!(pair.submit(&[good()]), 0, "the number is inside");
        while pair.outside() > 0 {
            pair.poll(64, |done| assert_eq!(done.outcome, Outcome::Done));
        }
        assert_eq!(pair.submit(&[good(), (&session, 1, packet(&long))]), 1, "up to the wrong one");
    }
}
