//! Facts about an interface, and what stands in the way of AF_XDP on it.

mod ioctl;

use core::fmt;
use std::io::Error;
use std::path::Path;

use mirror::XDP_METADATA_VLAN_TAG;

/// Facts about an interface. Taken in the calling thread's network namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// Name of the interface.
    pub name: String,
    /// Index of the interface.
    pub ifindex: u32,
    /// Name of the driver; empty if the driver does not say.
    pub driver: String,
    /// MTU of the interface in bytes.
    pub mtu: u32,
    /// Receive queues in use: each needs an AF_XDP socket.
    pub rx_queues: u32,
    /// Transmit queues in use.
    pub tx_queues: u32,
    /// The device inserts VLAN tags on transmission (`tx-vlan-offload`).
    pub tx_vlan_offload: bool,
    /// The device takes VLAN tags out on reception (`rx-vlan-offload`).
    pub rx_vlan_offload: bool,
    /// XDP programs can be told the tags that it takes out: by its driver, and by this kernel.
    pub tells_vlan_tags: bool,
}

/// An interface could not be looked at.
#[derive(Debug, thiserror::Error)]
#[error("{name}: {call} failed: {source}; see ip link for the interfaces")]
pub struct DeviceError {
    /// Name of the interface.
    pub name: String,
    /// The system call.
    pub call: &'static str,
    /// The kernel's answer.
    pub source: Error,
}

/// A property of an interface that hinders AF_XDP. `Display` says what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// The driver's native XDP takes frames in one buffer only up to a smaller MTU.
    MtuTooLargeForNative {
        /// Name of the interface.
        name: String,
        /// MTU of the interface in bytes.
        mtu: u32,
        /// The largest that works.
        limit: u32,
    },
    /// Frames up to the MTU do not fit a chunk behind the headroom.
    MtuTooLargeForChunk {
        /// Name of the interface.
        name: String,
        /// MTU of the interface in bytes.
        mtu: u32,
        /// The largest that fits.
        limit: u32,
    },
    /// VLAN tags may travel beside the frame and be lost through AF_XDP.
    VlanOffload {
        /// Name of the interface.
        name: String,
        /// The interface is a veth: the offload has to be switched off on its peer too.
        is_veth: bool,
    },
}

impl Device {
    /// Looks at an interface.
    ///
    /// # Errors
    ///
    /// [`DeviceError`] if it does not exist.
    pub fn look(name: &str) -> Result<Self, DeviceError> {
        let fail =
            |call: &'static str| move |source| DeviceError { name: name.to_owned(), call, source };
        let socket = ioctl::socket().map_err(fail("socket"))?;
        let ifindex = ioctl::ifindex(&socket, name).map_err(fail("SIOCGIFINDEX"))?;
        let mtu = ioctl::mtu(&socket, name).map_err(fail("SIOCGIFMTU"))?;
        // Drivers need not answer these; nothing is wrong then, unless the interface has gone meanwhile: these calls wait for
        // who removes it, and those before do not.
        let driver = match ioctl::driver(&socket, name) {
            Ok(driver) => driver,
            Err(_) => {
                ioctl::ifindex(&socket, name).map_err(fail("SIOCGIFINDEX"))?;
                String::new()
            }
        };
        let flags = ioctl::flags(&socket, name).unwrap_or(0);
        let (rx_queues, tx_queues) = match ioctl::channels(&socket, name) {
            Ok(channels) => channels,
            Err(_) => (sysfs_queues(name, ifindex, "rx-"), sysfs_queues(name, ifindex, "tx-")),
        };
        let mut device = Self {
            name: name.to_owned(),
            ifindex,
            driver,
            mtu,
            rx_queues: rx_queues.max(1),
            tx_queues: tx_queues.max(1),
            tx_vlan_offload: flags & ioctl::ETH_FLAG_TXVLAN != 0,
            rx_vlan_offload: flags & ioctl::ETH_FLAG_RXVLAN != 0,
            tells_vlan_tags: false,
        };
        device.tells_vlan_tags = device.strips_vlan_tags()
            && Path::new(KERNEL_TYPES).exists()
            && mirror::xdp_metadata(ifindex).is_ok_and(|told| told & XDP_METADATA_VLAN_TAG != 0);
        Ok(device)
    }

    /// True if VLAN tags may lie beside frames and not in them. Of a veth the sender's side
    /// decides, which cannot be seen from here: it begins with the same settings.
    pub fn strips_vlan_tags(&self) -> bool {
        self.rx_vlan_offload || (self.driver == "veth" && self.tx_vlan_offload)
    }

