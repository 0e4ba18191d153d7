//! SAs and policies as their owner (an IKE daemon, `ip xfrm`) describes them.

use core::net::IpAddr;

use esp::{Mode, SaParams};

use crate::iptfs::Iptfs;
use crate::selector::Selector;

/// A mark and the bits of it that count (`XFRMA_MARK`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Mark {
    /// The value. Bits outside the mask are cut off where the mark is parsed: with one the mark would match no packet.
    pub value: u32,
    /// Bits of a packet's mark that are compared.
    pub mask: u32,
}

impl Mark {
    /// True if a packet's mark matches.
    pub const fn matches(self, packet_mark: u32) -> bool {
        packet_mark & self.mask == self.value
    }

    /// A packet's mark once this one is set: the bits of the mask are replaced
    /// (`XFRMA_SET_MARK`).
    pub const fn set_in(self, packet_mark: u32) -> u32 {
        packet_mark & !self.mask | self.value & self.mask
    }
}

/// Conditions beside the headers that a packet must meet for an SA or a policy to be for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Scope {
    /// Mark that packets must carry.
    pub mark: Mark,
    /// XFRM interface id, 0 for none.
    pub if_id: u32,
}

impl Scope {
    /// True if there is no condition.
    pub fn is_any(&self) -> bool {
        *self == Scope::default()
    }
}

/// Identity of an SA (RFC 4301 §4.1, and Linux's mark).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SaId {
    /// Outer destination address.
    pub dst: IpAddr,
    /// SPI in host byte order.
    pub spi: u32,
    /// IP protocol: 50 for ESP, 51 for AH, 108 for IPComp; 4 or 41 for IP in IP.
    pub protocol: u8,
    /// Mark that tells apart SAs of one SPI.
    pub mark: Mark,
}

/// The SPI that IP in IP is given: its packets have none, and its SAs are told apart by their
/// source. An IPv4 source is the SPI, as in Linux; of an IPv6 source it is a digest, so that a
/// look-up must compare the source too.
pub fn spi_of_source(src: IpAddr) -> u32 {
    match src {
        IpAddr::V4(src) => src.to_bits(),
        IpAddr::V6(src) => {
            let bits = src.to_bits();
            let folded = [0, 32, 64, 96].map(|by| (bits >> by) as u32).into_iter();
            folded.fold(0, |all: u32, word| all.rotate_left(5) ^ word).max(1)
        }
    }
}

/// Lifetime limits by volume; `u64::MAX` for none (Linux's `XFRM_INF`). The limits by time are the
/// owner's business: time passes without packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct VolumeLimits {
    /// Soft limit in bytes.
    pub soft_bytes: u64,
    /// Hard limit in bytes.
    pub hard_bytes: u64,
    /// Soft limit in packets.
    pub soft_packets: u64,
    /// Hard limit in packets.
    pub hard_packets: u64,
}

impl VolumeLimits {
    /// No limit at all.
    pub const NONE: VolumeLimits = VolumeLimits {
        soft_bytes: u64::MAX,
        hard_bytes: u64::MAX,
        soft_packets: u64::MAX,
        hard_packets: u64::MAX,
    };
}

/// An SA as the data path gets it; the keys travel beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SaConfig {
    /// Parameters of the packet processing.
    pub params: SaParams,
    /// Mark that arriving packets must carry.
    pub mark: Mark,
    /// Mark of a packet once the SA has decrypted it (`XFRMA_SET_MARK`).
    pub set_mark: Mark,
    /// XFRM interface id, 0 for none.
    pub if_id: u32,
    /// The number that ties templates to SAs, 0 for none.
    pub reqid: u32,
    /// The CPU whose packets leave by it (RFC 9611, `XFRMA_SA_PCPU`): a worker's number. None for an SA
    /// that is for all, and for one that only decrypts.
    pub cpu: Option<u32>,
    /// The SA's own selector: what may travel in it. An SA without one (all prefixes of length 0)
    /// carries everything that policy puts in.
    pub selector: Option<Selector>,
    /// How IP-TFS packs what it carries, in that mode. Boxed: few SAs are of it.
    pub iptfs: Option<Box<Iptfs>>,
    /// Limits by volume.
    pub limits: VolumeLimits,
    /// Wall-clock second when the owner added it; the younger of two SAs is preferred outbound.
    pub added_s: u64,
    /// Order of installation, for two SAs of one second; larger is younger.
    pub generation: u64,
}

