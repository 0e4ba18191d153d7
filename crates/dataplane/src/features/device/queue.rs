//! A device's queue as a worker has it.

use std::collections::HashMap;

use io::Packet;
use offload::{Buffer, Burst, Completion, NoRoom, Queue, Request, Work};
use policy::SaHandle;
use wire::Span;

/// A packet in the hands of a device.
pub struct DevicePacket {
    packet: Packet,
    /// The interface that it came in by, of one that is to be opened.
    ifindex: u32,
}

impl DevicePacket {
    pub(crate) fn new(packet: Packet, ifindex: u32) -> DevicePacket {
        DevicePacket { packet, ifindex }
    }

    pub(crate) fn into_packet(self) -> Packet {
        self.packet
    }

    pub(crate) fn ifindex(&self) -> u32 {
        self.ifindex
    }
}

impl Buffer for DevicePacket {
    fn packet(&self) -> &[u8] {
        self.packet.data()
    }

    fn packet_mut(&mut self) -> &mut [u8] {
        self.packet.data_mut()
    }

    fn set_packet(&mut self, packet: &[u8]) -> Result<(), NoRoom> {
        let Packet { frame, span } = &mut self.packet;
        // There is room for a link header in front, as for what a port receives.
        let place = Span { start: frame.headroom(), len: packet.len() };
        frame.bytes_mut().get_mut(place.range()).ok_or(NoRoom)?.copy_from_slice(packet);
        *span = place;
        Ok(())
    }
}

/// A device's queue, what waits for it, and who is meant by what it says.
pub(crate) struct DeviceQueue {
    number: u8,
    queue: Box<dyn Queue<DevicePacket>>,
    requests: Burst<Request<DevicePacket>>,
    /// The SA that each of the device's is, of those that packets were opened for.
    sas: HashMap<offload::SaHandle, SaHandle>,
    /// The last of them with each reqid, for a device that does not say which opened a packet.
    by_reqid: HashMap<u32, SaHandle>,
    /// The last of all.
    last: Option<(offload::SaHandle, SaHandle)>,
    /// True if it was another worker's, which has gone: nothing more comes into it.
    is_adopted: bool,
}

impl DeviceQueue {
    pub(crate) fn new(number: u8, queue: Box<dyn Queue<DevicePacket>>) -> DeviceQueue {
        DeviceQueue {
            number,
            queue,
            requests: Burst::new(),
            sas: HashMap::new(),
            by_reqid: HashMap::new(),
            last: None,
            is_adopted: false,
        }
    }

    /// The queue in the hands of another worker.
    pub(crate) fn adopted(self) -> DeviceQueue {
        DeviceQueue { is_adopted: true, ..self }
    }

    pub(crate) fn is_adopted(&self) -> bool {
        self.is_adopted
    }

    pub(crate) fn number(&self) -> u8 {
        self.number
    }

    /// Packets that wait for the device, or are in it.
    pub(crate) fn waiting(&self) -> usize {
        self.requests.len() + self.queue.in_flight()
    }

    /// Notes which SA one of the device's is.
    pub(crate) fn note(&mut self, sa: offload::SaHandle, reqid: u32, is: SaHandle) {
        if self.last == Some((sa, is)) {
            return;
        }
        self.last = Some((sa, is));
        if self.sas.len() >= MOST_NOTED {
            // Most of them have gone; those that live are noted again with their next packets.
            self.sas.clear();
            self.by_reqid.clear();
        }
        self.sas.insert(sa, is);
        self.by_reqid.insert(reqid, is);
    }

    /// The SA that one of the device's is.
    pub(crate) fn sa(&self, sa: offload::SaHandle) -> Option<SaHandle> {
        self.sas.get(&sa).copied()
    }

    /// The last SA with this reqid that a packet was opened for.
    pub(crate) fn sa_of_reqid(&self, reqid: u32) -> Option<SaHandle> {
        self.by_reqid.get(&reqid).copied()
    }

    /// Adds a packet to what the device gets next.
    ///
    /// # Errors
    /// The packet: neither the device nor what waits for it has room.
    pub(crate) fn gather(&mut self, work: Work, buffer: DevicePacket) -> Result<(), DevicePacket> {
        if self.requests.is_full() {
            self.queue.submit(&mut self.requests);
        }
        self.requests.try_push(Request { buffer, work }).map_err(|full| full.element().buffer)
    }

    /// Gives the device what waits, and takes what is done.
    pub(crate) fn exchange(&mut self, done: &mut Burst<Completion<DevicePacket>>) {
        if !self.requests.is_empty() {
            self.queue.submit(&mut self.requests);
        }
        if self.queue.in_flight() > 0 {
            self.queue.poll(done);
        }
    }
}

/// SAs that are noted at most.
const MOST_NOTED: usize = 1 << 17;
