//! Packets that were decrypted: the SA's limits, the replay window, and where they came from.

use core::net::IpAddr;
use core::sync::atomic::Ordering::Relaxed;

use io::Packet;
use outcome::{DropReason, Outcome};
use policy::{ClassCounts, Volume};

use crate::crypt::open_batch::OpenWork;
use crate::crypt::{Crypt, check_volume};
use crate::features::aggfrag::Aggfrag;
use crate::model::Turn;
use crate::out::AnyOut;
use crate::view::View;

/// Accepts a packet that was decrypted, or says how it ends, in the order of arrival.
#[inline(always)]
pub(crate) fn accept(
    view: &View,
    (crypt, out, aggfrag): (&mut Crypt, &mut impl AnyOut, &mut Aggfrag),
    packet: &mut Packet,
    work: &OpenWork,
    _turn: Turn<'_>,
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
        if let Some(classes) = sa.classes() {
            count_class(classes, packet);
        }
        out.counters().work.decrypted.add(1);
        return Ok(());
    }
    accept_any(view, (crypt, out, aggfrag), packet, work)
}

/// [`accept`] for every packet.
#[inline(never)]
fn accept_any(
    view: &View,
    (crypt, out, aggfrag): (&mut Crypt, &mut impl AnyOut, &mut Aggfrag),
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
    let moved =
        work.from.filter(|(src, port)| is_packet && !is_mapping_of(&sa.config.params, *src, *port));
    if volume != Volume::Within || moved.is_some() {
        let id = sa.config.id();
        out.reports().volume(id, volume);
        if let Some((src, port)) = moved {
            out.reports().mapping(id, src, port, view.now.ns);
        }
    }
    if accepted == Err(DropReason::InIntegrity) {
        crypt.resync.note_failure(work.sa, sa, view.now.ns);
    }
    accepted?;
    if !is_packet {
        return Err(Outcome::Consumed);
    }
    if work.content.is_ok_and(|content| content.is_aggfrag()) {
        aggfrag.note_new();
    }
    if let Some(classes) = sa.classes() {
        count_class(classes, packet);
    }
    out.counters().work.decrypted.add(1);
    Ok(())
}

/// Counts a decrypted packet by its class, of an SA that is measured.
#[cold]
fn count_class(classes: &ClassCounts, packet: &Packet) {
    if let Some(class) = wire::traffic_class(packet.data()) {
        classes.count(class);
    }
}

/// True if a UDP-encapsulated packet came from the address and port where the SA has its peer.
fn is_mapping_of(params: &esp::SaParams, src: IpAddr, src_port: u16) -> bool {
    params.src == src && params.encap.is_some_and(|e| e.src_port == src_port)
}
