//! Paths that are measured: probes are sent, replies taken, and probes of others sent back.
//!
//! A probe goes the way of any packet of this host in its class: policy, SA, route, queue. Its time is taken when it is
//! made, and when its reply has been decrypted, by the worker that measures; the other workers hand replies over. So a
//! delay has in it what packets wait for in crypto stages and queues. A probe of an uplink leaves in clear, by that uplink alone.
//!
//! Probes of others in clear have a reflector of their own: it answers named senders alone, with a key, by the port that their
//! probes came by.
//!
//! Packets that turn out to be neither probe nor reply go to Linux.

mod counted;
mod sessions;
mod setup;
mod take;

use io::Packet;
use outcome::DropReason;

use crate::features::hands::Hands;
use crate::features::rare::{Held, Next, Rare, Subject};
use crate::features::reception::Reception;
use crate::model::{Fate, Measure, Meta};
pub(crate) use sessions::Paths;
pub use setup::{
    ClearReflector, PathReflector, PathReport, PathReports, PathSession, PathSetup, ProbeExit,
    Probes,
};

impl Rare for Measure {
    type Kept = Option<Box<Paths>>;

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
            Some(paths) => paths.take(hands, &packet, meta),
            None => Reception::Other,
        };
        taken.carry_out(hands, packet, (DropReason::ProbeRefused, self.other))
    }

    fn explains(&self, _cut: Option<usize>) -> Fate {
        Fate::Consumed
    }
}
