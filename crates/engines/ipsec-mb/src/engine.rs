//! Runs jobs.
//!
//! For each stretch of at most [`STRETCH_LEN`] jobs:
//! 1. keys and packets are asked for some jobs ahead ([`Ahead`]); each job's session is recognised
//!    and its lengths are checked; AES-GCM and AES-GMAC run at once ([`gcm`](crate::gcm),
//!    [`gmac`](crate::gmac));
//! 2. the first other job begins a burst of its class, which all jobs of that class join
//!    ([`burst`](crate::burst)); the burst runs;
//! 3. jobs of other classes are gone through again, until none is left.

use crypto::{Engine, EngineError, Job, JobStatus, Maker, Session, Suite};

use crate::burst::{Burst, Class, STRETCH_LEN};
use crate::code_path::CodePath;
use crate::gcm::Gcm;
use crate::gmac::Gmac;
use crate::keys;
use crate::manager::Manager;

/// One worker's engine.
pub(crate) struct IpsecMbEngine {
    maker: Maker,
    manager: Manager,
    gcm: Gcm,
    gmac: Gmac,
    burst: Burst,
}

impl IpsecMbEngine {
    /// Sets up a manager and all memory that running needs.
    pub(crate) fn new(path: CodePath) -> Result<IpsecMbEngine, EngineError> {
        let maker = keys::maker()?;
        let mut manager = Manager::new(path)?;
        let gcm = Gcm::new(&mut manager);
        let gmac = Gmac::new(&manager);
        Ok(IpsecMbEngine { maker, manager, gcm, gmac, burst: Burst::new() })
    }

    /// The numbered steps of the module's documentation, for at most [`STRETCH_LEN`] jobs.
    fn stretch(&mut self, jobs: &mut [Job<'_>]) {
        let mut left = self.pass(jobs, u64::MAX);
        while left != 0 {
            left = self.pass(jobs, left);
        }
    }

    /// Runs those jobs whose bit is set in `left` and that are AES-GCM or AES-GMAC, or of the class of the
    /// first that is neither; returns the bits of the others.
    #[inline]
    fn pass(&mut self, jobs: &mut [Job<'_>], left: u64) -> u64 {
        let IpsecMbEngine { maker, manager, gcm, gmac, burst } = self;
        let (mut class, mut later) = (None, 0);
        let mut ahead = Ahead { maker: *maker, near: None };
        let distance = distance(jobs.first().map_or(0, |job| job.packet.len()));
        jobs.iter().take(distance).for_each(|next| ahead.ask(next));
        for number in 0..jobs.len() {
            if let Some(next) = jobs.get(number + distance) {
                ahead.ask(next);
            }
            let bit = 1 << number;
            let Some(job) = jobs.get_mut(number) else { break };
            if left & bit == 0 {
                continue;
            }
            job.status = JobStatus::Failed;
            let Some((suite, lines)) = job.session.keys(*maker) else {
                continue;
            };
            if let Suite::AesGcm { key, .. } = suite {
                job.status = gcm.run(job, lines, suite, key);
                continue;
            }
            let Some((found, layout)) = Class::of(job, suite) else {
                if let Suite::AesGmac { key } = suite {
                    job.status = gmac.run(job, lines, suite, key);
                }
                continue;
            };
            if *class.get_or_insert_with(|| {
                burst.begin(manager, found);
                found
            }) != found
            {
                later |= bit;
            } else if burst.enter(manager, number, job, layout, lines) {
                job.status = JobStatus::Pending;
            }
        }
        if class.is_some() {
            burst.run(manager, jobs);
        }
        later
    }
}

/// Prefetches of keys, ahead of their jobs.
struct Ahead<'a> {
    maker: Maker,
    /// The session whose keys were asked for last, and for which length of a packet.
    near: Option<(&'a Session, usize)>,
}

impl<'a> Ahead<'a> {
    /// Brings near what a job reads: its keys, unless they are those of the job before; and the
    /// packet beyond its first line, which writing or looking at its headers has touched.
    #[inline(always)]
    fn ask(&mut self, job: &Job<'a>) {
        let (session, len) = (job.session, job.packet.len());
        // A longer packet reads more of them.
        let is_near = self.near.is_some_and(|(last, of)| core::ptr::eq(last, session) && len <= of);
        if !is_near {
            self.ask_for_keys(session, len);
        }
        let mut at = mem::LINE_LEN;
        while at < len {
            mem::prefetch_at(job.packet, at);
            at += mem::LINE_LEN;
        }
        // Packets do not begin with a line: their end, the ICV, may be in one more.
        mem::prefetch_at(job.packet, len.wrapping_sub(1));
    }

    /// Brings near the keys that a packet of `len` bytes reads.
    #[inline(never)]
    fn ask_for_keys(&mut self, session: &'a Session, len: usize) {
        let Some((suite, lines)) = session.keys(self.maker) else { return };
        keys::prefetch(lines, suite, len);
        self.near = Some((session, len));
    }
}

/// How many jobs ahead keys and packets are asked for, by the length of the first of them.
///
/// Fewer when they are long: a core has only so many lines under way, and what is asked for beyond
/// that waits, and all that follows with it.
fn distance(len: usize) -> usize {
    (LINES_AHEAD / len.div_ceil(mem::LINE_LEN).max(1)).clamp(2, MAX_AHEAD)
}

/// How many lines of packets are asked for ahead, about.
const LINES_AHEAD: usize = 72;

/// How many jobs ahead at most.
const MAX_AHEAD: usize = 6;

impl Engine for IpsecMbEngine {
    fn run(&mut self, jobs: &mut [Job<'_>]) {
        for stretch in jobs.chunks_mut(STRETCH_LEN) {
            self.stretch(stretch);
        }
    }
}
