//! The provider of a build without the library.

use crypto::{Engine, EngineError, Keys, Provider, Session, Suite};

use crate::NAME;

/// A code path of the library; in this build there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodePath {}

impl CodePath {
    /// Every path that the library can be told to take: none.
    pub fn all() -> impl Iterator<Item = CodePath> {
        core::iter::empty()
    }
}

/// libipsec-mb as a [`Provider`]; in this build there is none.
#[derive(Debug)]
pub enum IpsecMbProvider {}

impl IpsecMbProvider {
    /// Reports what is missing.
    ///
    /// # Errors
    /// Always [`EngineError::Unavailable`].
    pub fn new() -> Result<IpsecMbProvider, EngineError> {
        let what = if cfg!(target_arch = "x86_64") {
            "built without libipsec-mb-dev (1.3 or newer)"
        } else {
            "needs an x86-64 processor (and libipsec-mb-dev at build time)"
        };
        Err(EngineError::Unavailable { engine: NAME, what: what.to_owned() })
    }

    /// [`IpsecMbProvider::new`], with the library's code for one generation of processors.
    ///
    /// # Errors
    /// None: there is no path to ask for.
    pub fn on(path: CodePath) -> Result<IpsecMbProvider, EngineError> {
        match path {}
    }
}

impl Provider for IpsecMbProvider {
    fn name(&self) -> &'static str {
        match *self {}
    }

    fn description(&self) -> String {
        match *self {}
    }

    fn supports(&self, _suite: Suite) -> bool {
        match *self {}
    }

    fn session(&self, _suite: Suite, _keys: &Keys) -> Result<Session, EngineError> {
        match *self {}
    }

    fn engine(&self) -> Result<Box<dyn Engine>, EngineError> {
        match *self {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_the_package() {
        let error = IpsecMbProvider::new().unwrap_err();
        assert!(error.to_string().contains("libipsec-mb-dev"), "{error}");
    }
}
