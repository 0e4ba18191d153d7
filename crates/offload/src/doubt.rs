//! Results of a device that software checks.
//!
//! | result | checked |
//! | --- | --- |
//! | sealed or opened | the first packets of an SA in the device, and one of many of each lane |
//! | sealed or opened, and SPI, number or IV are others, or the text's ends are as they were | always: nothing leaves in clear, or under another number |
//! | the ICV is wrong | always: a packet is dropped by software's word |
//!
//! Software works on the job as it was, under the same number and IV, so that its packet is the device's, or else the
//! device is wrong. Software's result is the one that counts.

use core::ops::Range;

use crypto::{Job, JobStatus, Layout, Op};

use crate::bounce::Bounce;

/// A device's result of a job, kept until software has worked on it too.
pub(crate) struct Doubt {
    /// The device's packet.
    pub buffer: Bounce,
    /// The device's word.
    pub claim: JobStatus,
}

impl Doubt {
    /// True if software, which has worked on the job, came to the same result.
    pub fn is_confirmed(&self, job: &Job<'_>) -> bool {
        if job.status != self.claim {
            return false;
        }
        let Some(layout) = job.layout().filter(|_| self.claim == JobStatus::Done) else {
            return true;
        };
        // Behind an opened text is nothing that counts.
        let end = if job.op == Op::Seal { job.packet.len() } else { layout.icv };
        let same = job.packet.get(..end).zip(self.buffer.esp().get(..end));
        same.is_some_and(|(software, device)| software == device)
    }
}

/// True if no cipher can have made the packet: the bytes in front of the text have changed, or an
/// end of the text has not.
pub(crate) fn is_suspect(job: &Job<'_>, esp: &[u8]) -> bool {
    let Some(Layout { text, icv, .. }) = job.layout() else { return true };
    let is_same = |part: Range<usize>| job.packet.get(part.clone()) == esp.get(part);
    if !is_same(0..text) {
        return true;
    }
    let len = END_LEN.min(icv - text);
    let is_ciphered = job.session.suite().is_confidential() && len > 0;
    is_ciphered && (is_same(text..text + len) || is_same(icv - len..icv))
}

/// Bytes of a text's end that no cipher leaves as they are but by chance.
const END_LEN: usize = 16;
