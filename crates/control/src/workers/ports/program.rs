//! The steering program of a port, as the control thread sees it: BPF in a daemon, memory in tests.

use std::net::IpAddr;

use steer::{Attached, Flow, Mode, Prefix, Steer, SteerError, StrippedTags, UdpPorts};
use wire::VlanTags;

use crate::overlays::OverlayTraffic;

/// Values of a table, one after the other.
pub type Values<'a, T> = &'a mut dyn Iterator<Item = T>;

/// A program with its tables. It is detached when it is dropped: frames pass to Linux.
///
/// # Errors
/// The methods fail as those of [`Steer`] do that have their names.
pub trait Program {
    /// Name of its interface.
    fn interface(&self) -> &str;

    /// Treatment of VLAN tags that the driver takes out.
    fn stripped_tags(&self) -> &StrippedTags;

    /// Frames that it has left to Linux; 0 if they cannot be read.
    fn passed(&self) -> u64;

    /// Has it see the frames of its interface.
    fn attach(&mut self, mode: Mode) -> Result<Attached, SteerError>;

    /// Has everything pass when heartbeats are missing, or not.
    fn set_watchdog(&mut self, is_on: bool) -> Result<(), SteerError>;

    /// Everything is taken until a time on the monotonic clock, in nanoseconds.
    fn beat(&mut self, until_ns: u64) -> Result<(), SteerError>;

    /// All VLANs whose frames are taken.
    fn set_vlans(&mut self, vlans: Values<'_, VlanTags>) -> Result<(), SteerError>;

    /// All addresses of this host.
    fn set_local(&mut self, addresses: Values<'_, IpAddr>) -> Result<(), SteerError>;

    /// All destinations whose packets are taken.
    fn set_protected(&mut self, prefixes: Values<'_, Prefix>) -> Result<(), SteerError>;

    /// One destination more.
    fn add_protected(&mut self, prefix: Prefix) -> Result<(), SteerError>;

    /// Removes one, see above.
    fn remove_protected(&mut self, prefix: Prefix) -> Result<(), SteerError>;

    /// All SAs whose ESP is taken, by destination and SPI.
    fn set_sas(&mut self, sas: Values<'_, (IpAddr, u32)>) -> Result<(), SteerError>;

    /// One SA more.
    fn add_sa(&mut self, dst: IpAddr, spi: u32) -> Result<(), SteerError>;

    /// Removes one, see above.
    fn remove_sa(&mut self, dst: IpAddr, spi: u32) -> Result<(), SteerError>;

    /// Leaves the next packet of an SA to Linux.
    fn sample_sa(&mut self, dst: IpAddr, spi: u32) -> Result<(), SteerError>;

    /// Takes ESP of unknown SAs, or leaves it.
    fn set_take_unknown_esp(&mut self, take: bool) -> Result<(), SteerError>;

    /// Takes fragments of UDP, or leaves them.
    fn set_take_udp_fragments(&mut self, take: bool) -> Result<(), SteerError>;

    /// Takes ICMPv6 errors that may be about segments, or leaves them.
    fn set_take_segment_errors(&mut self, take: bool) -> Result<(), SteerError>;

    /// Takes packets in clear of these overlays, and leaves those of others.
    fn set_take_overlays(&mut self, overlays: &OverlayTraffic) -> Result<(), SteerError>;

    /// Takes a direction of a connection, or leaves it.
    fn set_flow(&mut self, flow: &Flow, is_taken: bool) -> Result<(), SteerError>;
}

impl Program for Steer {
    fn interface(&self) -> &str {
        self.interface()
    }

    fn stripped_tags(&self) -> &StrippedTags {
        self.stripped_tags()
    }

    fn passed(&self) -> u64 {
        self.stats().map_or(0, |stats| stats.passed())
    }

    fn attach(&mut self, mode: Mode) -> Result<Attached, SteerError> {
        self.attach(mode)
    }

    fn set_watchdog(&mut self, is_on: bool) -> Result<(), SteerError> {
        self.set_watchdog(is_on)
    }

    fn beat(&mut self, until_ns: u64) -> Result<(), SteerError> {
        self.beat(until_ns)
    }

    fn set_vlans(&mut self, vlans: Values<'_, VlanTags>) -> Result<(), SteerError> {
        self.set_vlans(vlans)
    }

    fn set_local(&mut self, addresses: Values<'_, IpAddr>) -> Result<(), SteerError> {
        self.set_local(addresses)
    }

    fn set_protected(&mut self, prefixes: Values<'_, Prefix>) -> Result<(), SteerError> {
        self.set_protected(prefixes)
    }

    fn add_protected(&mut self, prefix: Prefix) -> Result<(), SteerError> {
        self.add_protected(prefix)
    }

    fn remove_protected(&mut self, prefix: Prefix) -> Result<(), SteerError> {
        self.remove_protected(prefix)
    }

    fn set_sas(&mut self, sas: Values<'_, (IpAddr, u32)>) -> Result<(), SteerError> {
        self.set_sas(sas)
    }

    fn add_sa(&mut self, dst: IpAddr, spi: u32) -> Result<(), SteerError> {
        self.add_sa(dst, spi)
    }

    fn remove_sa(&mut self, dst: IpAddr, spi: u32) -> Result<(), SteerError> {
        self.remove_sa(dst, spi)
    }

    fn sample_sa(&mut self, dst: IpAddr, spi: u32) -> Result<(), SteerError> {
        self.sample_sa(dst, spi).map(drop)
    }

    fn set_take_unknown_esp(&mut self, take: bool) -> Result<(), SteerError> {
        self.set_take_unknown_esp(take)
    }

    fn set_take_udp_fragments(&mut self, take: bool) -> Result<(), SteerError> {
        self.set_take_udp_fragments(take)
    }

    fn set_take_segment_errors(&mut self, take: bool) -> Result<(), SteerError> {
        self.set_take_segment_errors(take)
    }

    fn set_take_overlays(&mut self, overlays: &OverlayTraffic) -> Result<(), SteerError> {
        let OverlayTraffic { ports, gre, l2tp } = overlays;
        let overlays = ports.iter().copied().collect();
        let ports = self.set_udp_ports(&UdpPorts { overlays, ..UdpPorts::default() });
        ports.and(self.set_take_gre(*gre)).and(self.set_take_l2tp(*l2tp))
    }

    fn set_flow(&mut self, flow: &Flow, is_taken: bool) -> Result<(), SteerError> {
        self.set_flow(flow, is_taken)
    }
}
