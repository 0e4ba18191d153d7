//! Parameters of an SA that the data path has to know.

use core::net::IpAddr;

use crypto::Suite;

/// The protocol that an SA speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// Encapsulating Security Payload (RFC 4303).
    Esp,
    /// Authentication Header (RFC 4302).
    Ah,
    /// IP Payload Compression with deflate (RFC 3173, RFC 2394); the SPI is the CPI.
    IpComp,
    /// IP in IPv4 (RFC 2003): packets of an IPComp tunnel that are not compressed.
    IpInV4,
    /// IP in IPv6 (RFC 2473), likewise.
    IpInV6,
}

impl Protocol {
    /// The IP protocol number (IANA).
    pub const fn number(self) -> u8 {
        match self {
            Protocol::Esp => wire::protocol::ESP,
            Protocol::Ah => wire::protocol::AH,
            Protocol::IpComp => wire::protocol::IPCOMP,
            Protocol::IpInV4 => wire::protocol::IPV4,
            Protocol::IpInV6 => wire::protocol::IPV6,
        }
    }

    /// True for protocols whose packets have neither numbers nor an ICV, and whose SAs have no
    /// algorithm of an engine.
    pub const fn is_bare(self) -> bool {
        matches!(self, Protocol::IpComp | Protocol::IpInV4 | Protocol::IpInV6)
    }
}

/// Tunnel or transport mode (RFC 4301 §3.2), or that of IP-TFS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// A whole IP packet travels inside ESP, behind a new IP header.
    Tunnel,
    /// Protects the payload of the packet's own IP header.
    Transport,
    /// Whole packets and pieces of them travel inside ESP as AGGFRAG payloads, behind a new IP header (RFC 9347).
    Iptfs,
}

impl Mode {
    /// True if packets get a new IP header.
    pub const fn is_tunnel(self) -> bool {
        matches!(self, Mode::Tunnel | Mode::Iptfs)
    }
}

/// UDP encapsulation (RFC 3948). Ports in host byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct UdpEncap {
    /// Source port on the wire, seen from the SA's source.
    pub src_port: u16,
    /// Destination port on the wire.
    pub dst_port: u16,
}

/// Linux's SA flags that change what happens to a packet (`XFRM_STATE_*`, `XFRM_SA_XFLAG_*`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SaFlags {
    /// Do not copy ECN between the headers (`noecn`).
    pub no_ecn: bool,
    /// Copy the outer DSCP to the inner header when decapsulating (`decap-dscp`).
    pub decap_dscp: bool,
    /// Do not copy the inner DF to the outer header, and fragment freely (`nopmtudisc`).
    pub no_pmtu_disc: bool,
    /// Do not copy the inner DSCP to the outer header (`extra_flag dont-encap-dscp`).
    pub dont_encap_dscp: bool,
    /// AH over IPv4: pad the header to a multiple of 4 bytes, as RFC 4302 §2.6 has it, and not of 8
    /// (`align4`).
    pub align4: bool,
    /// ICMP errors about packets of the other direction may come through the SA, from any sender
    /// (`icmp`, RFC 4301 §6.2).
    pub icmp: bool,
}

/// An SA as the data path needs it, without keys.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SaParams {
    /// The SPI, in host byte order.
    pub spi: u32,
    /// Outer source address.
    pub src: IpAddr,
    /// Outer destination address.
    pub dst: IpAddr,
    /// ESP, AH, or what goes inside of them.
    pub protocol: Protocol,
    /// Tunnel, transport or IP-TFS.
    pub mode: Mode,
    /// The algorithms; of AH the integrity algorithm, as that of a suite without encryption; none of
    /// the protocols that have neither.
    pub suite: Suite,
    /// UDP encapsulation, if any.
    pub encap: Option<UdpEncap>,
    /// Extended (64-bit) sequence numbers.
    pub esn: bool,
    /// Replay window in packets, 0 for no replay check, at most 65536.
    pub replay_window: u32,
    /// Traffic flow confidentiality: pad every payload to at least so many bytes; 0 for none.
    pub tfc_pad_len: u32,
    /// Flags, as `struct xfrm_usersa_info` has them.
    pub flags: SaFlags,
}

impl SaParams {
    /// ESP in tunnel mode from `src` to `dst`, with nothing that is optional and no replay check.
    pub fn tunnel(suite: Suite, spi: u32, (src, dst): (IpAddr, IpAddr)) -> SaParams {
        SaParams {
            spi,
            src,
            dst,
            protocol: Protocol::Esp,
            mode: Mode::Tunnel,
            suite,
            encap: None,
            esn: false,
            replay_window: 0,
            tfc_pad_len: 0,
            flags: SaFlags::default(),
        }
    }
}
