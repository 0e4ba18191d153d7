//! Overlay interfaces (`ip link add ... type gre`, `vxlan`, `geneve`): what `IFLA_INFO_DATA` says of them
//! (`linux/if_tunnel.h`, `linux/if_link.h`).

use core::net::IpAddr;

use netlink::Attributes;
use netlink::attribute::{as_ip, as_u32, u16_at};

/// Kind of an overlay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OverlayKind {
    /// GRE around IP (`gre`, `ip6gre`).
    Gre,
    /// GRE around Ethernet frames (`gretap`, `ip6gretap`).
    Gretap,
    /// VXLAN around Ethernet frames.
    Vxlan,
    /// GENEVE around Ethernet frames, or IP (`innerprotoinherit`).
    Geneve,
    /// L2TPv3 around Ethernet frames.
    L2tp,
}

/// The bit DF of outer IPv4 headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OverlayDf {
    /// DF is never set.
    Unset,
    /// DF is always set.
    Set,
    /// As the inner packet has it.
    Inherit,
}

/// Settings of an overlay interface.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Overlay {
    /// Kind of its headers.
    pub kind: OverlayKind,
    /// Address of this end. `None`: by route.
    pub local: Option<IpAddr>,
    /// Address of the far end. `None`: neighbours or forwarding entries say.
    pub remote: Option<IpAddr>,
    /// Key of packets to this end.
    pub ikey: Option<u32>,
    /// Key of packets to the far end.
    pub okey: Option<u32>,
    /// True if packets to this end have a GRE checksum.
    pub has_icsum: bool,
    /// True if packets to the far end have a GRE checksum.
    pub has_ocsum: bool,
    /// Virtual network identifier.
    pub vni: u32,
    /// UDP port of both ends; of L2TPv3 the session has them.
    pub port: u16,
    /// UDP source ports, the first and the last. `None`: as `net.ipv4.ip_local_port_range` says.
    pub ports: Option<(u16, u16)>,
    /// True if packets over IPv4 have a UDP checksum.
    pub has_udp_checksum: bool,
    /// True if packets over IPv6 have none.
    pub has_zero_checksum6: bool,
    /// True if packets over IPv6 may come without one (RFC 6935).
    pub takes_zero_checksum6: bool,
    /// TTL or hop limit of outer headers. `None`: the inner packet's; 0: Linux's default.
    pub ttl: Option<u8>,
    /// Traffic class of outer headers. `None`: the inner packet's.
    pub class: Option<u8>,
    /// The bit DF of outer headers.
    pub df: OverlayDf,
    /// Tunnel encapsulation limit, of GRE over IPv6 (RFC 2473 §4.1.1).
    pub encap_limit: Option<u8>,
    /// True if forwarding entries are learnt from what arrives.
    pub learns: bool,
    /// True if IP is inside, and not Ethernet.
    pub is_ip_inside: bool,
    /// Session of L2TPv3; `None` for other kinds.
    pub session: Option<L2tpSession>,
    /// The first setting that is not in this model, by iproute2's name.
    pub more: Option<&'static str>,
}

/// A session of L2TPv3.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct L2tpSession {
    /// Number of the session in packets to this end.
    pub id: u32,
    /// Number of the session in packets to the far end.
    pub peer_id: u32,
    /// Cookie that this end puts into its packets to the far end, of 0, 4 or 8 bytes.
    pub cookie: Vec<u8>,
    /// Cookie that the far end puts into its packets to this end, of 0, 4 or 8 bytes.
    pub peer_cookie: Vec<u8>,
    /// UDP ports of this end and of the far end. `None`: over IP.
    pub ports: Option<(u16, u16)>,
    /// True if the default sublayer of 4 bytes follows the cookie. `None`: Linux does not say (before 6.16).
    pub has_sublayer: Option<bool>,
}

/// The overlay of a link of this kind, by its attributes; `None` for other kinds.
pub(crate) fn overlay(kind: &str, data: &[u8]) -> Option<Overlay> {
    match kind {
        "gre" => Some(gre(data, OverlayKind::Gre, false)),
        "gretap" => Some(gre(data, OverlayKind::Gretap, false)),
        "ip6gre" => Some(gre(data, OverlayKind::Gre, true)),
        "ip6gretap" => Some(gre(data, OverlayKind::Gretap, true)),
        "vxlan" => Some(vxlan(data)),
        "geneve" => Some(geneve(data)),
        _ => None,
    }
}

