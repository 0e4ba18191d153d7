//! Packets that were decrypted: the SA's limits, the replay window, and where they came from.

use core::net::IpAddr;
use core::sync::atomic::Ordering::Relaxed;

use esp::Sa;
use io::Packet;
use outcome::{DropReason, Outcome};
use policy::{SaEntry, Volume};

use crate::apply::Executor;
use crate::crypt::opens::OpenWork;
use crate::view::View;

impl Executor {
    /// Accepts a packet that was decrypted, or says how it ends. One writer at a time for each SA,
    /// in the order of arrival.
    #[inline(always)]
    pub(crate) fn accept(
        &mut self,
        view: &View,
        packet: &mut Packet,
        work: &OpenWork,
    ) -> Result<(), Outcome> {
        let sa = view.reader.sa(work.sa).ok_or(DropReason::InStateExpired)?;
        // Most packets: nothing is near a limit, nothing is to be reported.
        let (live, buffer) = (sa.esp.live(), packet.frame.bytes_mut());
        if sa.is_below_alarms(live.bytes().load(Relaxed), live.packets().load(Relaxed))
            && sa.state().is_usable()
            && work.content.is_ok_and(|content| content.is_whole())
            && work.from.is_none()
        {
            sa.esp.open_accept(buffer, &work.opening, work.content, view.now.wall_s)?;
            self.out.counters.work.decrypted.add(1);
            return Ok(());
        }
        self.accept_any(view, packet, work)
    }

    /// [`Executor::accept`] for every packet.
    #[inline(never)]
    fn accept_any(
        &mut self,
        view: &View,
        packet: &mut Packet,
        work: &OpenWork,
    ) -> Result<(), Outcome> {
        let sa = view.reader.sa(work.sa).ok_or(DropReason::InStateExpired)?;
        // Before this packet is counted, so that a limit of n packets lets n through.
        let volume = if work.content.is_ok() { check_volume(sa) } else { Volume::Within };
        let is_over = matches!(volume, Volume::HardReached | Volume::Unusable);
        let buffer = packet.frame.bytes_mut();
        let accepted = match is_over {
            true => Err(DropReason::InStateExpired),
            false => sa.esp.open_accept(buffer, &work.opening, work.content, view.now.wall_s),
        };
        let is_packet = accepted.is_ok() && !work.content.is_ok_and(|content| content.is_dummy());
        let moved = work
            .from
            .filter(|(src, port)| is_packet && !is_mapping_of(&sa.config.params, *src, *port));
        if volume != Volume::Within || moved.is_some() {
            let id = sa.config.id();
            self.out.reports.volume(id, volume);
            if let Some((src, port)) = moved {
                self.out.reports.mapping(id, src, port, view.now.ns);
            }
        }
        if accepted == Err(DropReason::InIntegrity) {
            self.crypt.resync.note_failure(work.sa, sa, view.now.ns);
        }
        accepted?;
        if !is_packet {
            return Err(Outcome::Consumed);
        }
        if work.content.is_ok_and(|content| content.is_aggfrag()) {
            self.aggfrag.note_new();
        }
        self.out.counters.work.decrypted.add(1);
        Ok(())
    }
}

/// Whether a UDP-encapsulated packet came from where the SA has its peer.
fn is_mapping_of(params: &esp::SaParams, src: IpAddr, src_port: u16) -> bool {
    params.src == src && params.encap.is_some_and(|e| e.src_port == src_port)
}

/// Holds an SA's counters, as they are before the packet at hand, against its limits, and moves the SA
/// forward in its life if one is reached.
pub(crate) fn check_volume(sa: &SaEntry<Sa>) -> Volume {
    let live = sa.esp.live();
    sa.check_volume(live.bytes().load(Relaxed), live.packets().load(Relaxed))
}
