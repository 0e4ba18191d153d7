//! Taps at a device for packet offload: what it gets and gives is recorded as what software seals and opens.
//!
//! Between the two lie rounds, and the buffer that comes back may be another one. So what is known of a packet in clear
//! is kept by its frame; of one that comes back in another only the outside is known. ESP that waits for the device
//! at the end of a round is told as waiting.

use io::Packet;
use policy::SaHandle;

use super::recorder::{Coming, Given};
use super::{Place, Taps, Verdict, is_match, of_sa, to_open, to_seal};
use crate::view::View;

impl Taps {
    /// A device is given a packet to protect by this SA.
    #[cold]
    #[inline(never)]
    pub(crate) fn given_to_seal(&mut self, view: &View, packet: &Packet, sa: SaHandle) {
        let sa = of_sa(view, sa);
        for tap in &mut self.all {
            let (is_match, policy) = to_seal(tap, packet, sa);
            tap.give(packet.frame.index(), Given { is_match, policy, sa });
        }
    }

    /// A device is given a packet of this SA to open, which came in by an interface.
    #[cold]
    #[inline(never)]
    pub(crate) fn given_to_open(
        &mut self,
        view: &View,
        packet: &Packet,
        (sa, ifindex): (SaHandle, u32),
    ) {
        let sa = of_sa(view, sa);
        self.all.iter_mut().for_each(|tap| to_open(tap, packet, sa, ifindex));
    }

    /// A device has sealed a packet, which is about to be sent by an interface.
    #[cold]
    #[inline(never)]
    pub(crate) fn sealed_by_device(&mut self, packet: &Packet, ifindex: u32) {
        let frame = packet.frame.index();
        for tap in &mut self.all {
            let Given { is_match: is_match_inside, policy, sa } = tap.take_given(frame);
            let is_match = is_match_inside || is_match(tap, packet.data());
            tap.begin(Coming {
                place: Place::Wire,
                is_outbound: true,
                ifindex,
                sa,
                policy,
                is_match,
                frame,
                bytes: packet.data(),
            });
        }
    }

    /// A device has opened a packet; what was inside is recorded as what arrives.
    #[cold]
    #[inline(never)]
    pub(crate) fn opened_by_device(&mut self, packet: &Packet) {
        for tap in &mut self.all {
            let is_asked = is_match(tap, packet.data());
            if let Some(record) = tap.settle(packet.frame.index(), Verdict::Decrypted) {
                record.is_match |= is_asked;
            }
        }
    }
}
