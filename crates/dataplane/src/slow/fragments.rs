//! Packets that have waited as fragments, each by itself.

use wire::Fragment;

use super::Slow;
use super::carry_out::carry_out;
use super::entered::{Entered, Resolved};
use super::seal_on::seal_on;
use crate::burst::classify::meta_of;
use crate::burst::{Misses, Path};
use crate::features::limit::Grant;
use crate::model::{Again, Arrived, FirstPorts, Handed};
use crate::out::AnyOut;
use crate::resolve::{Entry, resolve, resolve_fragment};

/// Resolves a fragment by the ports of its packet's first one; or, without any, a packet that was put together to be
/// sealed. That one's sender has let it be cut, so it may be cut again: of IPv6 too, whose packets do not say so.
/// `grant`: tokens of a limit that it has waited for.
pub(super) fn move_on_fragment(
    slow: &mut Slow,
    path: &mut Path,
    handed: Handed,
    (ports, grant): (Option<FirstPorts>, Option<Grant>),
) {
    let mut h = match wire::parse_ip(handed.packet().data()) {
        Ok(h) => h,
        // It parsed when it was classified.
        Err(error) => return path.exec.out.drop(handed.into_packet(), error.into()),
    };
    h.dont_fragment &= ports.is_some();
    let mut meta = meta_of(&h);
    if let Some(ports) = ports {
        (h.src_port, h.dst_port) = ports;
        h.fragment = Fragment::First;
    }
    let resolve = match ports {
        Some(_) => resolve_fragment,
        None => resolve,
    };
    match handed {
        Handed::Arrived(Arrived { packet, ingress, has_flow, outers, held, .. }) => {
            meta.enter(ingress, has_flow);
            outers.into_iter().for_each(|outers| meta.set_outers(outers));
            let entry = Entry::of(&path.view, &meta, held.as_deref());
            let owner = path.view.owner(ingress.is_of_other());
            let mut decided = resolve(&path.view, packet.data(), &h, entry, owner);
            let entered = Entered::Arrived(&meta, ports);
            carry_out(slow, path, &mut decided, Resolved { packet, h: &h, entered, grant });
        }
        Handed::Again(Again { packet, origin, is_of_other, .. }) => {
            let entry = Entry::Outbound(origin);
            let owner = path.view.owner(is_of_other);
            let mut decided = resolve(&path.view, packet.data(), &h, entry, owner);
            let entered = Entered::Again(origin, ports);
            carry_out(slow, path, &mut decided, Resolved { packet, h: &h, entered, grant });
        }
        // Those are judged already, and never wait here.
        Handed::Sealed(packet, sas) => {
            seal_on(&path.view, slow.turn(), &mut path.exec, packet, sas);
        }
        Handed::Frame(packet, _) => path.exec.out.give_to_linux(packet),
    }
}
