//! Whose GTP-U is whose: addresses at which applications end the tunnels of a mobile network's user plane.
//!
//! Many tunnels have one pair of addresses and ports, so to the flow cache they are one flow, and its plan says only that GTP-U of
//! that address is applications' (`Services::at`). Which of them gets a message its TEID says, which is read as the plan is
//! carried out (`features/gtpu.rs`). So nothing is read or asked for packets that are of no such flow.

use core::net::IpAddr;
use core::ops::RangeInclusive;

use wire::MacAddr;
use wire::gtpu::{GtpuError, GtpuHeader, Teid, message};

use crate::model::{Counter, named_counters};

/// An application that has tunnels of an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Application {
    /// The interface of its port.
    pub ifindex: u32,
    /// The port's queue that gets all of it; as other packets to the port where there is none.
    pub queue: Option<u16>,
    /// The station of its frames.
    pub to: Station,
    /// TEIDs of its tunnels.
    pub teids: RangeInclusive<u32>,
    /// True if it gets the messages of the path between two nodes: echoes, and supported extension
    /// headers.
    pub takes_echo: bool,
    /// True if it gets error indications, which belong to no tunnel of the receiver's.
    pub takes_errors: bool,
}

/// A station at a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Station {
    /// With this Ethernet address.
    Mac(MacAddr),
    /// The neighbour with this address, as Linux knows it.
    Neighbour(IpAddr),
}

/// Treatment of messages that belong to no application.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Otherwise {
    /// Linux gets them.
    #[default]
    Linux,
    /// They are dropped.
    Drop,
}

/// An address of applications.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    /// Address of the service.
    pub address: IpAddr,
    /// The applications. Their tunnels do not overlap.
    pub applications: Vec<Application>,
    /// Treatment of malformed messages.
    pub malformed: Otherwise,
    /// Treatment of messages whose TEID no application has.
    pub unknown: Otherwise,
}

/// All of them.
#[derive(Clone, Debug, Default)]
pub struct Services(Vec<Service>);

/// Class of a message, by which it is delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// A user's packet.
    Data,
    /// The last one by an old path of a tunnel.
    EndMarker,
    /// An echo, or which extension headers are known: about the path between two nodes.
    Path,
    /// The sender has no tunnel of a TEID.
    ErrorIndication,
    /// Any other message.
    Other,
}

/// Recipient of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recipient<'s> {
    Application(&'s Application),
    /// Linux, as it is about the path and no application wants it.
    Linux,
    /// Nobody has its TEID.
    Unknown,
}

impl Services {
    /// Of so many addresses, each of them once. Tunnels are looked for in the order of their first TEID.
    pub fn new(mut services: Vec<Service>) -> Services {
        for service in &mut services {
            service.applications.sort_by_key(|application| *application.teids.start());
        }
        Services(services)
    }

    /// The number of the service of an address.
    pub(crate) fn at(&self, address: IpAddr) -> Option<u16> {
        let at = self.0.iter().position(|service| service.address == address)?;
        u16::try_from(at).ok()
    }

    /// The service of this number.
    pub(crate) fn get(&self, number: u16) -> Option<&Service> {
        self.0.get(usize::from(number))
    }

    /// True if an application at this interface sends from the address.
    pub(crate) fn is_source(&self, address: IpAddr, ifindex: u32) -> bool {
        self.0.iter().any(|service| {
            service.address == address && service.applications.iter().any(|a| a.ifindex == ifindex)
        })
    }
}

impl Service {
    /// The receiver of a message of this kind and tunnel.
    pub(crate) fn receiver(&self, class: Class, teid: Teid) -> Recipient<'_> {
        let who = |wants: fn(&Application) -> bool| {
            let found = self.applications.iter().find(|application| wants(application));
            found.map_or(Recipient::Linux, Recipient::Application)
        };
        match class {
            Class::Path => who(|application| application.takes_echo),
            Class::ErrorIndication => who(|application| application.takes_errors),
            Class::Data | Class::EndMarker | Class::Other => {
                let behind = self.applications.partition_point(|a| *a.teids.start() <= teid.0);
                let before = behind.checked_sub(1).and_then(|at| self.applications.get(at));
                let found = before.filter(|application| application.teids.contains(&teid.0));
                found.map_or(Recipient::Unknown, Recipient::Application)
            }
        }
    }
}

