//! Most packets: the payload that is being filled takes them whole, and has room left.

use io::Packet;
use policy::SaHandle;
use wire::Fields;

use super::sender::{Sender, Senders};
use super::state::Aggfrag;
use crate::model::Aggregate;
use crate::out::Out;

impl Aggfrag {
    /// Adds a packet to the payload that its SA is filling, and ends it; gives it back where more has to be done.
    #[inline(always)]
    pub(super) fn add(
        &mut self,
        out: &mut Out,
        by: &Aggregate,
        packet: Packet,
        h: Fields,
    ) -> Option<Packet> {
        let len = usize::from(h.total_len());
        let senders = self.senders.as_mut();
        let is_in = match senders.and_then(|senders| senders.last(by.sa)) {
            Some(sender) => packet.data().get(..len).is_some_and(|bytes| sender.add(bytes)),
            None => false,
        };
        if !is_in {
            return Some(packet);
        }
        out.consume(packet);
        None
    }
}

impl Senders {
    /// The sender that was used last, if it is this SA's.
    #[inline(always)]
    fn last(&mut self, sa: SaHandle) -> Option<&mut Sender> {
        let (last, place) = self.places.last?;
        if last == sa { self.all.get_mut(place) } else { None }
    }
}

impl Sender {
    /// Adds a packet to the payload that is being filled, if room is left behind it; false if not, and nothing has been
    /// done then. A sender with such a payload is awake already ([`Senders::wake`]).
    #[inline(always)]
    fn add(&mut self, packet: &[u8]) -> bool {
        let has_way = self.way.as_ref().is_some_and(|way| way.adjacency.is_some());
        let waiting_bytes = self.waiting_bytes + packet.len();
        let Some(building) = &mut self.filling else { return false };
        if !has_way
            || packet.len() >= building.filling.room()
            || waiting_bytes > self.rules.max_queue_bytes as usize
        {
            return false;
        }
        let mut filling = building.filling;
        if filling.put(building.bytes_mut(), packet) < packet.len() {
            return false;
        }
        building.filling = filling;
        building.bytes += packet.len() as u32; // less than a frame
        building.packets += 1;
        self.waiting_bytes = waiting_bytes;
        true
    }
}
