//! Sessions and engines.

use crypto::{Engine, EngineError, Keys, Provider, Session, Suite, self_test};

use crate::NAME;
use crate::check;
use crate::engine::GmEngine;
use crate::isa::Isa;
use crate::state::{self, State};

/// SM4 and SM3 as a [`Provider`], by one of the implementations.
#[derive(Debug)]
pub struct GmProvider {
    isa: Isa,
}

impl GmProvider {
    /// The fastest that this processor can run and that passes: one packet of every suite is tested against its known answer, and
    /// bursts against the portable version.
    ///
    /// # Errors
    /// [`EngineError::Unavailable`] when none passes: what was wrong with the slowest.
    pub fn new() -> Result<GmProvider, EngineError> {
        let mut failed = EngineError::Unavailable {
            engine: NAME,
            what: "there is no implementation".to_owned(),
        };
        for isa in Isa::available().into_iter().rev() {
            let (provider, portable) = (GmProvider { isa }, GmProvider { isa: Isa::PORTABLE });
            let tested = self_test(&provider).and_then(|()| check::agree(&provider, &portable));
            match tested {
                Ok(()) => return Ok(provider),
                Err(error) => failed = error,
            }
        }
        Err(failed)
    }

    /// Each that this processor can run, the slowest first and untested: to hold them against one another.
    pub fn all() -> impl Iterator<Item = GmProvider> {
        Isa::available().into_iter().map(|isa| GmProvider { isa })
    }
}

impl Provider for GmProvider {
    fn name(&self) -> &'static str {
        NAME
    }

    fn description(&self) -> String {
        self.isa.name().to_owned()
    }

    fn supports(&self, suite: Suite) -> bool {
        state::has(suite)
    }

    fn session(&self, suite: Suite, keys: &Keys) -> Result<Session, EngineError> {
        if !self.supports(suite) {
            return Err(EngineError::Unsupported { engine: NAME, suite });
        }
        let state = State::new(self.isa, suite, keys).ok_or(EngineError::KeyLength { suite })?;
        Ok(Session::new(suite, Box::new(state)))
    }

    fn engine(&self) -> Result<Box<dyn Engine>, EngineError> {
        Ok(Box::new(GmEngine::new(self.isa)))
    }
}
