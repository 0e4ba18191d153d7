//! Sessions of BFD (RFC 5880, 5881, 5883) that FRR's `bfdd` has handed to culvert.
//!
//! A packet goes the way of any packet of this host: policy, SA, route, queue. The worker that has the sessions sends
//! it by the clock of its rounds, and takes the peer's in the path; the other workers hand those over.
//!
//! Echo packets of peers go back to them; culvert sends none of its own.
//!
//! Packets for none of the sessions are Linux's: `bfdd` has others, which it runs itself.

mod agenda;
mod sessions;
mod setup;
mod take;

use io::Packet;
use outcome::DropReason;

use crate::features::hands::Hands;
use crate::features::rare::{Held, Next, Rare, Subject};
use crate::features::reception::Reception;
use crate::model::{Bfd, Fate, Meta};
pub(crate) use sessions::Sessions;
pub use sessions::is_link_local;
pub use setup::{BfdAsked, BfdChange, BfdRefusals, BfdReports, BfdSession};

impl Rare for Bfd {
    type Kept = Option<Box<Sessions>>;

    fn holds<'k>(&'k self, _kept: &'k Self::Kept, _asked: &Subject<'_>) -> Held<'k> {
        Held::Yes
    }

    fn apply(
        &self,
        kept: &mut Self::Kept,
        hands: &mut Hands<'_>,
        packet: Packet,
        meta: &Meta,
    ) -> Option<Next> {
        let taken = match kept {
            Some(sessions) => sessions.take(hands, &packet, meta),
            None => Reception::Other,
        };
        taken.carry_out(hands, packet, (DropReason::BfdRefused, self.0))
    }

    fn explains(&self, _cut: Option<usize>) -> Fate {
        Fate::Consumed
    }
}
