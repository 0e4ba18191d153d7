//! The end of a ring that takes packets out.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use crate::fault::{Broken, Fault, Faults};
use crate::region::Region;
use crate::ring::{Descriptor, NEXT, Ring};
use crate::transmit::Buffers;

/// The end of a ring that takes packets out.
pub struct Receiver {
    pub(crate) ring: Ring,
    pub(crate) regions: Arc<[Arc<Region>]>,
    /// The client's buffers; the server has none.
    pub(crate) buffers: Option<Buffers>,
    /// The descriptor that is read next.
    next: u16,
    /// The client's: the first descriptor whose buffer the server does not have.
    given: u16,
    /// Eventfd that the peer writes to when packets have come.
    pub(crate) interrupt: OwnedFd,
    pub(crate) faults: Arc<Faults>,
    pub(crate) broken: Broken,
}

impl Receiver {
    /// The end of a ring; with `buffers` the client's, which gives them all to the server.
    pub(crate) fn new(
        ring: Ring,
        regions: Arc<[Arc<Region>]>,
        buffers: Option<Buffers>,
        interrupt: OwnedFd,
        faults: Arc<Faults>,
        broken: Broken,
    ) -> Self {
        // Indices begin at 0 with each connection: the client has set its memory up for that.
        let mut new = Self { ring, regions, buffers, next: 0, given: 0, interrupt, faults, broken };
        new.give_buffers(new.ring.size());
        new
    }

    /// Descriptors that the peer has filled. None where it lies about them, and then never again.
    #[inline]
    pub fn filled(&self) -> u16 {
        let (filled, most) = match self.buffers {
            None => (self.ring.head().wrapping_sub(self.next), self.ring.size()),
            Some(_) => {
                let given = self.given.wrapping_sub(self.next);
                (self.ring.tail().wrapping_sub(self.next), given)
            }
        };
        if filled <= most {
            return filled;
        }
        if !self.broken.is_set() {
            self.faults.count(Fault::RingIndex);
            self.broken.set();
        }
        0
    }

    /// Takes the next packet and copies it to the beginning of `into`; returns its length. `filled` is what
    /// [`Self::filled`] said, and is less by the packet's descriptors afterwards, also after a fault.
    ///
    /// # Errors
    /// The fault of the descriptor: the packet is lost.
    #[inline]
    pub fn packet(&mut self, filled: &mut u16, into: &mut [u8]) -> Result<usize, Fault> {
        let mut len = 0;
        let mut fault = None;
        loop {
            if *filled == 0 {
                return Err(Fault::OpenChain);
            }
            let index = self.next;
            let descriptor = self.ring.descriptor(index);
            self.next = index.wrapping_add(1);
            *filled -= 1;
            if fault.is_none() {
                match self.piece(index, descriptor, into.get_mut(len..).unwrap_or_default()) {
                    Ok(piece) => len += piece,
                    Err(wrong) => fault = Some(wrong),
                }
            }
            if descriptor.flags & NEXT == 0 {
                return fault.map_or(Ok(len), Err);
            }
        }
    }

    #[inline]
    fn piece(&self, index: u16, found: Descriptor, into: &mut [u8]) -> Result<usize, Fault> {
        let len = found.length as usize;
        let (region, offset) = match &self.buffers {
            None => (self.regions.get(usize::from(found.region)), found.offset as usize),
            // Where it lies only we say.
            Some(buffers) if len <= buffers.len as usize => {
                (self.regions.first(), buffers.offset(index, self.ring.size()) as usize)
            }
            Some(_) => return Err(Fault::Buffer),
        };
        let region = region.ok_or(Fault::Buffer)?;
        let into = into.get_mut(..len).ok_or(Fault::TooLong)?;
        if region.read(offset, into) { Ok(len) } else { Err(Fault::Buffer) }
    }

    /// Gives back what was read.
    #[inline]
    pub fn release(&mut self) {
        match self.buffers {
            None => self.ring.set_tail(self.next),
            Some(_) => {
                self.give_buffers(self.next.wrapping_sub(self.given).wrapping_add(self.ring.size()))
            }
        }
    }

    /// The client's: gives the server the buffers of so many descriptors more.
    fn give_buffers(&mut self, count: u16) {
        let Some(buffers) = &self.buffers else { return };
        for _ in 0..count {
            let offset = buffers.offset(self.given, self.ring.size());
            let descriptor = Descriptor { flags: 0, region: 0, length: buffers.len, offset };
            self.ring.set_descriptor(self.given, descriptor);
            self.given = self.given.wrapping_add(1);
        }
        self.ring.set_head(self.given);
    }

    /// Asks to be woken when packets come, or not to be.
    pub fn set_wakeup(&self, wanted: bool) {
        self.ring.set_wakeup(wanted);
    }
}
