//! One known answer per suite, so that a broken library or build is refused and not used.

use crate::engine::{EngineError, Job, JobStatus, Op, Provider};
use crate::key::Keys;
use crate::session::Session;
use crate::suite::Suite;

/// `SUITE HEX` a line: the sealed text and the ICV of the packet below. Made by
/// `tests/vectors/known_answers.py`.
const ANSWERS: &str = include_str!("known_answers.txt");

/// Length of the text in bytes.
const TEXT_LEN: usize = 48;

/// The high half of the sequence number.
const SEQ_HI: Option<u32> = Some(0x0102_0304);

/// Seals a packet of every suite that the provider supports and compares it with its known
/// answer; opens it again; and opens it with a flipped bit, which must be refused.
///
/// # Errors
/// [`EngineError::Unavailable`] that names the suite and what went wrong, or what the provider
/// itself reports.
pub fn self_test(provider: &dyn Provider) -> Result<(), EngineError> {
    let mut engine = provider.engine()?;
    let mut run = |session: &Session, op, packet: &mut [u8]| {
        let mut jobs = [Job::esp(session, op, packet, SEQ_HI)];
        engine.run(&mut jobs);
        jobs[0].status
    };
    for suite in Suite::all().filter(|suite| provider.supports(*suite)) {
        let wrong = |what: &str| EngineError::Unavailable {
            engine: provider.name(),
            what: format!("self-test of {suite}: {what}"),
        };
        let session = provider.session(suite, &keys(suite))?;
        let text = 8 + suite.iv_len_bytes();
        let answer = answer(suite).ok_or_else(|| wrong("no known answer"))?;
        let plain = plain(suite);

        let mut packet = plain.clone();
        if run(&session, Op::Seal, &mut packet) != JobStatus::Done {
            return Err(wrong("sealing failed"));
        }
        if packet.get(text..) != Some(answer.as_slice()) || packet.get(..text) != plain.get(..text)
        {
            return Err(wrong("sealing gave a wrong answer"));
        }

        let mut forged = packet.clone();
        if let Some(bit) = forged.get_mut(text + TEXT_LEN / 2) {
            *bit ^= 0x10;
        }
        if run(&session, Op::Open, &mut forged) != JobStatus::BadIcv {
            return Err(wrong("a forged packet was not refused"));
        }

        if run(&session, Op::Open, &mut packet) != JobStatus::Done
            || packet.get(..text + TEXT_LEN) != plain.get(..text + TEXT_LEN)
        {
            return Err(wrong("opening gave a wrong answer"));
        }
    }
    Ok(())
}

fn keys(suite: Suite) -> Keys {
    Keys {
        cipher: ascending(0x80, suite.cipher_key_len_bytes()),
        salt: ascending(0xc0, suite.salt_len_bytes()),
        auth: ascending(0x20, suite.auth_key_len_bytes()),
    }
}

/// Header, IV, text and room for the ICV.
fn plain(suite: Suite) -> Vec<u8> {
    let mut packet = ascending(0, 8);
    packet.extend(ascending(0x10, suite.iv_len_bytes()));
    packet.extend(ascending(0x40, TEXT_LEN));
    packet.resize(packet.len() + suite.icv_len_bytes(), 0);
    packet
}

fn ascending(first: u8, len: usize) -> Vec<u8> {
    (first..=u8::MAX).take(len).collect()
}

fn answer(suite: Suite) -> Option<Vec<u8>> {
    let name = suite.to_string();
    let hex = ANSWERS.lines().find_map(|line| {
        let (suite, hex) = line.split_once(' ')?;
        (suite == name).then_some(hex)
    })?;
    hex.as_bytes()
        .chunks(2)
        .map(|pair| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_suite_has_an_answer_of_its_length() {
        for suite in Suite::all() {
            assert_eq!(answer(suite).unwrap().len(), TEXT_LEN + suite.icv_len_bytes(), "{suite}");
        }
        assert_eq!(ANSWERS.lines().count(), Suite::all().count());
    }
}
