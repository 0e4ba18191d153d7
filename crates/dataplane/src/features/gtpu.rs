//! GTP-U to an address of applications: each message goes to whom its TEID names.

use io::Packet;
use outcome::DropReason;
use wire::Family;
use wire::gtpu::GtpuHeader;
use wire::udp::UdpHeader;

use crate::apply::Executor;
use crate::gtpu::{Application, Class, Otherwise, Receiver, Service, Station};
use crate::model::{Adjacency, LinuxWay, Meta, NextHop, Towards};
use crate::resolve::{adjacency, adjacency_to};
use crate::view::View;

impl Executor {
    /// Gives a message to its application, or to Linux. Not for helpers, which leave such packets before they are counted.
    #[inline(never)]
    pub(crate) fn give_to_application(
        &mut self,
        view: &View,
        (service, linux): (u16, LinuxWay),
        packet: Packet,
        meta: &Meta,
    ) {
        // The plan is void with the tables that it was made by.
        let Some(service) = view.topology.gtpu.get(service) else {
            return self.give(packet, linux);
        };
        let at = usize::from(meta.summary.fields.header_len());
        let datagram = packet.data().get(at..).and_then(|bytes| UdpHeader::parse(bytes).ok());
        let Some(datagram) = datagram else {
            return self.out.drop(packet, DropReason::MalformedUpper);
        };
        let (class, receiver) = match GtpuHeader::parse(datagram.payload()) {
            Ok(header) => {
                let class = Class::of(&header);
                (class, service.receiver(class, header.teid()))
            }
            Err(error) => {
                self.out.counters.gtpu.of_error(error).add(1);
                let reason = DropReason::GtpuMalformed;
                return self.give_otherwise(packet, (service.malformed, reason), linux);
            }
        };
        self.out.counters.gtpu.of_class(class).add(1);
        match receiver {
            Receiver::Application(application) => {
                self.send_to_application(view, application, packet, meta);
            }
            Receiver::Linux => self.give(packet, linux),
            Receiver::Unknown => {
                self.out.counters.gtpu.unknown.add(1);
                let Service { unknown, .. } = service;
                self.give_otherwise(packet, (*unknown, DropReason::GtpuTeid), linux);
            }
        }
    }

    fn give_otherwise(
        &mut self,
        packet: Packet,
        (otherwise, reason): (Otherwise, DropReason),
        linux: LinuxWay,
    ) {
        match otherwise {
            Otherwise::Linux => self.give(packet, linux),
            Otherwise::Drop => self.out.drop(packet, reason),
        }
    }

    fn send_to_application(
        &mut self,
        view: &View,
        application: &Application,
        mut packet: Packet,
        meta: &Meta,
    ) {
        let ifindex = application.ifindex;
        let Some(interface) = view.topology.interfaces.get(&ifindex) else {
            return self.out.drop(packet, DropReason::TransmitDown);
        };
        let mtu = interface.mtu as usize;
        if usize::from(meta.summary.fields.total_len()) > mtu {
            return self.out.drop(packet, DropReason::GtpuTooLong);
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
                Station::Mac(_) => self.out.drop(packet, DropReason::TransmitDown),
                // It is asked for, and the packet waits; what comes meanwhile goes by any queue.
                Station::Neighbour(addr) => {
                    let towards = Towards { ifindex, addr, keeps_dei: false };
                    self.out.send_to(view, packet, towards);
                }
            };
        };
        let span = packet.span;
        let Some(frame) = adjacency.frame(packet.frame.bytes_mut(), span) else {
            return self.out.drop(packet, DropReason::OutNoRoom);
        };
        packet.span = frame;
        let Adjacency { slot, .. } = adjacency;
        match application.queue {
            None => self.out.send(slot.into(), packet),
            Some(queue) => self.out.send_by_queue((slot.into(), queue.into()), packet),
        }
    }
}
