//! Sessions and engines on libipsec-mb.

use core::fmt;
use std::sync::{Mutex, PoisonError};

use crypto::{Bare, Engine, EngineError, Keys, Maker, Provider, Session, Suite, self_test};

use crate::NAME;
use crate::bare::IpsecMbBare;
use crate::code_path::CodePath;
use crate::engine::IpsecMbEngine;
use crate::keys;
use crate::manager::Manager;
use crate::suites;

/// libipsec-mb as a [`Provider`]; not Camellia, AES-CCM with keys of 192 bits, DES, MD5, SM4 and SM3.
pub struct IpsecMbProvider {
    /// For key expansion; workers have their own.
    manager: Mutex<Manager>,
    path: CodePath,
    maker: Maker,
    description: String,
}

impl IpsecMbProvider {
    /// Sets the library up and tests one packet of every suite against its known answer.
    ///
    /// # Errors
    /// [`EngineError::Unavailable`] when the processor or the library is unfit or gives a wrong
    /// answer.
    pub fn new() -> Result<IpsecMbProvider, EngineError> {
        IpsecMbProvider::on(CodePath::default())
    }

    /// [`IpsecMbProvider::new`], with the library's code for one generation of processors.
    ///
    /// # Errors
    /// As there; also where this processor lacks instructions of the path.
    pub fn on(path: CodePath) -> Result<IpsecMbProvider, EngineError> {
        let manager = Manager::new(path)?;
        let description = manager.description();
        let maker = keys::maker()?;
        let manager = Mutex::new(manager);
        let provider = IpsecMbProvider { manager, path, maker, description };
        self_test(&provider)?;
        Ok(provider)
    }
}

impl Provider for IpsecMbProvider {
    fn name(&self) -> &'static str {
        NAME
    }

    fn description(&self) -> String {
        self.description.clone()
    }

    fn supports(&self, suite: Suite) -> bool {
        suites::has(suite)
    }

    fn session(&self, suite: Suite, keys: &Keys) -> Result<Session, EngineError> {
        // A panic while the lock was held cannot have left the manager half-changed: key
        // expansion queues nothing.
        let mut manager = self.manager.lock().unwrap_or_else(PoisonError::into_inner);
        keys::session(&mut manager, self.maker, suite, keys)
    }

    fn engine(&self) -> Result<Box<dyn Engine>, EngineError> {
        Ok(Box::new(IpsecMbEngine::new(self.path)?))
    }

    fn bare(&self, suite: Suite, keys: &Keys) -> Option<Box<dyn Bare>> {
        suites::has_bare(suite).then_some(())?;
        Some(Box::new(IpsecMbBare::new(suite, keys).ok()?))
    }
}

impl fmt::Debug for IpsecMbProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("IpsecMbProvider").field(&self.description).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn describes_itself() {
        let provider = IpsecMbProvider::new().unwrap();
        assert_eq!(provider.name(), "ipsec-mb");
        assert!(provider.description().contains(", "), "{provider:?}");
        assert!(!provider.description().contains("unknown"), "{provider:?}");
    }

    #[test]
    fn sessions_may_be_sent_and_shared() {
        fn shared<T: Send + Sync>(_: &T) {}
        let provider = IpsecMbProvider::new().unwrap();
        let suite = Suite::ChaCha20Poly1305;
        let keys = Keys { cipher: vec![0; 32], salt: vec![0; 4], auth: vec![] };
        shared(&provider.session(suite, &keys).unwrap());
        let short = Keys { cipher: vec![0; 31], salt: vec![0; 4], auth: vec![] };
        let error = provider.session(suite, &short).unwrap_err();
        assert_eq!(error, EngineError::KeyLength { suite });
    }
}
