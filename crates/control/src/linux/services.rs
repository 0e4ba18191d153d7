//! Whose GTP-U is whose, as workers read it (`[[gtpu]]`).

use dataplane::gtpu::{Application, Otherwise, Service, Services, Station};
use mirror::Snapshot;
use wire::ethernet::MacAddr;

use config::{GtpuConfig, GtpuOtherwise};

/// The services of a configuration's entries. What is for an application whose interface is not there is dropped as for a port that is
/// down.
pub fn of(snapshot: &Snapshot, entries: &[GtpuConfig]) -> Services {
    let mut services: Vec<Service> = Vec::new();
    for entry in entries {
        let application = application(snapshot, entry);
        match services.iter_mut().find(|service| service.address == entry.address) {
            Some(service) => service.applications.push(application),
            None => services.push(Service {
                address: entry.address,
                applications: vec![application],
                malformed: otherwise(entry.malformed),
                unknown: otherwise(entry.unknown),
            }),
        }
    }
    Services::new(services)
}

fn application(snapshot: &Snapshot, entry: &GtpuConfig) -> Application {
    let to = match (entry.mac, entry.via) {
        (Some(mac), _) => Station::Mac(MacAddr(mac.0)),
        (None, Some(via)) => Station::Neighbour(via),
        (None, None) => Station::Mac(ALL_STATIONS),
    };
    Application {
        ifindex: snapshot.link_by_name(&entry.port).map_or(NO_INTERFACE, |link| link.index),
        queue: entry.queue,
        to,
        teids: entry.teids(),
        takes_echo: entry.takes_echo(),
        takes_errors: entry.takes_errors(),
    }
}

const fn otherwise(otherwise: GtpuOtherwise) -> Otherwise {
    match otherwise {
        GtpuOtherwise::Linux => Otherwise::Linux,
        GtpuOtherwise::Drop => Otherwise::Drop,
    }
}

/// At the other end of a memif is one station, whatever its address.
const ALL_STATIONS: MacAddr = MacAddr([0xff; 6]);

/// An index that no interface has.
const NO_INTERFACE: u32 = u32::MAX;
