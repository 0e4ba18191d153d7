//! Drivers whose AF_XDP or native XDP is known to fail, by kernel.
//!
//! Each row names where the fault is described. A row ends with the kernel that mends it, where one is known.

use config::XdpMode;
use steer::device::Device;

use super::facts::{Facts, PortFacts, Works};
use super::finding::Finding;
use super::machine::version;

/// How a port works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    /// Native, and buffers are shared with the card.
    ZeroCopy,
    /// Native, with a copy of each frame.
    Copied,
    /// The program runs in the stack.
    Generic,
}

use How::{Copied, Generic, ZeroCopy};

/// A known fault.
struct Fault {
    driver: &'static str,
    /// The first kernel that has it, and the first that has not.
    kernels: ((u32, u32), (u32, u32)),
    /// Ports that work so have it.
    how: &'static [How],
    seen: &'static str,
    why: &'static str,
    /// `IFACE` and `HALF` (of the queues) are filled in.
    next: &'static str,
    /// Where it is described.
    source: &'static str,
}

const FIRST: (u32, u32) = (0, 0);
/// No kernel is known to be free of it.
const NONE_YET: (u32, u32) = (u32::MAX, 0);
const GENERIC: &str =
    "a newer kernel; until then mode = \"generic\" for this [[port]], which is slow";
const NO_XDP: &str =
    "kind = \"packet\" for this [[port]] (Linux 6.6), or mode = \"generic\", which is slow";
const SLOW: &str = "the program runs in the stack, and each packet costs several times as much";
const HALF: &str = "ethtool -L IFACE combined HALF; then: systemctl restart culvert (tunnels stay)";

const FAULTS: [Fault; 9] = [
    Fault {
        driver: "ice",
        kernels: (FIRST, NONE_YET),
        how: &[ZeroCopy],
        seen: "frames that are received with zero copy can corrupt the kernel's memory",
        why: "who can send frames to this port can bring the machine down",
        next: NO_XDP,
        // Names the patch: 20260512152658.2818805-1-lorenz@monogon.tech. A panic of 7.0 is in
        // https://github.com/intel/ethernet-linux-ice/issues/59.
        source: "https://github.com/firedancer-io/firedancer/pull/11245",
    },
    Fault {
        driver: "i40e",
        kernels: (FIRST, (5, 19)),
        how: &[ZeroCopy, Copied],
        seen: "native XDP has failed tests with kernels before 5.19",
        why: "frames may be lost, or sockets stop",
        next: GENERIC,
        source: "https://github.com/firedancer-io/firedancer/blob/main/src/app/shared/fd_config_auto.c",
    },
    Fault {
        driver: "mlx5_core",
        kernels: (FIRST, (6, 1)),
        how: &[ZeroCopy],
        seen: "zero copy has failed tests with kernels before 6.1",
        why: "frames may be lost, or sockets stop",
        next: GENERIC,
        source: "https://github.com/firedancer-io/firedancer/blob/main/src/app/shared/fd_config_auto.c",
    },
    Fault {
        driver: "mlx5_core",
        kernels: ((6, 4), (6, 5)),
        how: &[ZeroCopy, Copied],
        seen: "native XDP has failed tests with 6.4, and not with those before and after",
        why: "frames may be lost, or sockets stop",
        next: GENERIC,
        source: "https://github.com/firedancer-io/firedancer/blob/main/src/app/shared/fd_config_auto.c",
    },
    Fault {
        driver: "ena",
        kernels: (FIRST, NONE_YET),
        how: &[ZeroCopy],
        seen: "zero copy under load has reset the card, and corrupted memory (ENA 2.7.1, 2.13.1)",
        why: "traffic stops for seconds with each reset",
        next: "ethtool -i IFACE; a later ENA driver, or kind = \"packet\" for this [[port]]",
        // The second: https://github.com/amzn/amzn-drivers/issues/330.
        source: "https://github.com/amzn/amzn-drivers/issues/221",
    },
    Fault {
        driver: "gve",
        kernels: (FIRST, NONE_YET),
        how: &[ZeroCopy],
        seen: "a socket that is closed while frames come can crash the kernel",
        why: "a restart or reload of culvert closes sockets",
        next: NO_XDP,
        source: "https://github.com/GoogleCloudPlatform/compute-virtual-ethernet-linux/pull/96",
    },
    Fault {
        driver: "ena",
        kernels: (FIRST, NONE_YET),
        how: &[Generic],
        seen: "native XDP needs half of the card's queues for itself",
        why: SLOW,
        next: HALF,
        source: "https://github.com/amzn/amzn-drivers/issues/240",
    },
    Fault {
        driver: "gve",
        kernels: (FIRST, NONE_YET),
        how: &[Generic],
        seen: "native XDP needs half of the card's queues for itself",
        why: SLOW,
        next: HALF,
        source: "https://github.com/firezone/firezone/pull/8538",
    },
    Fault {
        driver: "virtio_net",
        kernels: (FIRST, NONE_YET),
        how: &[Generic],
        seen: "there is no native XDP while the host may hand over packets that it has merged, or not summed",
        why: SLOW,
        next: "ethtool -K IFACE lro off rx-gro-hw off; where these are fixed, the hypervisor has to leave \
               guest_tso4, guest_tso6, guest_ecn, guest_ufo and guest_csum out; then: systemctl restart culvert",
        // The remedy of those where they are fixed: https://github.com/firecracker-microvm/firecracker/issues/2433.
        source: "https://github.com/facebookincubator/katran/issues/18",
    },
];

/// Findings about each port's driver.
pub fn check(facts: &Facts) -> Vec<Finding> {
    let Some(kernel) = version(&facts.machine.kernel) else { return Vec::new() };
    facts.ports.iter().flat_map(|port| of_port(facts, kernel, port)).collect()
}

