//! `[[port]]` of the kind `memif`: an application that shares memory with the daemon.

use std::path::PathBuf;

use serde::Deserialize;

/// `[[port]]` with `kind = "memif"`.
#[derive(Clone, PartialEq, Eq)]
pub struct MemifConfig {
    /// The interface that stands for it in Linux.
    pub interface: String,
    /// Where both programs meet.
    pub socket: PathBuf,
    /// Number of the interface at the socket.
    pub id: u32,
    /// Which of the two programs owns the memory.
    pub role: MemifRole,
    /// Secret that the client must know.
    pub secret: Option<String>,
    /// The most pairs of rings.
    pub queues: u32,
    /// The longest ring, in packets.
    pub ring_size: u32,
    /// The longest packet, in bytes.
    pub mtu: u32,
    /// The interface's Ethernet address.
    pub mac: Option<[u8; 6]>,
    /// True if memory is taken that the application can cut.
    pub unsealed: bool,
    /// The most memory of the application's that is mapped, in MiB; none: as much as [`Self::memory_bytes`] says.
    pub memory_mib: Option<u32>,
}

/// Which side the daemon is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MemifRole {
    /// Culvert listens; the application owns the memory.
    #[default]
    Server,
    /// Culvert connects, and owns the memory.
    Client,
}

impl MemifConfig {
    /// Packets in a ring, where nothing is said.
    pub const DEFAULT_RING_SIZE: u32 = 1024;

    /// The longest packet, where nothing is said.
    pub const DEFAULT_MTU: u32 = 1500;

    /// Bytes of the largest buffer that is reckoned with for each packet of a ring.
    const BUFFER_BYTES: u64 = 4096;

    /// Memory that every application may share, in MiB.
    const LEAST_MIB: u64 = 16;

    /// Memory of an application that shares all its packets, in MiB: DPDK's with `zero-copy=yes` shares its whole heap.
    const UNSEALED_MIB: u64 = 1024;

    /// The most memory that the protocol can name, in MiB: 64 regions of 4 GiB.
    const MAX_MIB: u32 = 64 * 4096;

    /// The longest path of a socket.
    const MAX_PATH_LEN: usize = 107;

    /// The longest secret.
    const MAX_SECRET_LEN: usize = 24;

    /// The most bytes of the application's memory that are mapped: what the configuration says, or what the rings hold.
    pub fn memory_bytes(&self) -> u64 {
        let mib = |mib: u64| mib << 20;
        match self.memory_mib {
            Some(said) => mib(said.into()),
            None if self.unsealed => mib(Self::UNSEALED_MIB),
            None => {
                let packets = 2 * u64::from(self.queues) * u64::from(self.ring_size);
                (packets * Self::BUFFER_BYTES).max(mib(Self::LEAST_MIB))
            }
        }
    }

    /// The first value that cannot be: its key, itself, and what is allowed.
    pub(super) fn problem(&self) -> Option<(&'static str, String, &'static str)> {
        let socket = self.socket.as_os_str();
        if !self.socket.is_absolute() || socket.len() > Self::MAX_PATH_LEN {
            let allowed = "an absolute path of at most 107 bytes";
            return Some(("socket", self.socket.display().to_string(), allowed));
        }
        if let Some(secret) = &self.secret
            && (secret.is_empty() || secret.len() > Self::MAX_SECRET_LEN || secret.contains('\0'))
        {
            return Some(("secret", "...".into(), "1 to 24 bytes; or leave it out"));
        }
        if !(1..=64).contains(&self.queues) {
            return Some(("queues", self.queues.to_string(), "1 to 64 pairs of rings"));
        }
        if !(32..=16384).contains(&self.ring_size) || !self.ring_size.is_power_of_two() {
            return Some(("ring_size", self.ring_size.to_string(), "a power of two, 32 to 16384"));
        }
        if !(1280..=9000).contains(&self.mtu) {
            return Some(("mtu", self.mtu.to_string(), "between 1280 and 9000"));
        }
        if let Some(mib) = self.memory_mib
            && (mib == 0 || mib > Self::MAX_MIB || self.role == MemifRole::Client)
        {
            let allowed =
                "1 to 262144 MiB of a client's; as a client culvert owns the memory: leave it out";
            return Some(("memory_mib", mib.to_string(), allowed));
        }
        None
    }
}

impl std::fmt::Debug for MemifConfig {
    /// Without the secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "MemifConfig({} at {})", self.interface, self.socket.display())
    }
}
