//! The end of a ring that puts packets in.

use std::sync::Arc;

use arrayvec::ArrayVec;

use crate::bell::Bell;
use crate::fault::{Broken, Fault, Faults};
use crate::region::Region;
use crate::ring::{Descriptor, NEXT, Ring};

/// The client's buffers of one ring: one for each descriptor, in its region 0.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Buffers {
    /// Where the first lies.
    pub(crate) first: u32,
    /// Bytes of each.
    pub(crate) len: u32,
}

impl Buffers {
    /// Where the buffer of a descriptor lies.
    pub(crate) fn offset(&self, index: u16, ring_size: u16) -> u32 {
        self.first + u32::from(index & (ring_size - 1)) * self.len
    }
}

/// The most buffers of one packet.
const MAX_PIECES: usize = 16;

/// The end of a ring that puts packets in.
pub struct Transmitter {
    pub(crate) ring: Ring,
    pub(crate) regions: Arc<[Arc<Region>]>,
    /// The client's buffers; the server has none.
    pub(crate) buffers: Option<Buffers>,
    /// The descriptor that is used next.
    next: u16,
    bell: Bell,
    pub(crate) faults: Arc<Faults>,
    pub(crate) broken: Broken,
}

impl Transmitter {
    /// The end of a ring; with `buffers` the client's.
    pub(crate) fn new(
        ring: Ring,
        regions: Arc<[Arc<Region>]>,
        buffers: Option<Buffers>,
        bell: Bell,
        faults: Arc<Faults>,
        broken: Broken,
    ) -> Self {
        Self { ring, regions, buffers, next: 0, bell, faults, broken }
    }

    /// Descriptors that can be used now. None where the peer lies about them, and then never again.
    #[inline]
    pub fn room(&self) -> u16 {
        let size = self.ring.size();
        let room = match self.buffers {
            None => Some(self.ring.head().wrapping_sub(self.next)).filter(|free| *free <= size),
            Some(_) => size.checked_sub(self.next.wrapping_sub(self.ring.tail())),
        };
        room.unwrap_or_else(|| {
            self.fail(Fault::RingIndex);
            0
        })
    }

    #[cold]
    fn fail(&self, fault: Fault) {
        if !self.broken.is_set() {
            self.faults.count(fault);
            self.broken.set();
        }
    }

    /// The buffer of a descriptor, and its region; none if it is not there.
    #[inline]
    fn buffer(&self, index: u16) -> Option<(&Region, Descriptor)> {
        let (region, found) = match &self.buffers {
            None => {
                let found = self.ring.descriptor(index);
                (self.regions.get(usize::from(found.region)), found)
            }
            Some(buffers) => {
                let offset = buffers.offset(index, self.ring.size());
                let found = Descriptor { flags: 0, region: 0, length: buffers.len, offset };
                (self.regions.first(), found)
            }
        };
        let region = &**region?;
        let (offset, len) = (found.offset as usize, found.length as usize);
        region.place(offset, len, 1).filter(|_| len > 0)?;
        Some((region, found))
    }

    /// Copies a packet into as many buffers as it needs. False, and nothing has changed, if there are not as many
    /// among `room`, which is what [`Self::room`] said and is less by those used afterwards.
    ///
    /// A bad buffer breaks the connection: what the peer gives us to write to is memory of its own choice.
    #[inline]
    pub fn packet(&mut self, room: &mut u16, data: &[u8]) -> bool {
        let mut pieces: ArrayVec<Descriptor, MAX_PIECES> = ArrayVec::new();
        let mut rest = data;
        while !rest.is_empty() {
            let used = pieces.len() as u16;
            if used >= *room || pieces.is_full() {
                return false;
            }
            let Some((region, found)) = self.buffer(self.next.wrapping_add(used)) else {
                self.fail(Fault::Buffer);
                return false;
            };
            let (piece, more) = rest.split_at(rest.len().min(found.length as usize));
            if !region.write(found.offset as usize, piece) {
                self.fail(Fault::Buffer);
                return false;
            }
            let flags = if more.is_empty() { 0 } else { NEXT };
            pieces.push(Descriptor { flags, length: piece.len() as u32, ..found });
            rest = more;
        }
        for descriptor in &pieces {
            self.ring.set_descriptor(self.next, *descriptor);
            self.next = self.next.wrapping_add(1);
        }
        *room -= pieces.len() as u16;
        true
    }

    /// Shows the peer what was put in, and wakes it if it wants that.
    #[inline]
    pub fn publish(&mut self) {
        match self.buffers {
            None => self.ring.set_tail(self.next),
            Some(_) => self.ring.set_head(self.next),
        }
        if self.ring.wants_wakeup() {
            self.bell.ring();
        }
    }
}
