//! GTP-U of an address that this host shares with an application (3GPP TS 29.281).
//!
//! What is decrypted for such an address is the application's if it goes to UDP port 2152, and Linux's else. What the
//! application sends from there comes with an address of this host, and takes policy and SA as any packet does.

use outcome::DropReason;
use wire::{Fragment, gtpu, protocol};

use super::step::Notes;
use super::{Decision, NextHop, Question};
use crate::flows::plan::Inspect;
use crate::packets::Origin;
use crate::tables::Application;

impl<N: Notes> Question<'_, N> {
    /// The application that a packet for this host is for, if it is for one.
    pub(super) fn application(&self) -> Option<Application> {
        let h = self.h;
        let applications = &self.view.topology.applications;
        if applications.is_empty() || h.protocol != protocol::UDP || h.dst_port != gtpu::PORT {
            return None;
        }
        applications.iter().find(|application| application.addr == h.dst).copied()
    }

    /// Whether a packet for this host is a fragment that may be an application's, and its ports are not known.
    pub(super) fn may_be_application_s(&self) -> bool {
        let h = self.h;
        let applications = &self.view.topology.applications;
        h.fragment != Fragment::Whole
            && !self.knows_ports
            && h.protocol == protocol::UDP
            && applications.iter().any(|application| application.addr == h.dst)
    }

    /// Whether a packet of a port is what an application sends from an address that is this host's too.
    pub(super) fn is_application_s(&self, ifindex: u32) -> bool {
        let h = self.h;
        let applications = &self.view.topology.applications;
        !applications.is_empty()
            && h.protocol == protocol::UDP
            && (h.src_port == gtpu::PORT
                || h.dst_port == gtpu::PORT
                || h.fragment == Fragment::Later)
            && applications.iter().any(|a| a.addr == h.src && a.ifindex == ifindex)
    }

    /// Gives a packet to its application. That is no hop: the application is this host.
    pub(super) fn deliver(&mut self, to: Application, origin: Origin) -> Decision {
        let h = self.h;
        let datagram = self.packet.get(h.header_len.into()..).unwrap_or_default();
        if h.fragment == Fragment::Whole && !gtpu::is_sound(datagram) {
            return Decision::Drop(DropReason::MalformedGtpu);
        }
        let interface = self.view.topology.interfaces.get(&to.ifindex);
        let Some(interface) = interface.filter(|interface| interface.port.is_some()) else {
            return Decision::Drop(DropReason::TransmitDown);
        };
        let hop = NextHop { ifindex: to.ifindex, addr: to.via, mtu: interface.mtu as usize };
        self.towards(hop, origin, false, Inspect::Gtpu)
    }
}
