//! Devices of DPDK's (`DeviceKind::Cryptodev`), where the build has them.
//!
//! DPDK starts once in a process, so it is started with all of them before the first is opened. It has a thread of its
//! own, which sleeps, and pins no thread of the daemon's.

use std::collections::BTreeMap;

use offload::{Bounce, Device};

use config::DeviceConfig;

#[cfg(feature = "cryptodev")]
pub use with::{open, start};
#[cfg(not(feature = "cryptodev"))]
pub use without::{open, start};

#[cfg(feature = "cryptodev")]
mod with {
    use config::DeviceKind;
    use cryptodev::{CryptoDevice, OpenError, Settings, StartError};
    use tracing::{info, warn};

    use super::*;

    /// Starts DPDK with the devices of a configuration, if there are any.
    pub fn start(configs: &BTreeMap<String, DeviceConfig>) {
        let of_dpdk = configs.iter().filter(|(_, config)| config.kind == DeviceKind::Cryptodev);
        let all: Vec<(&str, Settings)> =
            of_dpdk.map(|(name, config)| (name.as_str(), settings(config))).collect();
        if all.is_empty() {
            return;
        }
        let all: Vec<(&str, &Settings)> = all.iter().map(|(name, of)| (*name, of)).collect();
        match cryptodev::start(&all) {
            Ok(()) => info!(version = %cryptodev::version(), "DPDK has started"),
            // Each device then says that it is not there.
            Err(StartError::Argument(text)) => warn!(%text, "an argument of DPDK is none"),
            Err(error) => warn!(%error, "no device of DPDK's"),
        }
    }

    /// A device of those that DPDK was started with.
    ///
    /// # Errors
    /// Why there is none.
    pub fn open(name: &str, config: &DeviceConfig) -> Result<Box<dyn Device<Bounce>>, OpenError> {
        let device = CryptoDevice::open(name, &settings(config))?;
        let suites = Device::<Bounce>::capabilities(&device).suites.len();
        info!(device = %name, driver = %device.driver(), suites, "opened, and its known answers are right");
        for suite in device.unproven() {
            warn!(device = %name, %suite, "the driver names a suite whose known answers it does not give");
        }
        Ok(Box::new(device))
    }

    fn settings(config: &DeviceConfig) -> Settings {
        Settings {
            driver: config.driver.clone().unwrap_or_default(),
            address: config.address.clone(),
            args: config.args.clone(),
            eal: config.eal.clone(),
        }
    }
}

#[cfg(not(feature = "cryptodev"))]
mod without {
    use super::*;

    /// Does nothing: this build has no DPDK.
    pub fn start(_configs: &BTreeMap<String, DeviceConfig>) {}

    /// None: the configuration has been refused already.
    ///
    /// # Errors
    /// Always.
    pub fn open(
        _name: &str,
        _config: &DeviceConfig,
    ) -> Result<Box<dyn Device<Bounce>>, &'static str> {
        Err("this build has no devices of DPDK's")
    }
}
