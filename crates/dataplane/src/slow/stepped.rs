//! SRv6: packets that have left a step go on, and the senders of those that were refused are told.

use arrayvec::ArrayVec;
use io::{BURST_LEN, Packet};

use super::Slow;
use crate::burst::Path;
use crate::flows::Ingress;
use crate::packets::{Meta, Origin};
use crate::segments::{Stepped, cause, reason};

impl Slow {
    /// Moves on what bursts have left between two steps. No other stage is at work.
    #[cold]
    #[inline(never)]
    pub(crate) fn move_on_stepped(&mut self, path: &mut Path) {
        // Each step spends a hop, or room in front of the packet.
        while !path.exec.out.between.is_empty() {
            let mut stepped = core::mem::take(&mut path.exec.stepped);
            path.exec.out.between.swap(&mut stepped);
            let mut some: ArrayVec<(Packet, Ingress), BURST_LEN> = ArrayVec::new();
            for one in stepped.drain(..) {
                match one {
                    Stepped::On(packet, ingress) => {
                        // There is room.
                        let _ = some.try_push((packet, ingress));
                        if some.is_full() {
                            self.enter_stepped(path, &mut some);
                        }
                    }
                    Stepped::Refused(packet, ingress, refusal) => {
                        if let Ok(h) = wire::parse_ip(packet.data())
                            && let Some(cause) = cause(&refusal)
                        {
                            let Ingress { ifindex, mark, .. } = ingress;
                            let origin = match ingress.is_decrypted() {
                                true => Origin::Decrypted { ifindex, mark },
                                false => Origin::Port { ifindex, mark, is_barred: false },
                            };
                            self.error(path, &packet, &h, origin, cause);
                        }
                        path.exec.out.drop(packet, reason(refusal.fault));
                    }
                }
            }
            self.enter_stepped(path, &mut some);
            path.exec.stepped = stepped;
        }
    }

    /// Passes 1 to 3 of such packets.
    fn enter_stepped(
        &mut self,
        path: &mut Path,
        some: &mut ArrayVec<(Packet, Ingress), BURST_LEN>,
    ) {
        let mut metas: ArrayVec<Meta, BURST_LEN> = ArrayVec::new();
        for (packet, ingress) in some.iter_mut() {
            let mut meta = Meta::default();
            match path.meta_of_packet(packet, &mut meta) {
                Ok(()) => {
                    // What was inside of another may be shorter than that.
                    packet.span.len = usize::from(meta.summary.fields.total_len());
                    meta.enter(*ingress, true);
                }
                Err(reason) => meta.end = Some(reason.into()),
            }
            let _ = metas.try_push(meta);
        }
        path.look_for(&mut metas);
        if path.exec.crypt.opens.room() < some.len() {
            path.open_gathered(self);
        }
        for ((packet, _), meta) in some.drain(..).zip(&metas) {
            path.enter_any(self, packet, meta, None);
        }
    }
}
