//! Records of packets, as a tap makes them.

use std::sync::Arc;

use crate::model::Explanation;
use outcome::DropReason;
use policy::{SaEntry, SaId};

/// Where packets are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// Protected packets, as they are on the wire: before they are decrypted, after they were
    /// encrypted. IP packets.
    Wire,
    /// Packets in clear: before they are protected, after they were decrypted, and those that need
    /// no protection. IP packets.
    Plain,
    /// Ethernet frames in which no IP packet for this host was found.
    Frame,
}

impl Place {
    /// All, by number.
    pub const ALL: [Place; 3] = [Place::Wire, Place::Plain, Place::Frame];

    /// The name in captures and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Place::Wire => "wire",
            Place::Plain => "plain",
            Place::Frame => "frame",
        }
    }
}

/// The SA that a packet is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OfSa {
    /// Identity of the SA.
    pub id: SaId,
    /// Number that ties the SA to templates.
    pub reqid: u32,
}

impl OfSa {
    pub(super) fn of(sa: &SaEntry<esp::Sa>) -> OfSa {
        OfSa { id: sa.config.id(), reqid: sa.config.reqid }
    }
}

/// Fate of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Not known: the packet's buffer was full before that.
    Unknown,
    /// An SA protects it.
    Protected(OfSa),
    /// Decrypted and accepted.
    Decrypted,
    /// Sent by an interface.
    Sent {
        /// By this interface.
        ifindex: u32,
    },
    /// Another worker sends it.
    HandedOver,
    /// Linux got it.
    ToLinux,
    /// Consumed by this host.
    Consumed,
    /// Waits: for an SA, a neighbour, or other fragments. When the packet goes on it is recorded
    /// again.
    Held,
    /// Fragmented. The fragments are recorded where they leave.
    Cut,
    /// Dropped for this reason.
    Dropped(DropReason),
}

/// One packet at one place.
#[derive(Clone, Debug)]
pub struct Record {
    /// Place in the path.
    pub place: Place,
    /// True if it is on its way out to a peer: protected, or to be.
    pub is_outbound: bool,
    /// When, in nanoseconds since 1970.
    pub time_ns: u64,
    /// The interface that it came in by; where it was encrypted, leaves by. 0: the private interface, or none.
    pub ifindex: u32,
    /// Length in bytes, of which not all need have been kept.
    pub len: u32,
    /// The SA that it was decrypted or encrypted by.
    pub sa: Option<OfSa>,
    /// The index of the policy that decided about it, as far as one did and it is known.
    pub policy: Option<u32>,
    /// Name of the path that it leaves by, as decided when it came.
    pub path: Option<Arc<str>>,
    /// Fate of the packet.
    pub verdict: Verdict,
    /// The worker that had it.
    pub worker: usize,
    /// Explanation of its fate, asked when it came: of a trace.
    pub explanation: Option<Box<Explanation>>,
    /// Where its bytes lie in the buffer.
    pub(super) at: (usize, usize),
    /// The flow is one that is asked for.
    pub(super) is_match: bool,
}

/// Records, and their packets' bytes, on their way from a worker to who reads them. Allocated once.
#[derive(Debug)]
pub struct Buffer {
    pub(super) worker: usize,
    pub(super) records: Vec<Record>,
    pub(super) bytes: Vec<u8>,
}

impl Buffer {
    pub(super) fn new(worker: usize) -> Buffer {
        let (records, bytes) =
            (Vec::with_capacity(BUFFER_RECORDS), Vec::with_capacity(BUFFER_BYTES));
        Buffer { worker, records, bytes }
    }

    /// The records, and what was kept of each packet.
    pub fn iter(&self) -> impl Iterator<Item = (&Record, &[u8])> {
        self.records.iter().map(|record| {
            let (start, len) = record.at;
            (record, self.bytes.get(start..start + len).unwrap_or_default())
        })
    }

    /// True if a packet of so many bytes fits.
    pub(super) fn has_room(&self, len: usize) -> bool {
        self.records.len() < BUFFER_RECORDS && self.bytes.len() + len <= BUFFER_BYTES
    }

    /// True if the records should be handed to the reader soon.
    pub(super) fn is_half_full(&self) -> bool {
        self.records.len() >= BUFFER_RECORDS / 2 || self.bytes.len() >= BUFFER_BYTES / 2
    }

    /// Forgets the records from `from` on that are not wanted, and closes the gaps.
    pub(super) fn retain(&mut self, from: usize, mut wants: impl FnMut(&Record) -> bool) {
        let Buffer { records, bytes, .. } = self;
        let mut end = records.get(from).map_or(bytes.len(), |record| record.at.0);
        let mut number = 0;
        records.retain_mut(|record| {
            number += 1;
            if number <= from {
                return true;
            }
            if !wants(record) {
                return false;
            }
            let (start, len) = record.at;
            if start != end {
                bytes.copy_within(start..start + len, end);
                record.at.0 = end;
            }
            end += len;
            true
        });
        bytes.truncate(end);
    }

    pub(super) fn clear(&mut self) {
        self.records.clear();
        self.bytes.clear();
    }
}

/// Room of a buffer: packets ...
const BUFFER_RECORDS: usize = 2048;

/// ... and bytes.
const BUFFER_BYTES: usize = 1 << 20;
