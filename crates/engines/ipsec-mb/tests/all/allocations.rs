//! `Engine::run` must not allocate; what the C libraries allocate is not seen here.
//!
//! One exception: OpenSSL says of a forged packet of AES-CCM, other than of one of AES-GCM, why it was refused, and its
//! crate collects that.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use crypto::{Job, JobStatus, Keys, Op, Provider, Session, Suite};
use engine_gm::GmProvider;
use engine_openssl::OpensslProvider;
use ipsec_mb::IpsecMbProvider;

thread_local! {
    static COUNT: Cell<usize> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // A thread that is ending has no counter any more.
        let _ = COUNT.try_with(|count| count.set(count.get() + 1));
        // SAFETY: the caller keeps GlobalAlloc's contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn run_allocates_nothing() {
    let mut providers: Vec<Box<dyn Provider>> = vec![Box::new(OpensslProvider::new().unwrap())];
    providers.extend(IpsecMbProvider::new().ok().map(|p| Box::new(p) as Box<dyn Provider>));
    providers.extend(GmProvider::all().map(|p| Box::new(p) as Box<dyn Provider>));
    for provider in providers {
        let mut engine = provider.engine().unwrap();
        let sessions: Vec<_> = Suite::all()
            .filter(|suite| provider.supports(*suite))
            .map(|suite| {
                let keys = Keys {
                    cipher: vec![1; suite.cipher_key_len_bytes()],
                    salt: vec![2; suite.salt_len_bytes()],
                    auth: vec![3; suite.auth_key_len_bytes()],
                };
                provider.session(suite, &keys).unwrap()
            })
            .collect();
        for (forge, want) in [(false, JobStatus::Done), (true, JobStatus::BadIcv)] {
            let explains = |session: &&Session| {
                let is_ccm = matches!(session.suite(), Suite::AesCcm { .. });
                forge && is_ccm && provider.name() == "openssl"
            };
            let sessions: Vec<_> = sessions.iter().filter(|session| !explains(session)).collect();
            let mut packets: Vec<Vec<u8>> = sessions
                .iter()
                .map(|s| vec![0; 8 + s.suite().iv_len_bytes() + 64 + s.suite().icv_len_bytes()])
                .collect();
            for op in [Op::Seal, Op::Open] {
                let mut jobs: Vec<Job<'_>> = sessions
                    .iter()
                    .zip(&mut packets)
                    .map(|(session, packet)| {
                        if forge && op == Op::Open {
                            packet[0] ^= 1;
                        }
                        Job::esp(session, op, packet, Some(1))
                    })
                    .collect();
                let before = COUNT.get();
                engine.run(&mut jobs);
                let allocated = COUNT.get() - before;
                assert_eq!(allocated, 0, "{} {op:?} forged: {forge}", provider.name());
                let want = if op == Op::Seal { JobStatus::Done } else { want };
                assert!(jobs.iter().all(|job| job.status == want));
            }
        }
    }
}