impl Overlay {
    pub(crate) const fn new(kind: OverlayKind) -> Overlay {
        Overlay {
            kind,
            local: None,
            remote: None,
            ikey: None,
            okey: None,
            has_icsum: false,
            has_ocsum: false,
            vni: 0,
            port: 0,
            ports: None,
            has_udp_checksum: false,
            has_zero_checksum6: false,
            takes_zero_checksum6: false,
            ttl: Some(0),
            class: Some(0),
            df: OverlayDf::Unset,
            encap_limit: None,
            learns: false,
            is_ip_inside: matches!(kind, OverlayKind::Gre),
            session: None,
            more: None,
        }
    }
}

fn gre(data: &[u8], kind: OverlayKind, is_v6: bool) -> Overlay {
    let mut link = Overlay::new(kind);
    let (mut iflags, mut oflags, mut flags) = (0, 0, 0);
    let (mut ikey, mut okey) = (None, None);
    let mut encap_limit = None;
    for (kind, value) in Attributes::new(data) {
        match kind {
            IFLA_GRE_IFLAGS => iflags = be16(value).unwrap_or(0),
            IFLA_GRE_OFLAGS => oflags = be16(value).unwrap_or(0),
            IFLA_GRE_IKEY => ikey = be32(value),
            IFLA_GRE_OKEY => okey = be32(value),
            IFLA_GRE_LOCAL => link.local = end(value),
            IFLA_GRE_REMOTE => link.remote = end(value),
            // 0: inherited over IPv4, the route's over IPv6.
            IFLA_GRE_TTL => {
                link.ttl = value.first().copied().filter(|ttl| is_v6 || *ttl != 0);
            }
            IFLA_GRE_TOS => link.class = class(value),
            IFLA_GRE_PMTUDISC if value.first().is_some_and(|is| *is != 0) => {
                link.df = OverlayDf::Set;
            }
            // Inherited even so (`ip_md_tunnel_xmit`).
            IFLA_GRE_PMTUDISC => link.df = OverlayDf::Inherit,
            IFLA_GRE_IGNORE_DF if value.first().is_some_and(|is| *is != 0) => {
                link.more = link.more.or(Some("ignore-df"));
            }
            IFLA_GRE_ENCAP_LIMIT => encap_limit = value.first().copied(),
            IFLA_GRE_FLAGS => flags = as_u32(value).unwrap_or(0),
            IFLA_GRE_FLOWINFO if is_v6 => {
                let info = be32(value).unwrap_or(0);
                link.class = Some((info >> 20) as u8);
                if info & 0x000f_ffff != 0 {
                    link.more = link.more.or(Some("flowlabel"));
                }
            }
            IFLA_GRE_ENCAP_TYPE if u16_at(value, 0).is_some_and(|kind| kind != 0) => {
                link.more = link.more.or(Some("encap fou"));
            }
            IFLA_GRE_COLLECT_METADATA => link.more = link.more.or(Some("external")),
            IFLA_GRE_FWMARK if as_u32(value).is_some_and(|mark| mark != 0) => {
                link.more = link.more.or(Some("fwmark"));
            }
            _ => {}
        }
    }
    if (iflags | oflags) & GRE_SEQ != 0 {
        link.more = link.more.or(Some("seq"));
    }
    if (iflags | oflags) & !(GRE_SEQ | GRE_KEY | GRE_CSUM) != 0 {
        link.more = link.more.or(Some("routing"));
    }
    link.ikey = ikey.filter(|_| iflags & GRE_KEY != 0);
    link.okey = okey.filter(|_| oflags & GRE_KEY != 0);
    link.has_icsum = iflags & GRE_CSUM != 0;
    link.has_ocsum = oflags & GRE_CSUM != 0;
    if is_v6 {
        link.df = OverlayDf::Unset;
        link.encap_limit = encap_limit.filter(|_| flags & IP6_TNL_F_IGN_ENCAP_LIMIT == 0);
        if flags & IP6_TNL_F_USE_ORIG_TCLASS != 0 {
            link.class = None;
        }
        if flags & IP6_TNL_F_USE_ORIG_FLOWLABEL != 0 {
            link.more = link.more.or(Some("flowlabel inherit"));
        }
        if flags & IP6_TNL_F_RCV_DSCP_COPY != 0 {
            link.more = link.more.or(Some("dscp inherit"));
        }
        if flags & IP6_TNL_F_USE_ORIG_FWMARK != 0 {
            link.more = link.more.or(Some("fwmark inherit"));
        }
    }
    link
}

