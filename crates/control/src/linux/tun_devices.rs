//! The interfaces that culvert makes, in a daemon.

use config::{Config, MemifConfig, TunnelConfig};
use io::tun::{Tap, TapConfig};
use io::{Port, Tun, TunConfig, TunError};

use super::edge::OwnInterfaces;
use super::tunnels;

/// TUN and TAP devices.
pub struct TunDevices {
    /// The queue by which the private interface was made; the first that is asked for.
    pub first: Option<Tun>,
}

impl OwnInterfaces for TunDevices {
    fn open_tunnel(&mut self, config: &TunnelConfig) -> Result<(u32, Box<dyn Port>), TunError> {
        let tun = tunnels::open(config)?;
        Ok((tun.ifindex(), Box::new(tun)))
    }

    fn remove_tunnel(&mut self, name: &str) -> Result<(), TunError> {
        io::tun::remove(name)
    }

    fn open_tap(&mut self, config: &MemifConfig) -> Result<Tap, TunError> {
        Tap::open_lasting(&TapConfig {
            name: config.interface.clone(),
            mtu: config.mtu,
            mac: config.mac,
        })
    }

    fn remove_tap(&mut self, name: &str) -> Result<(), TunError> {
        Tap::remove(name)
    }

    fn add_private_queue(
        &mut self,
        config: &TunConfig,
        ifindex: u32,
    ) -> Result<Box<dyn Port>, TunError> {
        match self.first.take() {
            Some(first) => Ok(Box::new(first)),
            None => Ok(Box::new(Tun::add_queue(config, ifindex)?)),
        }
    }
}

/// The private interface, as the configuration wants it.
pub fn tun_config(config: &Config) -> TunConfig {
    TunConfig { name: config.tun.interface.clone(), mtu: config.tun.mtu }
}
