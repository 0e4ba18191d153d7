//! Packets on their way from one thread to another.

use std::sync::Arc;

use esp::Sa;
use io::Packet;
use limit::{Passed, Visit};
use policy::{Reader, SaBundle, SaEntry, SaHandle, WorkerIndex};
use wire::Fields;

use crate::model::{FirstPorts, Ingress, Meta, Origin, Outers};

/// A packet that goes from one worker to another, with its context.
pub(crate) struct Parcel {
    pub(crate) handed: Handed,
    /// Of a packet that is on its way to the home of its limiters, or has been there.
    pub(crate) judging: Option<Judging>,
}

/// Question to the home of a packet's limiters, and its answer.
pub(crate) struct Judging {
    /// While it is there, other packets go the same way.
    pub(crate) visit: Visit,
    /// The worker that asks.
    pub(crate) from: u8,
    /// The packet's length.
    pub(crate) len: u16,
    pub(crate) dscp: u8,
    /// Tokens that the home has granted.
    pub(crate) passed: Option<Passed>,
}

/// A packet that is handed over, by kind.
pub(crate) enum Handed {
    /// A packet that arrived, or was decrypted.
    Arrived(Arrived),
    /// A packet that was resolved before: held, or made by the worker.
    Again(Again),
    /// A packet that the homes of its inner SAs have sealed, and the SAs that are left.
    Sealed(Packet, SaBundle),
    /// A frame for a slot of the receiving worker, or a packet for its private interface.
    Frame(Packet, Option<u16>),
}

/// A packet that no port has received now, or a device.
pub(crate) struct Again {
    pub(crate) packet: Packet,
    pub(crate) origin: Origin,
    /// Of a fragment, what its packet's first one has for ports, if that was found out.
    pub(crate) ports: Option<FirstPorts>,
    /// True if it is another worker's, handed over.
    pub(crate) is_of_other: bool,
}

/// A packet that arrived at another worker; its span is the IP packet.
pub(crate) struct Arrived {
    pub(crate) packet: Packet,
    pub(crate) ingress: Ingress,
    pub(crate) has_flow: bool,
    /// The SAs that it came through before the last, if there are any.
    pub(crate) outers: Option<Outers>,
    /// The SA that it was decrypted by, which may be removed meanwhile.
    pub(crate) held: Option<Arc<SaEntry<Sa>>>,
    /// Of a fragment, what its packet's first one has for ports, if that was found out.
    pub(crate) ports: Option<FirstPorts>,
}

impl Arrived {
    /// A packet with all that is known of how it came.
    pub(crate) fn new(reader: &Reader<Sa>, packet: Packet, meta: &Meta) -> Arrived {
        let via = meta.ingress.via();
        let held = via.and_then(|via| reader.shared_sa(via)).map(Arc::clone);
        let (ingress, has_flow, outers) = (meta.ingress, meta.has_flow, meta.outers().cloned());
        Arrived { packet, ingress, has_flow, outers, held, ports: None }
    }
}

impl Judging {
    /// Of a packet of this worker with such headers.
    pub(crate) fn of(visit: Visit, worker: WorkerIndex, h: Fields) -> Judging {
        // A worker's number is below 256.
        let (from, len, dscp) = (worker.get() as u8, h.total_len(), h.traffic_class() >> 2);
        Judging { visit, from, len, dscp, passed: None }
    }
}

impl Handed {
    pub(crate) fn into_packet(self) -> Packet {
        match self {
            Handed::Arrived(Arrived { packet, .. }) => packet,
            Handed::Again(Again { packet, .. })
            | Handed::Sealed(packet, _)
            | Handed::Frame(packet, _) => packet,
        }
    }

    /// The packet itself.
    pub(crate) fn packet(&self) -> &Packet {
        match self {
            Handed::Arrived(Arrived { packet, .. })
            | Handed::Again(Again { packet, .. })
            | Handed::Sealed(packet, _)
            | Handed::Frame(packet, _) => packet,
        }
    }

    pub(crate) fn packet_mut(&mut self) -> &mut Packet {
        match self {
            Handed::Arrived(Arrived { packet, .. })
            | Handed::Again(Again { packet, .. })
            | Handed::Sealed(packet, _)
            | Handed::Frame(packet, _) => packet,
        }
    }

    /// True if it came in by a port as it is: not from Linux, nor out of an SA.
    pub(crate) fn is_outer(&self) -> bool {
        matches!(self, Handed::Arrived(Arrived { ingress, .. })
            if ingress.ifindex != 0 && !ingress.is_decrypted())
    }

    /// Forgets the packet's ports, to be found out anew.
    pub(crate) fn forget_ports(&mut self) {
        match self {
            Handed::Arrived(Arrived { ports, .. }) | Handed::Again(Again { ports, .. }) => {
                *ports = None;
            }
            Handed::Sealed(..) | Handed::Frame(..) => {}
        }
    }

    /// Notes that it is another worker's.
    pub(crate) fn become_of_other(&mut self) {
        match self {
            Handed::Arrived(Arrived { ingress, .. }) => *ingress = ingress.of_other(),
            Handed::Again(Again { is_of_other, .. }) => *is_of_other = true,
            Handed::Sealed(..) | Handed::Frame(..) => {}
        }
    }
}

/// A packet for the worker.
pub(crate) struct Left {
    pub(crate) packet: Packet,
    pub(crate) meta: Meta,
    /// The SA that it was decrypted by, which may be removed meanwhile.
    pub(crate) held: Option<Arc<SaEntry<Sa>>>,
}

/// A payload that was decrypted and accepted.
pub(crate) struct Payload {
    pub(crate) packet: Packet,
    pub(crate) sa: SaHandle,
    pub(crate) number: u64,
    pub(crate) ifindex: u32,
    /// Of the outer header.
    pub(crate) class: u8,
}
