//! `[[port]]`: what packets come and go by.

use std::path::PathBuf;

use serde::Deserialize;

use super::memif::{MemifConfig, MemifRole};

/// `[[port]]`: an interface to take over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortConfig {
    /// The interface's name.
    pub interface: String,
    /// By which sockets.
    pub kind: Sockets,
    /// How the XDP program is attached.
    pub mode: XdpMode,
    /// How many receive queues to take; all of the interface's when left out. Queues that are not
    /// taken stay with Linux. Of packet sockets: how many there are, one for each worker when left out.
    pub queues: Option<u32>,
}

/// The sockets by which an interface is taken over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sockets {
    /// The best by driver, kernel and owner of the SAs; chosen when the port is opened.
    #[default]
    Auto,
    /// AF_XDP, with or without a copy.
    Xdp,
    /// Packet sockets (`AF_PACKET`).
    Packet,
}

/// How the XDP program is attached to an interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum XdpMode {
    /// In the driver where it can, generic otherwise; the log says which.
    #[default]
    Auto,
    /// In the driver, or an error.
    Native,
    /// In the stack: works on every interface, and is slow.
    Generic,
}

/// Kind of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    /// An interface of Linux's that is taken over by the sockets that are best for it.
    Auto,
    /// One that is taken over by AF_XDP.
    #[serde(alias = "interface")]
    Xdp,
    /// One that is taken over by packet sockets.
    Packet,
    /// Memory that is shared with an application.
    Memif,
}

/// `[[port]]` with the keys of all kinds.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PortSection {
    interface: String,
    kind: Option<Kind>,
    mode: Option<XdpMode>,
    queues: Option<u32>,
    socket: Option<PathBuf>,
    id: Option<u32>,
    role: Option<MemifRole>,
    secret: Option<String>,
    ring_size: Option<u32>,
    mtu: Option<u32>,
    mac: Option<String>,
    unsealed: Option<bool>,
    memory_mib: Option<u32>,
}

/// A port, by its kind.
pub(super) enum Port {
    Interface(PortConfig),
    Memif(MemifConfig),
}

/// A value that cannot be: its key, itself, and what is allowed.
type Wrong = (&'static str, String, &'static str);

impl PortSection {
    /// The interface that the section names.
    pub(super) fn interface(&self) -> &str {
        &self.interface
    }

    /// The port, by its kind.
    pub(super) fn into_kind(self) -> Result<Port, Wrong> {
        // Of XDP programs alone there are modes.
        let left_out = if self.mode.is_some() { Kind::Xdp } else { Kind::Auto };
        let kind = self.kind.unwrap_or(left_out);
        match kind {
            Kind::Auto | Kind::Xdp | Kind::Packet => {
                let given = [
                    ("socket", self.socket.is_some()),
                    ("id", self.id.is_some()),
                    ("role", self.role.is_some()),
                    ("secret", self.secret.is_some()),
                    ("ring_size", self.ring_size.is_some()),
                    ("mtu", self.mtu.is_some()),
                    ("mac", self.mac.is_some()),
                    ("unsealed", self.unsealed.is_some()),
                    ("memory_mib", self.memory_mib.is_some()),
                ];
                if let Some((key, _)) = given.iter().find(|(_, is_given)| *is_given) {
                    let allowed = "leave it out, or say kind = \"memif\": an interface of Linux's has no such key";
                    return Err((key, String::new(), allowed));
                }
                let kind = match kind {
                    Kind::Packet => Sockets::Packet,
                    Kind::Xdp => Sockets::Xdp,
                    _ => Sockets::Auto,
                };
                if kind == Sockets::Packet && self.mode.is_some() {
                    let allowed = "leave it out: no XDP program is attached to a packet port";
                    return Err(("mode", String::new(), allowed));
                }
                let PortSection { interface, mode, queues, .. } = self;
                let mode = mode.unwrap_or_default();
                Ok(Port::Interface(PortConfig { interface, kind, mode, queues }))
            }
            Kind::Memif => {
                if self.mode.is_some() {
                    let allowed = "leave it out: no XDP program is attached to a memif port";
                    return Err(("mode", String::new(), allowed));
                }
                let Some(socket) = self.socket else {
                    let allowed = "the path of the socket at which both programs meet";
                    return Err(("socket", String::new(), allowed));
                };
                let mac = match self.mac {
                    None => None,
                    Some(text) => match mac(&text) {
                        Some(mac) => Some(mac),
                        None => {
                            let allowed = "six bytes such as \"02:00:00:00:00:01\", of one station";
                            return Err(("mac", text, allowed));
                        }
                    },
                };
                let memif = MemifConfig {
                    interface: self.interface,
                    socket,
                    id: self.id.unwrap_or(0),
                    role: self.role.unwrap_or_default(),
                    secret: self.secret,
                    queues: self.queues.unwrap_or(1),
                    ring_size: self.ring_size.unwrap_or(MemifConfig::DEFAULT_RING_SIZE),
                    mtu: self.mtu.unwrap_or(MemifConfig::DEFAULT_MTU),
                    mac,
                    unsealed: self.unsealed.unwrap_or(false),
                    memory_mib: self.memory_mib,
                };
                match memif.problem() {
                    Some(wrong) => Err(wrong),
                    None => Ok(Port::Memif(memif)),
                }
            }
        }
    }
}

/// The address of one station.
pub(super) fn mac(text: &str) -> Option<[u8; 6]> {
    let mut bytes = text.split(':').map(|byte| match byte.len() {
        2 => u8::from_str_radix(byte, 16).ok(),
        _ => None,
    });
    let mut mac = [0; 6];
    for to in &mut mac {
        *to = bytes.next()??;
    }
    let is_station = mac[0] & 1 == 0 && mac != [0; 6];
    (bytes.next().is_none() && is_station).then_some(mac)
}
