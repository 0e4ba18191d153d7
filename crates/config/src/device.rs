//! `[device.NAME]`: offload devices.

use serde::Deserialize;

/// `[device.NAME]`: an offload device behind a port.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceConfig {
    /// Kind of the device.
    pub kind: DeviceKind,
    /// The port whose interface SAs name to be offloaded (`offload dev`).
    pub port: String,
    /// Of a [`DeviceKind::Cryptodev`] its driver's name in DPDK.
    #[serde(default)]
    pub driver: Option<String>,
    /// Where it is on its bus, of one that is hardware.
    #[serde(default)]
    pub address: Option<String>,
    /// Arguments for its driver.
    #[serde(default)]
    pub args: Vec<String>,
    /// Arguments for DPDK's environment about memory, in the place of those for drivers that are
    /// software.
    #[serde(default)]
    pub eal: Vec<String>,
    /// Which SAs it has.
    #[serde(default)]
    pub placement: PlacementChoice,
    /// Measure by which SAs are the busiest.
    #[serde(default)]
    pub busy_by: BusyBy,
    /// How often is looked which SAs are the busiest, in milliseconds.
    #[serde(default = "default_interval_ms")]
    pub interval_ms: u32,
    /// Most SAs of each direction that come without having asked.
    #[serde(default)]
    pub most_auto: Option<u32>,
}

impl DeviceConfig {
    /// The first key whose value cannot be, that value, and what would be right.
    pub(super) fn problem(&self) -> Option<(&'static str, String, &'static str)> {
        let told = [
            ("driver", self.driver.is_some()),
            ("address", self.address.is_some()),
            ("args", !self.args.is_empty()),
            ("eal", !self.eal.is_empty()),
        ];
        if self.kind == DeviceKind::RtlSimulation && !self.kind.is_built_in() {
            let allowed =
                "a kind that this build has: rtl-simulation needs one with the Cargo feature rtl";
            return Some(("kind", self.kind.name().into(), allowed));
        }
        if self.kind != DeviceKind::Cryptodev {
            let (key, _) = told.into_iter().find(|(_, is_told)| *is_told)?;
            return Some((key, self.kind.name().into(), "only of devices whose kind is cryptodev"));
        }
        let driver = self.driver.clone().unwrap_or_default();
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if driver.is_empty() || !driver.chars().all(is_name) {
            return Some(("driver", driver, "DPDK's name of a driver, such as crypto_openssl"));
        }
        let is_built_in = self.kind.is_built_in();
        let allowed =
            "a kind that this build has: cryptodev needs one with the Cargo feature cryptodev";
        (!is_built_in).then(|| ("kind", self.kind.name().into(), allowed))
    }
}

fn default_interval_ms() -> u32 {
    2000
}

/// Which SAs are in a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PlacementChoice {
    /// SAs whose owners ask for it.
    #[default]
    Asked,
    /// These SAs, and where there is room the busiest others.
    Auto,
}

impl PlacementChoice {
    /// As the configuration spells it.
    pub const fn name(self) -> &'static str {
        match self {
            PlacementChoice::Asked => "asked",
            PlacementChoice::Auto => "auto",
        }
    }
}

/// Measure of how busy an SA is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BusyBy {
    /// Packets a second.
    #[default]
    Packets,
    /// Bytes a second.
    Bytes,
}

/// Kind of an offload device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DeviceKind {
    /// The model of a NIC with inline crypto: software that behaves as such a NIC does, to try offload with.
    NicModel,
    /// A crypto device of DPDK's, an accelerator or software; where this build has them.
    Cryptodev,
    /// The model of a NIC that does all of IPsec for the packets of its SAs and policies, to try packet offload with.
    PacketNicModel,
    /// The gateway in hardware, simulated clock cycle by clock cycle: it does all of IPsec, slowly; where this build has it.
    RtlSimulation,
}

impl DeviceKind {
    /// As the configuration spells it.
    pub const fn name(self) -> &'static str {
        match self {
            DeviceKind::NicModel => "nic-model",
            DeviceKind::PacketNicModel => "packet-nic-model",
            DeviceKind::Cryptodev => "cryptodev",
            DeviceKind::RtlSimulation => "rtl-simulation",
        }
    }

    /// True if this build has it.
    pub const fn is_built_in(self) -> bool {
        match self {
            DeviceKind::NicModel | DeviceKind::PacketNicModel => true,
            DeviceKind::Cryptodev => cfg!(feature = "cryptodev"),
            DeviceKind::RtlSimulation => cfg!(feature = "rtl"),
        }
    }
}
