//! The crypto engines that the daemon works with.

use std::sync::Arc;

use crypto::{EngineError, Provider, Providers};
use tracing::warn;

use config::EngineChoice;

/// The engines that the configuration asks for; `auto` takes all that are there, the fastest first.
pub fn providers(choice: EngineChoice) -> Result<Providers, EngineError> {
    let shared = |provider| Arc::new(provider) as Arc<dyn Provider>;
    let openssl = || engine_openssl::OpensslProvider::new().map(|p| Arc::new(p) as _);
    let ipsec_mb = || ipsec_mb::IpsecMbProvider::new().map(shared);
    let mut providers = match choice {
        EngineChoice::Openssl => return Ok(Providers::new(openssl()?)),
        EngineChoice::IpsecMb => return Ok(Providers::new(ipsec_mb()?)),
        EngineChoice::Auto => match (ipsec_mb(), openssl()) {
            (Ok(fast), other) => {
                let mut providers = Providers::new(fast);
                match other {
                    Ok(other) => providers.push(other),
                    Err(error) => warn!(%error, "only ipsec-mb does the crypto"),
                }
                providers
            }
            (Err(error), openssl) => {
                warn!(%error, "OpenSSL does the crypto instead: slower, above all on short packets");
                Providers::new(openssl?)
            }
        },
    };
    match engine_gm::GmProvider::new() {
        Ok(gm) => providers.push_specialist(Arc::new(gm)),
        Err(error) => warn!(%error, "OpenSSL does SM4 and SM3 instead, as far as it has them"),
    }
    Ok(providers)
}
