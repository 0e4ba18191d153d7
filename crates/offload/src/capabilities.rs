//! Capabilities of a device, and tests of an SA or a policy against them.

use core::ops::RangeInclusive;

use crypto::Suite;
use esp::{Mode, Protocol, SaFlags};
use policy::{Action, Direction, PolicyConfig, SaConfig, Scope};
use wire::Fragment;

use crate::attribute::Attribute;

/// Where an SA's packets are worked on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Placement {
    /// By the CPU alone.
    #[default]
    Cpu,
    /// The cipher by a device, all else by the CPU.
    Crypto,
    /// By a device, with SAs and policies of its own.
    Packet,
}

impl Placement {
    /// As `ip xfrm` and `culvert sa` spell it.
    pub const fn name(self) -> &'static str {
        match self {
            Placement::Cpu => "software",
            Placement::Crypto => "crypto offload",
            Placement::Packet => "packet offload",
        }
    }
}

/// Capabilities of a device. Fixed for the life of the device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// [`Placement::Crypto`] or [`Placement::Packet`].
    pub placement: Placement,
    /// Suites that the device has.
    pub suites: Vec<Suite>,
    /// True if it has tunnel mode.
    pub has_tunnel: bool,
    /// True if it has transport mode.
    pub has_transport: bool,
    /// AH beside ESP.
    pub has_ah: bool,
    /// Outer source and destination of two families, where NAT64 is on the way.
    pub has_mixed_families: bool,
    /// Extended sequence numbers.
    pub has_esn: bool,
    /// True if it has UDP encapsulation.
    pub has_udp_encap: bool,
    /// Traffic flow confidentiality.
    pub has_tfc: bool,
    /// Flags other than the default ones.
    pub has_flags: bool,
    /// Marks and interface ids.
    pub has_scopes: bool,
    /// Selectors of SAs.
    pub has_sa_selectors: bool,
    /// Sizes of the replay window that an SA may ask for. A device may give it a larger one.
    pub replay_windows: RangeInclusive<u32>,
    /// The largest limit by volume.
    pub most_volume: u64,
    /// The largest reqid.
    pub most_reqid: u32,
    /// The largest priority of a policy.
    pub most_priority: u32,
    /// SAs of each direction at most.
    pub most_sas: usize,
    /// Destinations of inbound SAs at most; SAs with one destination share its place.
    pub most_addresses: usize,
    /// Policies of each direction at most.
    pub most_policies: usize,
    /// True if packets of one SA come back in the order of submission.
    pub is_ordered: bool,
    /// The longest packet with its outer header, in bytes.
    pub most_packet_len: usize,
    /// Outer headers with IPv4 options or IPv6 extension headers.
    pub has_options: bool,
    /// ESP packets that are fragments.
    pub has_fragments: bool,
}

impl Capabilities {
    /// Of a device for crypto offload that does these suites for plain ESP, in both modes: what is not the cipher's
    /// is software's, and within it. Tables and the longest packet are to be filled in.
    pub fn crypto(suites: Vec<Suite>) -> Capabilities {
        Capabilities {
            placement: Placement::Crypto,
            suites,
            has_tunnel: true,
            has_transport: true,
            has_ah: false,
            has_mixed_families: false,
            has_esn: false,
            has_udp_encap: false,
            has_tfc: true,
            has_flags: true,
            has_scopes: true,
            has_sa_selectors: true,
            replay_windows: 0..=u32::MAX,
            most_volume: u64::MAX,
            most_reqid: u32::MAX,
            most_priority: 0,
            most_sas: 0,
            most_addresses: 0,
            most_policies: 0,
            is_ordered: true,
            most_packet_len: 0,
            has_options: false,
            has_fragments: false,
        }
    }