fn vxlan(data: &[u8]) -> Overlay {
    let mut link = Overlay::new(OverlayKind::Vxlan);
    let mut inherits_ttl = false;
    for (kind, value) in Attributes::new(data) {
        let is_on = value.first().is_some_and(|is| *is != 0);
        let mut more = |name| link.more = link.more.or(Some(name));
        match kind {
            IFLA_VXLAN_ID => link.vni = as_u32(value).unwrap_or(0),
            IFLA_VXLAN_GROUP | IFLA_VXLAN_GROUP6 => link.remote = end(value),
            IFLA_VXLAN_LOCAL | IFLA_VXLAN_LOCAL6 => link.local = end(value),
            IFLA_VXLAN_TTL => link.ttl = value.first().copied(),
            IFLA_VXLAN_TTL_INHERIT => inherits_ttl = is_on,
            IFLA_VXLAN_TOS => link.class = class(value),
            IFLA_VXLAN_LEARNING => link.learns = is_on,
            IFLA_VXLAN_PORT_RANGE => link.ports = be16(value).zip(value.get(2..).and_then(be16)),
            IFLA_VXLAN_PORT => link.port = be16(value).unwrap_or(0),
            IFLA_VXLAN_UDP_CSUM => link.has_udp_checksum = is_on,
            IFLA_VXLAN_UDP_ZERO_CSUM6_TX => link.has_zero_checksum6 = is_on,
            IFLA_VXLAN_UDP_ZERO_CSUM6_RX => link.takes_zero_checksum6 = is_on,
            IFLA_VXLAN_DF => link.df = df(value),
            IFLA_VXLAN_PROXY if is_on => more("proxy"),
            IFLA_VXLAN_RSC if is_on => more("rsc"),
            IFLA_VXLAN_REMCSUM_TX | IFLA_VXLAN_REMCSUM_RX if is_on => more("remcsum"),
            IFLA_VXLAN_GBP => more("gbp"),
            IFLA_VXLAN_GPE => more("gpe"),
            IFLA_VXLAN_COLLECT_METADATA if is_on => more("external"),
            IFLA_VXLAN_VNIFILTER if is_on => more("vnifilter"),
            IFLA_VXLAN_LABEL if be32(value).is_some_and(|label| label != 0) => more("flowlabel"),
            _ => {}
        }
    }
    if inherits_ttl {
        link.ttl = None;
    }
    link.ports = link.ports.filter(|ports| *ports != (0, 0));
    link
}

fn geneve(data: &[u8]) -> Overlay {
    let mut link = Overlay::new(OverlayKind::Geneve);
    let mut inherits_ttl = false;
    for (kind, value) in Attributes::new(data) {
        let is_on = value.first().is_some_and(|is| *is != 0);
        let mut more = |name| link.more = link.more.or(Some(name));
        match kind {
            IFLA_GENEVE_ID => link.vni = as_u32(value).unwrap_or(0),
            IFLA_GENEVE_REMOTE | IFLA_GENEVE_REMOTE6 => link.remote = end(value),
            IFLA_GENEVE_TTL => link.ttl = value.first().copied(),
            IFLA_GENEVE_TTL_INHERIT => inherits_ttl = is_on,
            IFLA_GENEVE_TOS => link.class = class(value),
            IFLA_GENEVE_PORT => link.port = be16(value).unwrap_or(0),
            IFLA_GENEVE_UDP_CSUM => link.has_udp_checksum = is_on,
            IFLA_GENEVE_UDP_ZERO_CSUM6_TX => link.has_zero_checksum6 = is_on,
            IFLA_GENEVE_UDP_ZERO_CSUM6_RX => link.takes_zero_checksum6 = is_on,
            IFLA_GENEVE_DF => link.df = df(value),
            IFLA_GENEVE_INNER_PROTO_INHERIT => link.is_ip_inside = true,
            IFLA_GENEVE_PORT_RANGE => link.ports = be16(value).zip(value.get(2..).and_then(be16)),
            IFLA_GENEVE_COLLECT_METADATA => more("external"),
            IFLA_GENEVE_LABEL if be32(value).is_some_and(|label| label != 0) => more("flowlabel"),
            _ => {}
        }
    }
    if inherits_ttl {
        link.ttl = None;
    }
    link.ports = link.ports.filter(|ports| *ports != (0, 0));
    link
}

/// An address; `None` for the unspecified one.
fn end(value: &[u8]) -> Option<IpAddr> {
    as_ip(value).filter(|addr| !addr.is_unspecified())
}

/// A traffic class; 1 is the word for the inner packet's.
fn class(value: &[u8]) -> Option<u8> {
    value.first().copied().filter(|class| class & 1 == 0)
}

fn df(value: &[u8]) -> OverlayDf {
    match value.first() {
        Some(1) => OverlayDf::Set,
        Some(2) => OverlayDf::Inherit,
        _ => OverlayDf::Unset,
    }
}