impl Class {
    pub(crate) fn of(header: &GtpuHeader<'_>) -> Class {
        match header.message() {
            message::G_PDU => Class::Data,
            message::END_MARKER => Class::EndMarker,
            message::ECHO_REQUEST
            | message::ECHO_RESPONSE
            | message::SUPPORTED_EXTENSION_HEADERS => Class::Path,
            message::ERROR_INDICATION => Class::ErrorIndication,
            _ => Class::Other,
        }
    }
}

named_counters! {
    /// Messages of GTP-U to addresses of applications, by what they are.
    Gtpu:
    /// Users' packets (G-PDU).
    data, "g-pdu";
    /// End markers (type 254).
    end_markers, "end-marker";
    /// Echo requests and responses, and notifications of supported extension headers.
    path, "path";
    /// Error indications (type 26).
    errors, "error-indication";
    /// Messages of other types.
    others, "other";
    /// Messages among these whose TEID no application has.
    unknown, "unknown-teid";
    /// Datagrams that are shorter than their header.
    short, "malformed-short";
    /// Messages of another version than 1.
    versions, "malformed-version";
    /// Messages of GTP' (protocol type 0).
    protocol_types, "malformed-protocol-type";
    /// Messages whose length differs from their datagram's.
    lengths, "malformed-length";
    /// Messages with an extension header of no length, or beyond the message's end.
    extensions, "malformed-extension";
}

impl Gtpu {
    pub(crate) fn of_class(&self, class: Class) -> &Counter {
        match class {
            Class::Data => &self.data,
            Class::EndMarker => &self.end_markers,
            Class::Path => &self.path,
            Class::ErrorIndication => &self.errors,
            Class::Other => &self.others,
        }
    }

    pub(crate) fn of_error(&self, error: GtpuError) -> &Counter {
        match error {
            GtpuError::Short => &self.short,
            GtpuError::Version(_) => &self.versions,
            GtpuError::ProtocolType => &self.protocol_types,
            GtpuError::Length => &self.lengths,
            GtpuError::Extension => &self.extensions,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn application(ifindex: u32, teids: RangeInclusive<u32>) -> Application {
        Application {
            ifindex,
            queue: None,
            to: Station::Mac(MacAddr([2; 6])),
            teids,
            takes_echo: ifindex == 1,
            takes_errors: false,
        }
    }

    #[test]
    fn a_tunnel_has_the_application_of_its_range() {
        let address = IpAddr::from([10, 0, 0, 1]);
        let applications = vec![
            application(1, 0x2000..=0x2fff),
            application(2, 0x1000..=0x1fff),
            application(3, 0xffff_ffff..=0xffff_ffff),
        ];
        let service = Service {
            address,
            applications,
            malformed: Otherwise::Drop,
            unknown: Otherwise::Linux,
        };
        let services = Services::new(vec![service]);
        let service = services.at(address).and_then(|at| services.get(at)).unwrap();
        let of = |class, teid| match service.receiver(class, Teid(teid)) {
            Recipient::Application(application) => application.ifindex,
            Recipient::Linux => 0,
            Recipient::Unknown => 99,
        };
        let expected = [
            (0, 99),
            (0xfff, 99),
            (0x1000, 2),
            (0x1fff, 2),
            (0x2000, 1),
            (0x2fff, 1),
            (0x3000, 99),
            (0xffff_fffe, 99),
            (u32::MAX, 3),
        ];
        for (teid, ifindex) in expected {
            assert_eq!(of(Class::Data, teid), ifindex, "{teid:#x}");
            assert_eq!(of(Class::EndMarker, teid), ifindex, "{teid:#x}");
        }
        assert_eq!((of(Class::Path, 0), of(Class::ErrorIndication, 0)), (1, 0));
        assert!(services.is_source(address, 3) && !services.is_source(address, 4));
        assert_eq!(services.at(IpAddr::from([10, 0, 0, 2])), None);
    }
}