    /// Obstacles to AF_XDP here, for chunks of `chunk_len` bytes, and with or without the program
    /// variant for frames of several buffers.
    pub fn findings(&self, chunk_len: usize, frags: bool) -> Vec<Finding> {
        let mut findings = Vec::new();
        let name = || self.name.clone();
        if !frags && self.driver == "veth" && self.mtu > VETH_NATIVE_MTU {
            findings.push(Finding::MtuTooLargeForNative {
                name: name(),
                mtu: self.mtu,
                limit: VETH_NATIVE_MTU,
            });
        }
        let room = chunk_len.saturating_sub(::io::HEADROOM);
        let limit = u32::try_from(room.saturating_sub(LINK_HEADER_LEN)).unwrap_or(u32::MAX);
        if self.mtu > limit {
            findings.push(Finding::MtuTooLargeForChunk { name: name(), mtu: self.mtu, limit });
        }
        if self.strips_vlan_tags() {
            let is_veth = self.driver == "veth";
            findings.push(Finding::VlanOffload { name: name(), is_veth });
        }
        findings
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MtuTooLargeForNative { name, mtu, limit } => write!(
                f,
                "MTU {mtu} of {name}: the driver's native XDP takes {limit} at most, and generic mode is slow; run \
                 `ip link set {name} mtu {limit}`"
            ),
            Self::MtuTooLargeForChunk { name, mtu, limit } => write!(
                f,
                "MTU {mtu} of {name}: a packet buffer takes {limit} at most; run `ip link set {name} mtu {limit}`"
            ),
            Self::VlanOffload { name, is_veth } => {
                write!(f, "{name}: VLAN offload is on, so VLAN tags are lost through AF_XDP; ")?;
                if *is_veth {
                    write!(
                        f,
                        "if VLANs are used, run `ethtool -K DEV tx-vlan-offload off \
                         tx-vlan-stag-hw-insert off` on {name} and on its peer"
                    )
                } else {
                    write!(f, "if VLANs are used, run `ethtool -K {name} rx-vlan-offload off`")
                }
            }
        }
    }
}

/// Counts queues in sysfs, if what it shows there is the same interface; 0 if not.
fn sysfs_queues(name: &str, ifindex: u32, prefix: &str) -> u32 {
    let folder = Path::new("/sys/class/net").join(name);
    let shown = std::fs::read_to_string(folder.join("ifindex")).ok();
    if shown.and_then(|text| text.trim().parse().ok()) != Some(ifindex) {
        return 0;
    }
    let Ok(entries) = std::fs::read_dir(folder.join("queues")) else { return 0 };
    let named = |entry: &std::fs::DirEntry| entry.file_name().to_string_lossy().starts_with(prefix);
    entries.flatten().filter(named).count() as u32
}

/// The numbers by which programs call the kernel's functions; not there without CONFIG_DEBUG_INFO_BTF.
pub(crate) const KERNEL_TYPES: &str = "/sys/kernel/btf/vmlinux";

/// Bytes of a page that are left for a packet behind veth's headroom and the socket buffer's tail.
const VETH_NATIVE_MTU: u32 = 3506;

/// Ethernet with two VLAN tags.
const LINK_HEADER_LEN: usize = 22;

#[cfg(test)]
mod tests {
    use super::*;

    fn veth(mtu: u32) -> Device {
        Device {
            name: "v0".to_owned(),
            ifindex: 3,
            driver: "veth".to_owned(),
            mtu,
            rx_queues: 1,
            tx_queues: 1,
            tx_vlan_offload: false,
            rx_vlan_offload: false,
            tells_vlan_tags: false,
        }
    }

    #[test]
    fn limits_on_the_mtu() {
        assert!(veth(1500).findings(2048, false).is_empty());
        assert!(veth(3506).findings(4096, false).is_empty());
        assert!(matches!(
            veth(3507).findings(4096, false)[..],
            [Finding::MtuTooLargeForNative { mtu: 3507, limit: 3506, .. }]
        ));
        assert!(veth(3507).findings(4096, true).is_empty());
        assert!(matches!(
            veth(1771).findings(2048, false)[..],
            [Finding::MtuTooLargeForChunk { limit: 1770, .. }]
        ));
    }

    #[test]
    fn a_text_says_what_to_run_once() {
        let text = veth(9000).findings(2048, false)[1].to_string();
        let expected =
            "MTU 9000 of v0: a packet buffer takes 1770 at most; run `ip link set v0 mtu 1770`";
        assert_eq!(text, expected);
    }

    #[test]
    fn offloads_that_lose_tags() {
        let device = Device { tx_vlan_offload: true, ..veth(1500) };
        assert!(device.findings(2048, false)[0].to_string().contains("on its peer"));
        let device = Device { driver: "ixgbe".to_owned(), ..device };
        assert!(device.findings(2048, false).is_empty(), "only the receiving side counts");
        let device = Device { rx_vlan_offload: true, ..device };
        assert!(device.findings(2048, false)[0].to_string().contains("rx-vlan-offload off"));
    }

    #[test]
    fn loopback_is_there_and_nonsense_is_not() {
        let lo = Device::look("lo").expect("every namespace has one");
        assert!(lo.mtu >= 1500 && lo.rx_queues >= 1 && lo.ifindex == 1, "{lo:?}");
        let error = Device::look("no-such-dev").expect_err("not there");
        assert_eq!(error.source.raw_os_error(), Some(libc::ENODEV));
    }
}