    /// Checks that a device with these capabilities carries an SA exactly as described.
    ///
    /// With crypto offload only what goes into the cipher counts, and what stands in front of ESP: a device that
    /// finds SAs by itself reads the outer headers.
    ///
    /// # Errors
    /// The first attribute that the device lacks.
    pub fn check_sa(&self, config: &SaConfig) -> Result<(), Attribute> {
        let params = &config.params;
        let need = |fits: bool, lacked| if fits { Ok(()) } else { Err(lacked) };
        need(self.suites.contains(&params.suite), Attribute::Suite(params.suite))?;
        need(self.has_esn || !params.esn, Attribute::Esn(params.esn))?;
        let has_protocol = match params.protocol {
            Protocol::Esp => true,
            Protocol::Ah => self.has_ah,
            _ => false,
        };
        need(has_protocol, Attribute::Protocol(params.protocol))?;
        let has_mode = match params.mode {
            Mode::Tunnel => self.has_tunnel,
            Mode::Transport => self.has_transport,
            Mode::Iptfs => false,
        };
        need(has_mode, Attribute::Mode(params.mode))?;
        let is_mixed = params.src.is_ipv4() != params.dst.is_ipv4();
        need(self.has_mixed_families || !is_mixed, Attribute::Families)?;
        need(self.has_udp_encap || params.encap.is_none(), Attribute::UdpEncap)?;
        if self.placement != Placement::Packet {
            return Ok(());
        }
        let window = params.replay_window;
        need(self.replay_windows.contains(&window), Attribute::ReplayWindow(window))?;
        need(self.has_tfc || params.tfc_pad_len == 0, Attribute::TfcPadding)?;
        need(self.has_flags || params.flags == SaFlags::default(), Attribute::Flags)?;
        self.check_scope(config.scope())?;
        need(self.has_sa_selectors || config.selector.is_none(), Attribute::Selector)?;
        need(config.reqid <= self.most_reqid, Attribute::Reqid(config.reqid))?;
        let l = &config.limits;
        [l.soft_bytes, l.hard_bytes, l.soft_packets, l.hard_packets].into_iter().try_for_each(
            |limit| need(limit == u64::MAX || limit <= self.most_volume, Attribute::Limit(limit)),
        )
    }

    /// True if a packet of an offloaded SA, from its outer IP header on, may be given to the
    /// device. Else it goes by software. With crypto offload, where software asks for each packet
    /// (Linux's `xdo_dev_offload_ok`).
    pub fn offload_ok(&self, packet: &[u8]) -> bool {
        if packet.len() > self.most_packet_len {
            return false;
        }
        let Ok(headers) = wire::parse_ip(packet) else { return false };
        let plain_len = if headers.dst.is_ipv4() { IPV4_LEN } else { IPV6_LEN };
        (self.has_options || usize::from(headers.header_len) == plain_len)
            && (self.has_fragments || headers.fragment == Fragment::Whole)
    }

    /// Checks that a device with these capabilities carries out a policy exactly as described.
    ///
    /// # Errors
    /// The first attribute that the device lacks.
    pub fn check_policy(&self, config: &PolicyConfig) -> Result<(), Attribute> {
        let need = |fits: bool, lacked| if fits { Ok(()) } else { Err(lacked) };
        let is_policy = config.action != Action::Leave;
        need(self.placement == Placement::Packet && is_policy, Attribute::Policy)?;
        let is_known = config.direction != Direction::Forward;
        need(is_known, Attribute::Direction(config.direction))?;
        self.check_scope(config.scope())?;
        let s = &config.selector;
        let is_whole = [s.src_port.mask, s.dst_port.mask].iter().all(|m| matches!(m, 0 | 0xffff));
        need(is_whole && s.ifindex == 0, Attribute::Selector)?;
        need(config.priority <= self.most_priority, Attribute::Priority(config.priority))?;
        match config.templates.as_slice() {
            [] => Ok(()),
            [template] if template.protocol == ESP && !template.optional => {
                need(template.reqid <= self.most_reqid, Attribute::Reqid(template.reqid))
            }
            _ => Err(Attribute::Templates),
        }
    }

    fn check_scope(&self, scope: Scope) -> Result<(), Attribute> {
        match scope {
            _ if self.has_scopes => Ok(()),
            Scope { if_id: 1.., .. } => Err(Attribute::IfId),
            scope if scope.is_any() => Ok(()),
            _ => Err(Attribute::Mark),
        }
    }
}

/// The IP protocol.
const ESP: u8 = 50;

/// Bytes of an IPv4 header without options, and of IPv6's.
const IPV4_LEN: usize = 20;
const IPV6_LEN: usize = 40;
