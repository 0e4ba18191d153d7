//! Packets that have waited as fragments: whole ones, or each with the ports of its packet's first fragment.
//!
//! A packet that was put together goes on as one that another worker has handed over: it is classified, and
//! its flow may have a plan. Fragments that only waited for the first one are resolved by its ports, each
//! for itself, and no plan is made of that.

use arrayvec::ArrayVec;
use forward::reassembly::Fate;
use outcome::DropReason;
use wire::Fragment;

use super::Slow;
use super::entered::{Entered, Resolved};
use super::handed::seal_on;
use crate::burst::Path;
use crate::burst::classify::meta_of;
use crate::features::device::is_for_device;
use crate::features::limit::Grant;
use crate::model::{Arrived, FirstPorts, Handed};
use crate::out::AnyOut;
use crate::resolve::{Entry, resolve, resolve_fragment};

impl Slow {
    /// Moves on what is done with, and what payloads of IP-TFS hold. No other stage is at work.
    #[cold]
    #[inline(never)]
    pub(super) fn move_on_gathered(&mut self, path: &mut Path) {
        if path.exec.rooms.aggfrag.has_arrived() {
            self.move_on_payloads(path);
        }
        self.move_on_stepped(path);
        while let Some(mut done) = path.exec.rooms.fragments.as_mut().and_then(|f| f.next_done()) {
            let ports = match done.fate {
                Fate::Join { head_len, len } => {
                    match path.exec.join(done, (head_len, len)) {
                        Some(whole)
                            if whole.is_outer()
                                && is_for_device(&path.view, whole.packet().data()) =>
                        {
                            let reason = DropReason::InDeviceFragment;
                            path.exec.out.drop(whole.into_packet(), reason);
                        }
                        Some(whole) if whole.is_outer() => {
                            self.take_over(path, &mut ArrayVec::from_iter([whole]));
                        }
                        Some(whole) => self.move_on_fragment(path, whole, None, None),
                        None => {}
                    }
                    continue;
                }
                Fate::Pass(ports) => ports,
            };
            while let Some(handed) =
                path.exec.rooms.fragments.as_mut().and_then(|f| f.pop_piece(&mut done))
            {
                path.exec.out.released(1);
                self.move_on_fragment(path, handed, Some(ports), None);
            }
        }
    }

    /// Resolves a fragment by the ports of its packet's first one; or, without any, a packet that was put together to be
    /// sealed. That one's sender has let it be cut, so it may be cut again: of IPv6 too, whose packets do not say so.
    /// `grant`: tokens of a limit that it has waited for.
    pub(super) fn move_on_fragment(
        &mut self,
        path: &mut Path,
        handed: Handed,
        ports: Option<FirstPorts>,
        grant: Option<Grant>,
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
                let decided = resolve(&path.view, packet.data(), &h, entry);
                let entered = Entered::Arrived(&meta, ports);
                self.carry_out(path, decided, Resolved { packet, h: &h, entered, grant });
            }
            Handed::Again(packet, origin, _) => {
                let entry = Entry::Outbound(origin);
                let decided = resolve(&path.view, packet.data(), &h, entry);
                let entered = Entered::Again(origin, ports);
                self.carry_out(path, decided, Resolved { packet, h: &h, entered, grant });
            }
            // Those are judged already, and never wait here.
            Handed::Sealed(packet, sas) => seal_on(&path.view, &mut path.exec, packet, sas),
            Handed::Frame(packet, _) => path.exec.out.give_to_linux(packet),
        }
    }
}
