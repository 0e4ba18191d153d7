//! Runs jobs.
//!
//! For each stretch of at most [`STRETCH_LEN`] jobs:
//! 1. each job's session is recognised and its lengths are checked; SM4-GCM runs at once, and so does SM4-CTR's encryption;
//! 2. SM4-CBC's encryption runs over all packets that are to be sealed with it;
//! 3. HMAC runs over all packets that have it;
//! 4. what is sealed gets its ICV; what is to be opened is decrypted if its ICV is right.

use arrayvec::ArrayVec;
use crypto::{Engine, Job, JobStatus, Op};

use crate::cbc::{self, Text};
use crate::hmac::{self, Message, Tag};
use crate::isa::Isa;
use crate::state::{Crypt, Keyed, State};
use crate::tag;

/// How many jobs are gone through together.
const STRETCH_LEN: usize = 64;

/// One worker's engine.
pub(crate) struct GmEngine {
    isa: Isa,
    cbc: cbc::Lanes,
    hmac: hmac::Lanes,
}

impl GmEngine {
    pub(crate) fn new(isa: Isa) -> GmEngine {
        GmEngine { isa, cbc: cbc::Lanes::new(), hmac: hmac::Lanes::new() }
    }

    fn stretch(&mut self, jobs: &mut [Job<'_>]) {
        let isa = self.isa;
        // 1.
        let (mut has_cbc, mut has_mac) = (false, false);
        for job in &mut *jobs {
            job.status = JobStatus::Failed;
            let (session, op, seq_hi) = (job.session, job.op, job.seq_hi);
            let Some(state) = session.state::<State>().filter(|state| state.isa == isa) else {
                continue;
            };
            let Some(parts) = job.parts() else { continue };
            match &state.keyed {
                Keyed::Gcm(gcm) => job.status = gcm.run(isa, op, parts, seq_hi),
                Keyed::Separate { crypt, .. } => {
                    match (crypt, op) {
                        (Crypt::Cbc(_), Op::Seal) => has_cbc = true,
                        (Crypt::Ctr(ctr), Op::Seal) => ctr.crypt(isa, parts.iv, parts.text),
                        _ => {}
                    }
                    has_mac = true;
                    job.status = JobStatus::Pending;
                }
            }
        }
        if !has_mac {
            return;
        }
        // 2.
        if has_cbc {
            self.cbc.encrypt(isa, jobs.iter_mut().filter_map(text));
            self.cbc.wipe();
        }
        // 3.
        let messages: ArrayVec<Message<'_>, STRETCH_LEN> =
            jobs.iter().filter_map(message).collect();
        let mut tags = [Tag::default(); STRETCH_LEN];
        self.hmac.tags(isa, &messages, &mut tags);
        self.hmac.wipe();
        drop(messages);
        // 4.
        let pending = jobs.iter_mut().filter(|job| job.status == JobStatus::Pending);
        pending.zip(&tags).for_each(|(job, tag)| job.status = finish(isa, job, tag));
    }
}

impl Engine for GmEngine {
    fn run(&mut self, jobs: &mut [Job<'_>]) {
        for jobs in jobs.chunks_mut(STRETCH_LEN) {
            self.stretch(jobs);
        }
    }
}

/// The text of a pending job that SM4-CBC has to encrypt.
fn text<'p>(job: &'p mut Job<'_>) -> Option<Text<'p>> {
    let (session, op) = (job.session, job.op);
    if job.status != JobStatus::Pending || op != Op::Seal {
        return None;
    }
    let Keyed::Separate { crypt: Crypt::Cbc(keys), .. } = &session.state::<State>()?.keyed else {
        return None;
    };
    let parts = job.parts()?;
    Some(Text { keys, iv: parts.iv.try_into().ok()?, text: parts.text })
}

/// The message of a pending job that HMAC has to authenticate.
fn message<'p>(job: &'p Job<'_>) -> Option<Message<'p>> {
    if job.status != JobStatus::Pending {
        return None;
    }
    let Keyed::Separate { mac, .. } = &job.session.state::<State>()?.keyed else { return None };
    let bytes = job.packet.get(..job.layout()?.icv)?;
    Some(Message { key: mac, bytes, seq_hi: job.seq_hi })
}

fn finish(isa: Isa, job: &mut Job<'_>, tag: &Tag) -> JobStatus {
    let (session, op) = (job.session, job.op);
    let (Some(state), Some(parts)) = (session.state::<State>(), job.parts()) else {
        return JobStatus::Failed;
    };
    let Keyed::Separate { crypt, .. } = &state.keyed else { return JobStatus::Failed };
    if op == Op::Seal {
        parts.icv.iter_mut().zip(tag).for_each(|(to, from)| *to = *from);
        return JobStatus::Done;
    }
    if !tag::is_right(tag, parts.icv) {
        if matches!(crypt, Crypt::Null) {
            // Without encryption the received text is plaintext.
            parts.text.fill(0);
        }
        return JobStatus::BadIcv;
    }
    match crypt {
        Crypt::Null => {}
        Crypt::Ctr(ctr) => ctr.crypt(isa, parts.iv, parts.text),
        Crypt::Cbc(keys) => match parts.iv.try_into() {
            Ok(iv) => keys.decrypt(isa, iv, parts.text),
            Err(_) => return JobStatus::Failed,
        },
    }
    JobStatus::Done
}