fn of_port(facts: &Facts, kernel: (u32, u32), port: &PortFacts) -> Vec<Finding> {
    let Ok(device) = &port.device else { return Vec::new() };
    let Some(how) = how(facts, port) else { return Vec::new() };
    let faults = FAULTS.iter().filter(|fault| {
        let (from, before) = fault.kernels;
        fault.driver == device.driver
            && (from..before).contains(&kernel)
            && fault.how.contains(&how)
    });
    faults.map(|fault| finding(fault, device)).collect()
}

/// How a port works; before the start, as it would at best.
fn how(facts: &Facts, port: &PortFacts) -> Option<How> {
    if facts.works(port) == Works::Packet {
        return None;
    }
    match facts.working_port(&port.config.interface) {
        Some(working) if working.mode.is_generic() => {
            // As it was wanted.
            (port.config.mode != XdpMode::Generic).then_some(Generic)
        }
        Some(working) if working.mode.copies() == Some(false) => Some(ZeroCopy),
        Some(_) => Some(Copied),
        None => (port.config.mode != XdpMode::Generic).then_some(ZeroCopy),
    }
}

fn finding(fault: &Fault, device: &Device) -> Finding {
    let half = (device.rx_queues / 2).max(1).to_string();
    Finding::warning(
        format!("driver {}", device.name),
        format!("{}: {} ({})", fault.driver, fault.seen, fault.source),
        fault.why,
        fault.next.replace("IFACE", &device.name).replace("HALF", &half),
    )
}

#[cfg(test)]
mod tests {
    use super::super::facts::{healthy, healthy_daemon};
    use super::super::finding::Outcome;
    use super::*;

    /// Findings about a port with this driver, kernel and mode; without one no daemon runs.
    fn said(driver: &str, kernel: &str, mode: Option<&str>) -> Vec<Finding> {
        let mut facts = healthy();
        facts.machine.kernel = kernel.into();
        let device = facts.ports[0].device.as_mut().unwrap();
        (device.driver, device.rx_queues) = (driver.into(), 8);
        if let Some(mode) = mode {
            let mut running = healthy_daemon();
            running.ports[0].mode = mode.into();
            facts.instance.daemon = Some(Ok(running));
        }
        facts.ports.truncate(1);
        check(&facts)
    }

    #[test]
    fn each_by_driver_kernel_and_mode() {
        let zero = Some("native, zero-copy");
        // Driver, kernel, mode, and words of each finding.
        let rows: &[(&str, &str, Option<&str>, &[&str])] = &[
            ("ice", "6.1.0-18-amd64", zero, &["corrupt"]),
            ("ice", "6.1.0", Some("native, copy"), &[]),
            ("i40e", "5.10.0", Some("native, copy"), &["before 5.19"]),
            ("i40e", "5.19.0", zero, &[]),
            ("mlx5_core", "5.15.0", zero, &["before 6.1"]),
            ("mlx5_core", "6.4.2", Some("native, copy"), &["with 6.4"]),
            ("mlx5_core", "6.5.0", zero, &[]),
            ("ena", "6.1.0", zero, &["reset the card"]),
            ("ena", "6.1.0", Some("generic, copy"), &["half"]),
            ("gve", "6.1.0", Some("generic, copy"), &["half"]),
            ("gve", "6.1.0", zero, &["crash"]),
            ("virtio_net", "6.1.0", Some("generic, copy"), &["merged"]),
            ("virtio_net", "6.1.0", zero, &[]),
            // Before the start, what it may come to.
            ("ice", "6.11.0", None, &["corrupt"]),
            ("veth", "5.10.0", zero, &[]),
            ("ice", "weird", zero, &[]),
        ];
        for (driver, kernel, mode, words) in rows {
            let found = said(driver, kernel, *mode);
            assert_eq!(found.len(), words.len(), "{driver} {kernel} {mode:?}: {found:#?}");
            for (finding, word) in found.iter().zip(*words) {
                assert!(finding.seen.contains(word), "{finding:#?}");
                assert_eq!((&*finding.check, finding.result), ("driver wan", Outcome::Warning));
            }
        }
    }

    #[test]
    fn commands_are_about_the_port() {
        let next = said("ena", "6.1.0", Some("generic, copy"))[0].next.clone().unwrap();
        assert!(next.starts_with("ethtool -L wan combined 4"), "{next}");
    }

    #[test]
    fn generic_mode_that_is_wanted_is_no_fault() {
        let mut facts = healthy();
        facts.ports[0].device.as_mut().unwrap().driver = "virtio_net".into();
        facts.ports[0].config.mode = XdpMode::Generic;
        let mut running = healthy_daemon();
        running.ports[0].mode = "generic, copy".into();
        assert!(check(&facts).is_empty());
        facts.instance.daemon = Some(Ok(running));
        assert!(check(&facts).is_empty());
    }

    #[test]
    fn packet_sockets_have_none_of_these_faults() {
        let mut facts = healthy();
        facts.ports[0].device.as_mut().unwrap().driver = "ice".into();
        assert!(!check(&facts).is_empty(), "as zero copy may come");
        let mut running = healthy_daemon();
        running.ports[0].kind = "packet".into();
        facts.instance.daemon = Some(Ok(running));
        assert!(check(&facts).is_empty());
    }

    #[test]
    fn every_fault_says_where_it_is_from() {
        for fault in &FAULTS {
            assert!(fault.source.starts_with("https://github.com/"), "{}", fault.seen);
            assert!(fault.kernels.0 < fault.kernels.1 && !fault.how.is_empty(), "{}", fault.seen);
        }
    }
}