impl SaConfig {
    /// An SA for all packets that policy gives it, without marks, limits and reqid.
    pub fn plain(params: SaParams) -> SaConfig {
        SaConfig {
            params,
            mark: Mark::default(),
            set_mark: Mark::default(),
            if_id: 0,
            reqid: 0,
            cpu: None,
            selector: None,
            iptfs: None,
            limits: VolumeLimits::NONE,
            added_s: 0,
            generation: 0,
        }
    }

    /// The SA's identity.
    pub fn id(&self) -> SaId {
        let SaParams { dst, spi, protocol, .. } = self.params;
        SaId { dst, spi, protocol: protocol.number(), mark: self.mark }
    }

    /// The conditions that packets must meet for this SA.
    pub fn scope(&self) -> Scope {
        Scope { mark: self.mark, if_id: self.if_id }
    }
}

/// Which packets a policy looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Direction {
    /// Decrypted or cleartext packets for this host.
    In = 0,
    /// Packets that leave.
    Out = 1,
    /// Decrypted or cleartext packets that are forwarded.
    Forward = 2,
}

/// Action of a policy (RFC 4301 §4.4.1: PROTECT and BYPASS are told apart by templates).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Protect by the templates, or let pass where there are none (bypass).
    Allow,
    /// Drops the packet.
    Block,
    /// Left to Linux, which has the same policy and carries it out, whatever its templates say: such packets
    /// go to Linux. What was decrypted here has lost what Linux would judge it by, and is dropped. As the
    /// default for packets without a policy it blocks. Linux has no word for it.
    ///
    /// Outbound, with templates, its packets are led to the data path all the same, which gives them to
    /// Linux: before the data path takes them over, and after.
    Leave,
}

/// One of a policy's templates (Linux's `xfrm_user_tmpl`): which SA protects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Template {
    /// Outer source; unspecified in transport mode.
    pub src: IpAddr,
    /// Outer destination; unspecified in transport mode.
    pub dst: IpAddr,
    /// SPI, 0 for any.
    pub spi: u32,
    /// IP protocol: 50 for ESP, 51 AH, 108 IPComp.
    pub protocol: u8,
    /// Tunnel or transport.
    pub mode: Mode,
    /// Ties to SAs, 0 for any.
    pub reqid: u32,
    /// A packet may come without this protection (`level use`).
    pub optional: bool,
}

/// The most SAs that protect one packet: compression, encryption, authentication (RFC 2401 §4.3 had no
/// more in mind; Linux allows six templates).
pub const MAX_BUNDLE: usize = 3;

/// Flags of a policy (`XFRM_POLICY_*`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PolicyFlags {
    /// Each CPU is to have an SA of its own, and its owner is asked for it (`XFRM_POLICY_CPU_ACQUIRE`,
    /// RFC 9611); until it is there, an SA that is for all protects.
    pub per_cpu: bool,
    /// ICMP errors about packets of the other direction match the policy too, from any sender
    /// (`XFRM_POLICY_ICMP`, RFC 4301 §6.2).
    pub icmp: bool,
    /// The offload device that has the policy too, by its number (packet offload). Such policies come before all others,
    /// whatever their priorities.
    pub device: Option<u8>,
}

/// A policy as its owner describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyConfig {
    /// The database's own number for it; unique in the database, never 0.
    pub index: u32,
    /// Direction of the packets: in, out or forwarded.
    pub direction: Direction,
    /// Selector of the packets.
    pub selector: Selector,
    /// Lower comes first.
    pub priority: u32,
    /// Allow, block, or leave to Linux.
    pub action: Action,
    /// Templates in the order of application outbound; empty for bypass and block.
    pub templates: Vec<Template>,
    /// Flags that the owner has set.
    pub flags: PolicyFlags,
    /// Mark that packets must carry.
    pub mark: Mark,
    /// XFRM interface id, 0 for none.
    pub if_id: u32,
}

impl PolicyConfig {
    /// The conditions that packets must meet for this policy.
    pub fn scope(&self) -> Scope {
        Scope { mark: self.mark, if_id: self.if_id }
    }
}
