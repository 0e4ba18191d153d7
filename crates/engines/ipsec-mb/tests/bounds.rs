//! Engines must stay inside the packet: vector code likes to read and write whole registers.
//!
//! Packets lie against pages that must not be touched, as the first and last frames of a UMEM do,
//! and between bytes that must not change.

use std::ptr::NonNull;

use crypto::{Job, JobStatus, Keys, Op, Provider, Session, Suite};
use engine_openssl::OpensslProvider;
use ipsec_mb::IpsecMbProvider;

/// Bytes that may be used, a multiple of the page size.
const ROOM: usize = 8192;

/// A mapping with an inaccessible page on either side.
struct Guarded {
    base: NonNull<u8>,
    page: usize,
}

impl Guarded {
    fn new() -> Guarded {
        // SAFETY: asks for a constant of the system.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
        assert_eq!(ROOM % page, 0);
        // SAFETY: a fresh private mapping at an address of the kernel's choice.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                ROOM + 2 * page,
                libc::PROT_NONE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        assert_ne!(base, libc::MAP_FAILED);
        // SAFETY: the room starts one page into the mapping and is as long as that.
        let middle = unsafe { base.add(page) };
        // SAFETY: whole pages inside the mapping above.
        let done = unsafe { libc::mprotect(middle, ROOM, libc::PROT_READ | libc::PROT_WRITE) };
        assert_eq!(done, 0);
        Guarded { base: NonNull::new(base.cast()).unwrap(), page }
    }

    fn room(&mut self) -> &mut [u8] {
        // SAFETY: inside the mapping.
        let start = unsafe { self.base.as_ptr().add(self.page) };
        // SAFETY: ROOM bytes from there are mapped, zeroed and borrowed with self.
        unsafe { std::slice::from_raw_parts_mut(start, ROOM) }
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // SAFETY: exactly the mapping that new made; nothing borrows from it any more.
        unsafe { libc::munmap(self.base.as_ptr().cast(), ROOM + 2 * self.page) };
    }
}

fn providers() -> Vec<Box<dyn Provider>> {
    let mut providers: Vec<Box<dyn Provider>> = vec![Box::new(OpensslProvider::new().unwrap())];
    providers.extend(IpsecMbProvider::new().ok().map(|p| Box::new(p) as Box<dyn Provider>));
    providers
}

fn session(provider: &dyn Provider, suite: Suite) -> Session {
    let keys = Keys {
        cipher: vec![1; suite.cipher_key_len_bytes()],
        salt: vec![2; suite.salt_len_bytes()],
        auth: vec![3; suite.auth_key_len_bytes()],
    };
    provider.session(suite, &keys).unwrap()
}

/// Text lengths around the widths of blocks and registers.
fn text_lens(suite: Suite) -> impl Iterator<Item = usize> {
    (0..=160)
        .chain([255, 256, 257, 511, 512, 1023, 1024, 1400])
        .filter(move |len: &usize| len.is_multiple_of(suite.block_bytes()))
}

#[test]
fn packets_against_forbidden_pages() {
    let (mut low, mut high) = (Guarded::new(), Guarded::new());
    for provider in providers() {
        let mut engine = provider.engine().unwrap();
        for suite in Suite::all().filter(|suite| provider.supports(*suite)) {
            let session = session(&*provider, suite);
            for text_len in text_lens(suite) {
                let len = 8 + suite.iv_len_bytes() + text_len + suite.icv_len_bytes();
                for seq_hi in [None, Some(9)] {
                    for op in [Op::Seal, Op::Open] {
                        let at_start = &mut low.room()[..len];
                        let at_end = &mut high.room()[ROOM - len..];
                        let mut jobs = [
                            Job::esp(&session, op, at_start, seq_hi),
                            Job::esp(&session, op, at_end, seq_hi),
                        ];
                        engine.run(&mut jobs);
                        let done = jobs.iter().all(|job| job.status == JobStatus::Done);
                        assert!(done, "{} {suite} {text_len}", provider.name());
                    }
                }
            }
        }
    }
}

#[test]
fn neighbours_stay_as_they_are() {
    const MARGIN: usize = 64;
    for provider in providers() {
        let mut engine = provider.engine().unwrap();
        for suite in Suite::all().filter(|suite| provider.supports(*suite)) {
            let session = session(&*provider, suite);
            let (mut frames, ranges): (Vec<Vec<u8>>, Vec<_>) = text_lens(suite)
                .map(|text_len| {
                    let len = 8 + suite.iv_len_bytes() + text_len + suite.icv_len_bytes();
                    (vec![0xee; MARGIN + len + MARGIN], MARGIN..MARGIN + len)
                })
                .unzip();
            // Sealed, opened, and opened again: the last is refused.
            for (op, want) in [
                (Op::Seal, JobStatus::Done),
                (Op::Open, JobStatus::Done),
                (Op::Open, JobStatus::BadIcv),
            ] {
                let mut jobs: Vec<Job<'_>> = frames
                    .iter_mut()
                    .zip(&ranges)
                    .map(|(frame, range)| {
                        if want == JobStatus::BadIcv {
                            frame[range.start] ^= 1;
                        }
                        Job::esp(&session, op, &mut frame[range.clone()], Some(4))
                    })
                    .collect();
                engine.run(&mut jobs);
                let label = format!("{} {suite} {op:?}", provider.name());
                assert!(jobs.iter().all(|job| job.status == want), "{label}");
                for (frame, range) in frames.iter().zip(&ranges) {
                    let before = &frame[..range.start];
                    let behind = &frame[range.end..];
                    assert!(before.iter().chain(behind).all(|byte| *byte == 0xee), "{label}");
                }
            }
        }
    }
}
