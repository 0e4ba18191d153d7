//! Comparison of an implementation with the portable one: bursts of packets of such lengths that every way through it
//! is gone, which one packet of a known answer does not do.

use crypto::{Cipher, EngineError, IcvLen, Integrity, Job, JobStatus, Keys, Op, Provider, Suite};

use crate::NAME;

/// Texts in bytes: about the multiples of what vectors hold.
const LENS: [usize; 18] =
    [0, 16, 64, 112, 128, 144, 240, 256, 272, 368, 384, 496, 512, 528, 1008, 1024, 1040, 1552];

/// More packets than there are lanes.
const COUNT: usize = 37;

const SUITES: [Suite; 3] = [
    Suite::Sm4Gcm { icv: IcvLen::Icv16 },
    Suite::Separate { cipher: Cipher::Sm4Cbc, integrity: Integrity::Sm3_256 },
    Suite::Separate { cipher: Cipher::Sm4Ctr, integrity: Integrity::Sm3_96 },
];

/// Holds one against the other.
///
/// # Errors
/// [`EngineError::Unavailable`] that names the suite that they differ in.
pub(crate) fn agree(one: &dyn Provider, judge: &dyn Provider) -> Result<(), EngineError> {
    for suite in SUITES {
        let around = 8 + suite.iv_len_bytes() + suite.icv_len_bytes();
        let plain: Vec<Vec<u8>> = (0..COUNT)
            .map(|number| {
                (0..around + LENS[number % LENS.len()]).map(|at| (at * 7 + number) as u8).collect()
            })
            .collect();
        let (mut sealed, mut wanted) = (plain.clone(), plain.clone());
        let is_sealed =
            run(one, suite, Op::Seal, &mut sealed)? && run(judge, suite, Op::Seal, &mut wanted)?;
        let is_right = is_sealed && sealed == wanted && run(one, suite, Op::Open, &mut sealed)?;
        let mut pairs = sealed.iter().zip(&plain);
        let end = |packet: &Vec<u8>| packet.len() - suite.icv_len_bytes();
        if !is_right
            || !pairs.all(|(opened, plain)| opened.get(..end(plain)) == plain.get(..end(plain)))
        {
            let what = format!("{} differs from portable in {suite}", one.description());
            return Err(EngineError::Unavailable { engine: NAME, what });
        }
    }
    Ok(())
}

/// Runs a burst in which two SAs take turns; whether all was done.
fn run(
    provider: &dyn Provider,
    suite: Suite,
    op: Op,
    packets: &mut [Vec<u8>],
) -> Result<bool, EngineError> {
    let session = |first: u8| {
        let bytes = |len: usize| (first..=u8::MAX).take(len).collect();
        let cipher = bytes(suite.cipher_key_len_bytes());
        let (salt, auth) = (bytes(suite.salt_len_bytes()), bytes(suite.auth_key_len_bytes()));
        provider.session(suite, &Keys { cipher, salt, auth })
    };
    let sessions = [session(3)?, session(90)?];
    let mut jobs: Vec<Job<'_>> = packets
        .iter_mut()
        .enumerate()
        .map(|(number, packet)| {
            let seq_hi = (number % 3 == 0).then_some(number as u32);
            Job::esp(&sessions[number % 2], op, packet, seq_hi)
        })
        .collect();
    provider.engine()?.run(&mut jobs);
    Ok(jobs.iter().all(|job| job.status == JobStatus::Done))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::GmProvider;
    use crypto::{Engine, Session};

    #[test]
    fn all_agree() {
        for one in GmProvider::all() {
            agree(&one, &GmProvider::all().next().unwrap()).unwrap();
        }
    }

    /// One byte is wrong, of long packets alone.
    struct Faulty(GmProvider);

    struct FaultyEngine(Box<dyn Engine>);

    impl Provider for Faulty {
        fn name(&self) -> &'static str {
            NAME
        }
        fn description(&self) -> String {
            "faulty".to_owned()
        }
        fn supports(&self, suite: Suite) -> bool {
            self.0.supports(suite)
        }
        fn session(&self, suite: Suite, keys: &Keys) -> Result<Session, EngineError> {
            self.0.session(suite, keys)
        }
        fn engine(&self) -> Result<Box<dyn Engine>, EngineError> {
            Ok(Box::new(FaultyEngine(self.0.engine()?)))
        }
    }

    impl Engine for FaultyEngine {
        fn run(&mut self, jobs: &mut [Job<'_>]) {
            self.0.run(jobs);
            jobs.iter_mut()
                .filter(|job| job.packet.len() > 1500)
                .for_each(|job| job.packet[1400] ^= 1);
        }
    }

    #[test]
    fn a_fault_of_long_packets_is_found() {
        let judge = || GmProvider::all().next().unwrap();
        let error = agree(&Faulty(judge()), &judge()).unwrap_err().to_string();
        assert!(error.contains("faulty differs from portable in sm4gcm16"), "{error}");
    }
}
