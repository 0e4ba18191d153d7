//! GTP-U to an address of applications: each message goes to whom its TEID names.

use io::Packet;
use outcome::DropReason;
use wire::Family;
use wire::gtpu::GtpuHeader;
use wire::udp::UdpHeader;

use crate::features::forward::give;
use crate::features::hands::Hands;
use crate::features::rare::{Held, Next, Rare, Subject};
use crate::gtpu::{Application, Class, Otherwise, Recipient, Service, Station};
use crate::model::{Adjacency, Fate, LinuxWay, Meta, NextHop, ToApplication, Towards};
use crate::out::{AnyOut, Out};
use crate::resolve::{adjacency, adjacency_to};
use crate::view::View;

impl Rare for ToApplication {
    type Kept = ();

    fn holds<'k>(&'k self, (): &'k (), _asked: &Subject<'_>) -> Held<'k> {
        Held::Yes
    }

    fn apply(
        &self,
        (): &mut (),
        hands: &mut Hands<'_>,
        packet: Packet,
        meta: &Meta,
    ) -> Option<Next> {
        give_to_application(hands.view, hands.out, *self, packet, meta);
        None
    }

    fn explains(&self, _cut: Option<usize>) -> Fate {
        Fate::ToApplication
    }
}

/// Gives a message to its application, or to Linux.
#[inline(never)]
fn give_to_application(
    view: &View,
    out: &mut Out,
    ToApplication { service, linux }: ToApplication,
    packet: Packet,
    meta: &Meta,
) {
    // The plan is void with the tables that it was made by.
    let Some(service) = view.topology.gtpu.get(service) else {
        return give(out, packet, linux);
    };
    let at = usize::from(meta.summary.fields.header_len());
    let datagram = packet.data().get(at..).and_then(|bytes| UdpHeader::parse(bytes).ok());
    let Some(datagram) = datagram else {
        return out.drop(packet, DropReason::MalformedUpper);
    };
    let (class, receiver) = match GtpuHeader::parse(datagram.payload()) {
        Ok(header) => {
            let class = Class::of(&header);
            (class, service.receiver(class, header.teid()))
        }
        Err(error) => {
            out.counters.gtpu.of_error(error).add(1);
            let reason = DropReason::GtpuMalformed;
            return give_otherwise(out, packet, (service.malformed, reason), linux);
        }
    };
    out.counters.gtpu.of_class(class).add(1);
    match receiver {
        Recipient::Application(application) => {
            send_to_application(view, out, application, packet, meta);
        }
        Recipient::Linux => give(out, packet, linux),
        Recipient::Unknown => {
            out.counters.gtpu.unknown.add(1);
            let Service { unknown, .. } = service;
            give_otherwise(out, packet, (*unknown, DropReason::GtpuTeid), linux);
        }
    }
}

fn give_otherwise(
    out: &mut Out,
    packet: Packet,
    (otherwise, reason): (Otherwise, DropReason),
    linux: LinuxWay,
) {
    match otherwise {
        Otherwise::Linux => give(out, packet, linux),
        Otherwise::Drop => out.drop(packet, reason),
    }
}

fn send_to_application(
    view: &View,
    out: &mut Out,
    application: &Application,
    mut packet: Packet,
    meta: &Meta,
) {
    let ifindex = application.ifindex;
    let Some(interface) = view.topology.interfaces.get(&ifindex) else {
        return out.drop(packet, DropReason::TransmitDown);
    };
    let mtu = interface.mtu as usize;
    if usize::from(meta.summary.fields.total_len()) > mtu {
        return out.drop(packet, DropReason::GtpuTooLong);
    }
    let family = match packet.data().first() {
        Some(first) if first >> 4 == 6 => Family::V6,
        _ => Family::V4,
    };
    let known = match application.to {
        Station::Mac(mac) => adjacency_to(view, ifindex, mac, family),
        Station::Neighbour(addr) => adjacency(view, NextHop::new(ifindex, addr, mtu), family),
    };
    let Some(adjacency) = known else {
        return match application.to {
            Station::Mac(_) => out.drop(packet, DropReason::TransmitDown),
            // It is asked for, and the packet waits; what comes meanwhile goes by any queue.
            Station::Neighbour(addr) => {
                let towards = Towards { ifindex, addr, keeps_dei: false };
                out.send_to(view, packet, towards);
            }
        };
    };
    let span = packet.span;
    let Some(frame) = adjacency.frame(packet.frame.bytes_mut(), span) else {
        return out.drop(packet, DropReason::OutNoRoom);
    };
    packet.span = frame;
    let Adjacency { slot, .. } = adjacency;
    match application.queue {
        None => out.send(slot.into(), packet),
        Some(queue) => out.send_by_queue((slot.into(), queue.into()), packet),
    }
}
