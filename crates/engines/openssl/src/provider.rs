//! Sessions and engines on OpenSSL.

use crypto::{Engine, EngineError, Keys, Provider, Session, Suite, self_test};
use openssl::error::ErrorStack;
use openssl::version;

use crate::NAME;
use crate::engine::OpensslEngine;
use crate::mac::Tools;
use crate::state::{self, State};

/// OpenSSL as a [`Provider`]; every suite whose algorithms the library has.
#[derive(Debug)]
pub struct OpensslProvider {
    version: &'static str,
    /// True for each suite that OpenSSL has, by [`Suite::number`].
    supported: [bool; Suite::COUNT],
}

impl OpensslProvider {
    /// Opens the library and tests one packet of every suite against its known answer.
    ///
    /// # Errors
    /// [`EngineError::Unavailable`] when a cipher is missing, for instance because OpenSSL's
    /// configuration loads no default provider, or when an answer is wrong.
    pub fn new() -> Result<OpensslProvider, EngineError> {
        let tools = Tools::new().map_err(unavailable)?;
        let mut supported = [false; Suite::COUNT];
        for (suite, is_supported) in Suite::all().zip(&mut supported) {
            *is_supported = state::supports(&tools, suite);
        }
        let provider = OpensslProvider { version: version::version(), supported };
        self_test(&provider)?;
        Ok(provider)
    }
}

impl Provider for OpensslProvider {
    fn name(&self) -> &'static str {
        NAME
    }

    fn description(&self) -> String {
        self.version.to_owned()
    }

    fn supports(&self, suite: Suite) -> bool {
        self.supported.get(suite.number()).copied().unwrap_or(false)
    }

    fn session(&self, suite: Suite, keys: &Keys) -> Result<Session, EngineError> {
        if !self.supports(suite) {
            return Err(EngineError::Unsupported { engine: NAME, suite });
        }
        let state = State::new(suite, keys).ok_or(EngineError::KeyLength { suite })?;
        Ok(Session::new(suite, Box::new(state)))
    }

    fn engine(&self) -> Result<Box<dyn Engine>, EngineError> {
        Ok(Box::new(OpensslEngine::new().map_err(unavailable)?))
    }
}

fn unavailable(error: ErrorStack) -> EngineError {
    EngineError::Unavailable { engine: NAME, what: error.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crypto::{Job, JobStatus, Op};

    fn keys(suite: Suite) -> Keys {
        Keys {
            cipher: vec![1; suite.cipher_key_len_bytes()],
            salt: vec![2; suite.salt_len_bytes()],
            auth: vec![3; suite.auth_key_len_bytes()],
        }
    }

    #[test]
    fn every_suite_seals_and_opens() {
        let provider = OpensslProvider::new().unwrap();
        let mut engine = provider.engine().unwrap();
        // SM4-GCM came with OpenSSL 3.1.
        let common = |suite: &Suite| !matches!(suite, Suite::Sm4Gcm { .. });
        assert!(Suite::all().filter(common).all(|suite| provider.supports(suite)));
        for suite in Suite::all().filter(|suite| provider.supports(*suite)) {
            let session = provider.session(suite, &keys(suite)).unwrap();
            for (text_len, seq_hi) in [(0, None), (16, Some(5)), (64, None), (1488, Some(0))] {
                let len = 8 + suite.iv_len_bytes() + text_len + suite.icv_len_bytes();
                let plain: Vec<u8> = (0..len).map(|i| i as u8).collect();
                let mut packet = plain.clone();
                let mut jobs = [Job::esp(&session, Op::Seal, &mut packet, seq_hi)];
                engine.run(&mut jobs);
                assert_eq!(jobs[0].status, JobStatus::Done, "{suite}");
                assert_ne!(packet, plain);
                let mut jobs = [Job::esp(&session, Op::Open, &mut packet, seq_hi)];
                engine.run(&mut jobs);
                assert_eq!(jobs[0].status, JobStatus::Done, "{suite}");
                let icv = len - suite.icv_len_bytes();
                assert_eq!(packet[..icv], plain[..icv], "{suite}");
            }
        }
    }

    #[test]
    fn wrong_key_lengths_are_refused() {
        let provider = OpensslProvider::new().unwrap();
        for suite in Suite::all().filter(|suite| provider.supports(*suite)) {
            let mut long = keys(suite);
            long.cipher.push(0);
            let error = provider.session(suite, &long).unwrap_err();
            assert_eq!(error, EngineError::KeyLength { suite });
        }
    }

    #[test]
    fn a_foreign_session_fails() {
        let mut engine = OpensslProvider::new().unwrap().engine().unwrap();
        let foreign = Session::new(Suite::ChaCha20Poly1305, Box::new(()));
        let mut packet = [0; 64];
        let mut jobs = [Job::esp(&foreign, Op::Open, &mut packet, None)];
        engine.run(&mut jobs);
        assert_eq!(jobs[0].status, JobStatus::Failed);
        engine.run(&mut []);
    }
}
