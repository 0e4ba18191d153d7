//! Engines must stay inside the packet: vector code likes to read and write whole registers.
//!
//! Packets lie against pages that must not be touched, as the first and last frames of a UMEM do,
//! and between bytes that must not change.

use std::process::Command;
use std::ptr::NonNull;

use crypto::{Job, JobStatus, Keys, Op, Provider, Session, Suite};
use engine_openssl::OpensslProvider;
use ipsec_mb::{CodePath, IpsecMbProvider};

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

/// OpenSSL's engine, and the library's on each of its code paths that this processor has.
fn providers() -> Vec<Box<dyn Provider>> {
    let mut providers: Vec<Box<dyn Provider>> = vec![Box::new(OpensslProvider::new().unwrap())];
    let paths = CodePath::all().filter_map(|path| IpsecMbProvider::on(path).ok());
    providers.extend(paths.map(|provider| Box::new(provider) as Box<dyn Provider>));
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

/// Names the provider that a process of its own is to try.
const PROVIDER: &str = "CULVERT_BOUNDS_PROVIDER";

/// An access to a forbidden page ends the process. Each provider has one of its own, which says what it does next.
#[test]
fn packets_against_forbidden_pages() {
    if let Some(number) = std::env::var_os(PROVIDER) {
        let number: usize = number.to_str().unwrap().parse().unwrap();
        return against_forbidden_pages(&*providers()[number]);
    }
    let mut faults = Vec::new();
    for (number, provider) in providers().iter().enumerate() {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "bounds::packets_against_forbidden_pages", "--nocapture"])
            .env(PROVIDER, number.to_string())
            .output()
            .unwrap();
        if !child.status.success() {
            let said = String::from_utf8_lossy(&child.stdout);
            let last = said.lines().last().unwrap_or_default();
            faults.push(format!("{}: {}: {last}", provider.description(), child.status));
        }
    }
    assert!(faults.is_empty(), "{faults:#?}");
}

fn against_forbidden_pages(provider: &dyn Provider) {
    let (mut low, mut high) = (Guarded::new(), Guarded::new());
    let mut engine = provider.engine().unwrap();
    for suite in Suite::all().filter(|suite| provider.supports(*suite)) {
        let session = session(provider, suite);
        for text_len in text_lens(suite) {
            let len = 8 + suite.iv_len_bytes() + text_len + suite.icv_len_bytes();
            for seq_hi in [None, Some(9)] {
                for op in [Op::Seal, Op::Open] {
                    println!("{suite}, {text_len} bytes of text, {seq_hi:?}, {op:?}");
                    let at_start = &mut low.room()[..len];
                    let at_end = &mut high.room()[ROOM - len..];
                    let mut jobs = [
                        Job::esp(&session, op, at_start, seq_hi),
                        Job::esp(&session, op, at_end, seq_hi),
                    ];
                    engine.run(&mut jobs);
                    assert!(jobs.iter().all(|job| job.status == JobStatus::Done));
                }
            }
        }
    }
}

/// A packet worked on in a copy comes out as it does elsewhere: at each place of a packet's end around a page's.
#[test]
fn the_end_of_a_page_changes_nothing() {
    let mut pages = Guarded::new();
    let page = pages.page;
    let mut providers = providers();
    let openssl = providers.remove(0);
    let mut reference = openssl.engine().unwrap();
    for provider in providers {
        let mut engine = provider.engine().unwrap();
        for suite in Suite::all().filter(|suite| openssl.supports(*suite)) {
            if !provider.supports(suite) {
                continue;
            }
            let (theirs, ours) = (session(&*openssl, suite), session(&*provider, suite));
            for text_len in text_lens(suite).take(24) {
                let len = 8 + suite.iv_len_bytes() + text_len + suite.icv_len_bytes();
                for end in page - 17..=page + 17 {
                    let mut wanted: Vec<u8> = (0..len).map(|at| at as u8).collect();
                    let seen = &mut pages.room()[end - len..end];
                    seen.copy_from_slice(&wanted);
                    for op in [Op::Seal, Op::Open] {
                        let mut job = [Job::esp(&theirs, op, &mut wanted, Some(9))];
                        reference.run(&mut job);
                        assert_eq!(job[0].status, JobStatus::Done);
                        let mut job = [Job::esp(&ours, op, seen, Some(9))];
                        engine.run(&mut job);
                        assert_eq!(job[0].status, JobStatus::Done);
                        let text = 8 + suite.iv_len_bytes()..len - suite.icv_len_bytes();
                        assert_eq!(seen[text.clone()], wanted[text], "{suite} {text_len} {end}");
                        if op == Op::Seal {
                            assert_eq!(*seen, wanted, "{suite} {text_len} {end}");
                        }
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
