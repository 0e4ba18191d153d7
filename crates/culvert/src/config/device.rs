//! `[device.NAME]`: offload devices.

use serde::Deserialize;

/// `[device.NAME]`: an offload device behind a port.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceConfig {
    /// What it is.
    pub kind: DeviceKind,
    /// The port whose interface SAs name to be offloaded (`offload dev`).
    pub port: String,
}

/// What an offload device is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DeviceKind {
    /// The model of a NIC with inline crypto: software that behaves as such a NIC does, to try offload with.
    NicModel,
}

impl DeviceKind {
    /// As the configuration spells it.
    pub const fn name(self) -> &'static str {
        match self {
            DeviceKind::NicModel => "nic-model",
        }
    }
}
