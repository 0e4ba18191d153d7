//! Sessions and engines.

use crypto::{Engine, EngineError, Keys, Provider, Session, Suite, self_test};

use crate::NAME;
use crate::engine::GmEngine;
use crate::isa::Isa;
use crate::state::{self, State};

/// SM4 and SM3 as a [`Provider`], by one of the implementations.
#[derive(Debug)]
pub struct GmProvider {
    isa: Isa,
}

impl GmProvider {
    /// The fastest that this processor can run; tests one packet of every suite against its known answer.
    ///
    /// # Errors
    /// [`EngineError::Unavailable`] when an answer is wrong.
    pub fn new() -> Result<GmProvider, EngineError> {
        let fastest = GmProvider::all().last();
        let provider = fastest.ok_or_else(|| EngineError::Unavailable {
            engine: NAME,
            what: "there is no implementation".to_owned(),
        })?;
        self_test(&provider)?;
        Ok(provider)
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
