//! Arguments of DPDK and of a device's driver.

use rustix::thread::sched_getaffinity;

use crate::error::StartError;
use crate::sys;

/// A device of DPDK's as it is configured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// The driver: `crypto_openssl`. Of a device with an address for people alone: the bus tells the driver.
    pub driver: String,
    /// Where the device is on its bus, of one that is hardware: `0000:3d:01.0`, `fslmc:dpseci.1`.
    pub address: Option<String>,
    /// Arguments of the driver: `max_nb_queue_pairs=16`.
    pub args: Vec<String>,
    /// Arguments of DPDK's environment (EAL): for memory, in the place of `--no-huge -m 256`, and
    /// others.
    pub eal: Vec<String>,
}

/// Memory of a process with drivers that are software alone: no huge pages, and MiB enough for 16 queues. Hardware
/// has what DPDK does without being told: huge pages.
const MEMORY: [&str; 3] = ["--no-huge", "-m", "256"];

impl Settings {
    /// The device's name in DPDK: its address, or a virtual device's name, which begins with its driver's.
    pub(crate) fn device(&self, name: &str) -> String {
        match &self.address {
            // The bus's name does not come back with the device's.
            Some(address) => match address.split_once(':') {
                Some(("pci" | "fslmc" | "dpaa_bus" | "vdev" | "auxiliary", own)) => own.to_owned(),
                _ => address.clone(),
            },
            None => format!("{}_{name}", self.driver),
        }
    }

    /// The argument that makes the device.
    fn argument(&self, name: &str) -> String {
        let device = match &self.address {
            Some(address) => format!("--allow={address}"),
            None => format!("--vdev={}", self.device(name)),
        };
        core::iter::once(&device)
            .chain(&self.args)
            .map(String::as_str)
            .collect::<Vec<_>>()
            .join(",")
    }
}

/// Starts DPDK with these devices, each with its name. A second call has no effect and returns what the first one did.
///
/// # Errors
/// [`StartError`].
pub fn start(devices: &[(&str, &Settings)]) -> Result<(), StartError> {
    let cpu = sched_getaffinity(None)
        .ok()
        .and_then(|cpus| (0..rustix::thread::CpuSet::MAX_CPU).find(|cpu| cpus.is_set(*cpu)));
    sys::start(&arguments(devices, cpu.unwrap_or(0)))
}

/// One thread of DPDK's, which sleeps, on a CPU that the process may use; files of no kind; and the devices, after what
/// their owners add: a virtual device may be made of others.
fn arguments(devices: &[(&str, &Settings)], cpu: usize) -> Vec<String> {
    let mut arguments = vec!["--no-telemetry", "--log-level=warning"];
    let mut told = devices.iter().flat_map(|(_, device)| &device.eal);
    let is_software = devices.iter().all(|(_, device)| device.address.is_none());
    if is_software {
        arguments.extend(["--no-pci", "--iova-mode=va"]);
    }
    if is_software && devices.iter().all(|(_, device)| device.eal.is_empty()) {
        arguments.extend(MEMORY);
    }
    // Two words for the same: without huge pages DPDK does not take the first.
    let has_huge_pages = !arguments.contains(&"--no-huge") && told.all(|told| told != "--no-huge");
    arguments.push(if has_huge_pages { "--in-memory" } else { "--no-shconf" });
    let mut arguments: Vec<String> = arguments.into_iter().map(str::to_owned).collect();
    arguments.push(format!("--lcores=0@{cpu}"));
    arguments.extend(devices.iter().flat_map(|(_, device)| device.eal.clone()));
    arguments.extend(devices.iter().map(|(name, device)| device.argument(name)));
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(devices: &[(&str, &Settings)]) -> String {
        arguments(devices, 3).join(" ")
    }

    #[test]
    fn drivers_that_are_software_need_nothing() {
        let openssl = Settings {
            driver: "crypto_openssl".into(),
            args: vec!["max_nb_queue_pairs=16".into()],
            ..Settings::default()
        };
        assert_eq!(
            text(&[("nic0", &openssl)]),
            "--no-telemetry --log-level=warning --no-pci --iova-mode=va --no-huge -m 256 --no-shconf \
             --lcores=0@3 --vdev=crypto_openssl_nic0,max_nb_queue_pairs=16"
        );
        assert_eq!(openssl.device("nic0"), "crypto_openssl_nic0");
    }

    #[test]
    fn hardware_has_an_address_and_memory_of_its_own() {
        let qat = Settings {
            driver: "crypto_qat".into(),
            address: Some("0000:3d:01.0".into()),
            args: vec!["qat_sym_cipher_crc_enable=1".into()],
            ..Settings::default()
        };
        let sec = Settings {
            address: Some("fslmc:dpseci.1".into()),
            eal: vec!["--socket-mem=128".into()],
            ..Settings::default()
        };
        assert_eq!(
            text(&[("a", &qat), ("b", &sec)]),
            "--no-telemetry --log-level=warning --in-memory --lcores=0@3 --socket-mem=128 \
             --allow=0000:3d:01.0,qat_sym_cipher_crc_enable=1 --allow=fslmc:dpseci.1"
        );
        assert_eq!(
            (qat.device("a").as_str(), sec.device("b").as_str()),
            ("0000:3d:01.0", "dpseci.1")
        );
    }
}
