//! Runs jobs.
//!
//! For each stretch of at most [`STRETCH_LEN`] jobs:
//! 1. keys and packets are asked for some jobs ahead ([`Ahead`]); each job's session is recognised
//!    and its lengths are checked; AES-GCM runs at once ([`gcm`](crate::gcm));
//! 2. the first other job begins a burst of its class, which all jobs of that class join
//!    ([`burst`](crate::burst)); the burst runs;
//! 3. jobs of other classes are gone through again, until none is left.

use crypto::{Engine, EngineError, Job, JobStatus, Maker, Session, Suite};

use crate::burst::{Burst, Class, STRETCH_LEN};
use crate::gcm::{Expanded, Gcm};
use crate::keys;
use crate::manager::Manager;
use crate::recent::Recent;

/// One worker's engine.
pub(crate) struct IpsecMbEngine {
    maker: Maker,
    manager: Manager,
    gcm: Gcm,
    burst: Burst,
    recent: Recent,
    /// Whether most jobs of the last stretch were of keys that had not been used of late.
    is_spread: bool,
}

impl IpsecMbEngine {
    /// Sets up a manager and all memory that running needs.
    pub(crate) fn new() -> Result<IpsecMbEngine, EngineError> {
        let maker = keys::maker()?;
        let mut manager = Manager::new()?;
        let gcm = Gcm::new(&mut manager, maker);
        let (burst, recent) = (Burst::new(), Recent::new());
        Ok(IpsecMbEngine { maker, manager, gcm, burst, recent, is_spread: false })
    }

    /// The numbered steps of the module's documentation, for at most [`STRETCH_LEN`] jobs.
    fn stretch(&mut self, jobs: &mut [Job<'_>]) {
        let mut left = self.pass(jobs, u64::MAX);
        while left != 0 {
            left = self.pass(jobs, left);
        }
    }

    /// Runs those jobs whose bit is set in `left` and that are AES-GCM, or of the class of the
    /// first that is not; returns the bits of the others.
    #[inline]
    fn pass(&mut self, jobs: &mut [Job<'_>], left: u64) -> u64 {
        let IpsecMbEngine { maker, manager, gcm, burst, recent, is_spread } = self;
        if *is_spread {
            let keys = jobs.iter().filter_map(|job| job.session.keys(*maker));
            keys.for_each(|(_, lines)| recent.prefetch(lines));
        }
        let (mut class, mut later) = (None, 0);
        let mut ahead = Ahead {
            maker: *maker,
            recent: gcm.can_expand().then_some(recent),
            near: None,
            again: 0,
        };
        let distance = distance(jobs.first().map_or(0, |job| job.packet.len()));
        jobs.iter().zip(0..distance).for_each(|(next, number)| ahead.ask(next, number));
        for number in 0..jobs.len() {
            if let Some(next) = jobs.get(number + distance) {
                ahead.ask(next, number + distance);
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
                job.status = gcm.run(job, lines, suite, key, ahead.expanded(number));
                continue;
            }
            let Some((found, layout)) = Class::of(job, suite) else {
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
        if left == u64::MAX {
            *is_spread = ahead.again.count_ones() as usize * 2 > jobs.len();
        }
        gcm.wipe();
        later
    }
}

/// What is asked for before its job runs.
struct Ahead<'a, 'r> {
    maker: Maker,
    /// The keys used of late; `None` if they cannot be expanded again.
    recent: Option<&'r mut Recent>,
    /// The session whose keys were asked for last, and for which length of a packet.
    near: Option<(&'a Session, usize)>,
    /// The jobs whose keys are expanded again, a bit for each.
    again: u64,
}

impl<'a> Ahead<'a, '_> {
    /// Brings near what job `number` reads: its keys, unless they are those of the job before; and the
    /// packet beyond its first line, which writing or looking at its headers has touched.
    #[inline(always)]
    fn ask(&mut self, job: &Job<'a>, number: usize) {
        let (session, len) = (job.session, job.packet.len());
        // A longer packet reads more of them.
        let is_near = self.near.is_some_and(|(last, of)| core::ptr::eq(last, session) && len <= of);
        if !is_near {
            self.ask_for_keys(session, len, number);
        }
        let mut at = mem::LINE_LEN;
        while at < len {
            mem::prefetch_at(job.packet, at);
            at += mem::LINE_LEN;
        }
        // Packets do not begin with a line: their end, the ICV, may be in one more.
        mem::prefetch_at(job.packet, len.wrapping_sub(1));
    }

    /// Brings near the keys that job `number` reads. Those that have not been used of late are thought to lie
    /// in memory: what is expanded again is one line of them.
    #[inline(never)]
    fn ask_for_keys(&mut self, session: &'a Session, len: usize, number: usize) {
        let Some((suite, lines)) = session.keys(self.maker) else { return };
        let unknown = |recent: &mut Recent| !recent.enter(lines);
        if let Suite::AesGcm { key, .. } = suite
            && self.recent.as_deref_mut().is_some_and(unknown)
        {
            keys::prefetch_last(lines, key);
            self.again |= 1 << number;
            self.near = None;
        } else {
            keys::prefetch(lines, suite, len);
            self.near = Some((session, len));
        }
    }

    /// How job `number`, which was asked for, has its expanded key.
    #[inline]
    fn expanded(&self, number: usize) -> Expanded {
        if self.again & 1 << number == 0 { Expanded::Before } else { Expanded::Again }
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
