//! Packets that other workers have sealed with the first SAs of a bundle: the others are of this one.

use io::Packet;
use outcome::DropReason;
use policy::SaBundle;

use crate::crypt::check_volume;
use crate::features::Executor;
use crate::features::bundle::seal_all;
use crate::model::{Handed, SealAll, Turn};
use crate::out::AnyOut;
use crate::resolve::{Limits, homes, next_hop_of_all};
use crate::view::View;

/// Has the SAs that are left of a bundle protect a packet.
#[cold]
pub(super) fn seal_on(
    view: &View,
    turn: Turn<'_>,
    exec: &mut Executor,
    packet: Packet,
    sas: SaBundle,
) {
    let own = match homes::claim(view, sas.as_slice()) {
        Ok(own) => own,
        Err(home) => return exec.out.hand(home, Handed::Sealed(packet, sas)),
    };
    // Their home alone knows them to the packet: what was decided by may be old.
    let of_own = sas.as_slice().iter().take(own);
    let limits = Limits::of(of_own.filter_map(|sa| Some((*sa, view.reader.sa(*sa)?))));
    if let Some(sa) = limits.at_limit.and_then(|sa| view.reader.sa(sa)) {
        exec.out.reports.volume(sa.config.id(), check_volume(sa));
    }
    if limits.is_over {
        return exec.out.drop(packet, DropReason::OutStateExpired);
    }
    let h = match wire::parse_ip(packet.data()) {
        Ok(h) => h,
        Err(error) => return exec.out.drop(packet, error.into()),
    };
    let entries = sas.as_slice().iter().filter_map(|sa| view.reader.sa(*sa));
    let to = match next_hop_of_all(view, entries, &h) {
        Ok(to) => to,
        Err(reason) => return exec.out.drop(packet, reason),
    };
    let own = own as u8;
    let seal = SealAll { sas, own, to, adjacency: None, cut: None, is_hop: false };
    seal_all(&mut exec.hands(view, turn).1, &seal, packet, (&h).into());
}
