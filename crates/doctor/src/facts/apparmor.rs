//! Facts about AppArmor.

/// Where AppArmor's profiles are; what operators add to them lies in `local` below.
pub const PROFILES_DIR: &str = "/etc/apparmor.d";

/// AppArmor's profile of the IKE daemon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AppArmor {
    /// The kernel does not have AppArmor, or has it switched off.
    Off,
    /// There is no profile for the IKE daemon.
    Unconfined,
    /// The profile or its local addition mentions culvert.
    Aware,
    /// The profile of this name does not, nor does its local addition.
    Unaware(String),
}

/// How the kernel applies the IKE daemon's profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Confinement {
    /// The kernel does not tell, as without root.
    Unknown,
    /// The profile is not loaded.
    NotLoaded,
    /// Denials are logged, and nothing else.
    Complain,
    /// Denied access fails.
    Enforce,
}

/// Something that a profile does not allow, and that was tried.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Denial {
    /// True if the access failed. A profile that only complains lets it pass.
    pub was_refused: bool,
    /// The profile's name.
    pub profile: String,
    /// As AppArmor names it: `open`, `capable`, `create`, ...
    pub operation: String,
    /// The file, capability, or address family.
    pub object: String,
}

impl Denial {
    /// True for culvert's daemon: its profile, or a part of that.
    pub fn is_of_daemon(&self) -> bool {
        self.profile.split("//").next() == Some("culvert")
    }
}