fn be16(value: &[u8]) -> Option<u16> {
    value.first_chunk().map(|bytes| u16::from_be_bytes(*bytes))
}

fn be32(value: &[u8]) -> Option<u32> {
    value.first_chunk().map(|bytes| u32::from_be_bytes(*bytes))
}

const GRE_CSUM: u16 = 0x8000;
const GRE_KEY: u16 = 0x2000;
const GRE_SEQ: u16 = 0x1000;
const IFLA_GRE_IFLAGS: u16 = 2;
const IFLA_GRE_OFLAGS: u16 = 3;
const IFLA_GRE_IKEY: u16 = 4;
const IFLA_GRE_OKEY: u16 = 5;
const IFLA_GRE_LOCAL: u16 = 6;
const IFLA_GRE_REMOTE: u16 = 7;
const IFLA_GRE_TTL: u16 = 8;
const IFLA_GRE_TOS: u16 = 9;
const IFLA_GRE_PMTUDISC: u16 = 10;
const IFLA_GRE_ENCAP_LIMIT: u16 = 11;
const IFLA_GRE_FLOWINFO: u16 = 12;
const IFLA_GRE_FLAGS: u16 = 13;
const IFLA_GRE_ENCAP_TYPE: u16 = 14;
const IFLA_GRE_COLLECT_METADATA: u16 = 18;
const IFLA_GRE_IGNORE_DF: u16 = 19;
const IFLA_GRE_FWMARK: u16 = 20;
const IP6_TNL_F_IGN_ENCAP_LIMIT: u32 = 0x1;
const IP6_TNL_F_USE_ORIG_TCLASS: u32 = 0x2;
const IP6_TNL_F_USE_ORIG_FLOWLABEL: u32 = 0x4;
const IP6_TNL_F_RCV_DSCP_COPY: u32 = 0x10;
const IP6_TNL_F_USE_ORIG_FWMARK: u32 = 0x20;
const IFLA_VXLAN_ID: u16 = 1;
const IFLA_VXLAN_GROUP: u16 = 2;
const IFLA_VXLAN_LOCAL: u16 = 4;
const IFLA_VXLAN_TTL: u16 = 5;
const IFLA_VXLAN_TOS: u16 = 6;
const IFLA_VXLAN_LEARNING: u16 = 7;
const IFLA_VXLAN_PORT_RANGE: u16 = 10;
const IFLA_VXLAN_PROXY: u16 = 11;
const IFLA_VXLAN_RSC: u16 = 12;
const IFLA_VXLAN_PORT: u16 = 15;
const IFLA_VXLAN_GROUP6: u16 = 16;
const IFLA_VXLAN_LOCAL6: u16 = 17;
const IFLA_VXLAN_UDP_CSUM: u16 = 18;
const IFLA_VXLAN_UDP_ZERO_CSUM6_TX: u16 = 19;
const IFLA_VXLAN_UDP_ZERO_CSUM6_RX: u16 = 20;
const IFLA_VXLAN_REMCSUM_TX: u16 = 21;
const IFLA_VXLAN_REMCSUM_RX: u16 = 22;
const IFLA_VXLAN_GBP: u16 = 23;
const IFLA_VXLAN_COLLECT_METADATA: u16 = 25;
const IFLA_VXLAN_LABEL: u16 = 26;
const IFLA_VXLAN_GPE: u16 = 27;
const IFLA_VXLAN_TTL_INHERIT: u16 = 28;
const IFLA_VXLAN_DF: u16 = 29;
const IFLA_VXLAN_VNIFILTER: u16 = 30;
const IFLA_GENEVE_ID: u16 = 1;
const IFLA_GENEVE_REMOTE: u16 = 2;
const IFLA_GENEVE_TTL: u16 = 3;
const IFLA_GENEVE_TOS: u16 = 4;
const IFLA_GENEVE_PORT: u16 = 5;
const IFLA_GENEVE_COLLECT_METADATA: u16 = 6;
const IFLA_GENEVE_REMOTE6: u16 = 7;
const IFLA_GENEVE_UDP_CSUM: u16 = 8;
const IFLA_GENEVE_UDP_ZERO_CSUM6_TX: u16 = 9;
const IFLA_GENEVE_UDP_ZERO_CSUM6_RX: u16 = 10;
const IFLA_GENEVE_LABEL: u16 = 11;
const IFLA_GENEVE_TTL_INHERIT: u16 = 12;
const IFLA_GENEVE_DF: u16 = 13;
const IFLA_GENEVE_INNER_PROTO_INHERIT: u16 = 14;
const IFLA_GENEVE_PORT_RANGE: u16 = 15;
