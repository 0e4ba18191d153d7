//! Numbers of Linux's rtnetlink interface (`linux/rtnetlink.h`, `if_link.h`,
//! `if_addr.h`, `fib_rules.h`, `neighbour.h`), under the kernel's names.
//!
//! All multi-byte fields are in host byte order unless an address.

pub(crate) const RTM_NEWLINK: u16 = 16;
pub(crate) const RTM_DELLINK: u16 = 17;
pub(crate) const RTM_GETLINK: u16 = 18;
pub(crate) const RTM_NEWADDR: u16 = 20;
pub(crate) const RTM_DELADDR: u16 = 21;
pub(crate) const RTM_GETADDR: u16 = 22;
pub(crate) const RTM_NEWROUTE: u16 = 24;
pub(crate) const RTM_DELROUTE: u16 = 25;
pub(crate) const RTM_GETROUTE: u16 = 26;
pub(crate) const RTM_NEWNEIGH: u16 = 28;
pub(crate) const RTM_DELNEIGH: u16 = 29;
pub(crate) const RTM_GETNEIGH: u16 = 30;
pub(crate) const RTM_NEWRULE: u16 = 32;
pub(crate) const RTM_DELRULE: u16 = 33;
pub(crate) const RTM_GETRULE: u16 = 34;

pub(crate) const RTNLGRP_LINK: u32 = 1;
pub(crate) const RTNLGRP_NEIGH: u32 = 3;
pub(crate) const RTNLGRP_IPV4_IFADDR: u32 = 5;
pub(crate) const RTNLGRP_IPV4_ROUTE: u32 = 7;
pub(crate) const RTNLGRP_IPV4_RULE: u32 = 8;
pub(crate) const RTNLGRP_IPV6_IFADDR: u32 = 9;
pub(crate) const RTNLGRP_IPV6_ROUTE: u32 = 11;
pub(crate) const RTNLGRP_IPV6_RULE: u32 = 19;

pub(crate) const AF_UNSPEC: u8 = 0;
pub(crate) const AF_INET: u8 = 2;
pub(crate) const AF_INET6: u8 = 10;
pub(crate) const AF_BRIDGE: u8 = 7;

/// Length of `struct ifinfomsg`.
pub(crate) const IFINFOMSG_LEN: usize = 16;
pub(crate) const ARPHRD_ETHER: u16 = 1;
pub(crate) const IFF_UP: u32 = 0x1;
pub(crate) const IFF_LOOPBACK: u32 = 0x8;
pub(crate) const IFF_RUNNING: u32 = 0x40;
/// The TPID of an 802.1Q tag.
pub(crate) const ETH_P_8021Q: u16 = 0x8100;

pub(crate) const IFLA_ADDRESS: u16 = 1;
pub(crate) const IFLA_IFNAME: u16 = 3;
pub(crate) const IFLA_MTU: u16 = 4;
pub(crate) const IFLA_LINK: u16 = 5;
pub(crate) const IFLA_MASTER: u16 = 10;
pub(crate) const IFLA_LINKINFO: u16 = 18;
pub(crate) const IFLA_LINK_NETNSID: u16 = 37;
/// Since Linux 6.16.
pub(crate) const IFLA_HEADROOM: u16 = 68;
pub(crate) const IFLA_INFO_KIND: u16 = 1;
pub(crate) const IFLA_INFO_DATA: u16 = 2;
pub(crate) const IFLA_VLAN_ID: u16 = 1;
pub(crate) const IFLA_VLAN_EGRESS_QOS: u16 = 3;
pub(crate) const IFLA_VLAN_PROTOCOL: u16 = 5;
pub(crate) const IFLA_VLAN_QOS_MAPPING: u16 = 1;
pub(crate) const IFLA_VRF_TABLE: u16 = 1;
pub(crate) const IFLA_XFRM_IF_ID: u16 = 2;
pub(crate) const IFLA_XFRM_COLLECT_METADATA: u16 = 3;

/// Length of `struct ifaddrmsg`.
pub(crate) const IFADDRMSG_LEN: usize = 8;
pub(crate) const IFA_ADDRESS: u16 = 1;
pub(crate) const IFA_LOCAL: u16 = 2;
pub(crate) const IFA_FLAGS: u16 = 8;
pub(crate) const IFA_F_SECONDARY: u32 = 0x01;
pub(crate) const IFA_F_DADFAILED: u32 = 0x08;
pub(crate) const IFA_F_DEPRECATED: u32 = 0x20;
pub(crate) const IFA_F_TENTATIVE: u32 = 0x40;
pub(crate) const IFA_F_OPTIMISTIC: u32 = 0x04;

/// Length of `struct rtmsg`.
pub(crate) const RTMSG_LEN: usize = 12;
pub(crate) const RTM_F_CLONED: u32 = 0x200;
pub(crate) const RT_TABLE_UNSPEC: u8 = 0;
pub(crate) const RT_TABLE_COMPAT: u8 = 252;
pub(crate) const RTA_DST: u16 = 1;
pub(crate) const RTA_SRC: u16 = 2;
pub(crate) const RTA_OIF: u16 = 4;
pub(crate) const RTA_GATEWAY: u16 = 5;
pub(crate) const RTA_PRIORITY: u16 = 6;
pub(crate) const RTA_PREFSRC: u16 = 7;
pub(crate) const RTA_METRICS: u16 = 8;
pub(crate) const RTA_MULTIPATH: u16 = 9;
pub(crate) const RTA_TABLE: u16 = 15;
pub(crate) const RTA_VIA: u16 = 18;
pub(crate) const RTA_ENCAP_TYPE: u16 = 21;
pub(crate) const RTA_ENCAP: u16 = 22;
pub(crate) const LWTUNNEL_ENCAP_SEG6: u16 = 5;
pub(crate) const LWTUNNEL_ENCAP_SEG6_LOCAL: u16 = 7;
pub(crate) const SEG6_IPTUNNEL_SRH: u16 = 1;
pub(crate) const SEG6_LOCAL_ACTION: u16 = 1;
pub(crate) const SEG6_LOCAL_SRH: u16 = 2;
pub(crate) const SEG6_LOCAL_TABLE: u16 = 3;
pub(crate) const SEG6_LOCAL_NH4: u16 = 4;
pub(crate) const SEG6_LOCAL_NH6: u16 = 5;
pub(crate) const SEG6_LOCAL_OIF: u16 = 7;
pub(crate) const SEG6_LOCAL_VRFTABLE: u16 = 9;
pub(crate) const SEG6_LOCAL_COUNTERS: u16 = 10;
pub(crate) const SEG6_LOCAL_FLAVORS: u16 = 11;
pub(crate) const SEG6_LOCAL_FLV_OPERATION: u16 = 1;
pub(crate) const SEG6_LOCAL_FLV_LCBLOCK_BITS: u16 = 2;
pub(crate) const SEG6_LOCAL_FLV_LCNODE_FN_BITS: u16 = 3;
pub(crate) const RTAX_MTU: u16 = 2;
/// Length of `struct rtnexthop`.
pub(crate) const RTNEXTHOP_LEN: usize = 8;
pub(crate) const RTNH_F_DEAD: u8 = 1;
pub(crate) const RTNH_F_LINKDOWN: u8 = 16;
pub(crate) const RTN_UNICAST: u8 = 1;
pub(crate) const RTN_LOCAL: u8 = 2;
pub(crate) const RTN_BROADCAST: u8 = 3;
pub(crate) const RTN_ANYCAST: u8 = 4;
pub(crate) const RTN_MULTICAST: u8 = 5;
pub(crate) const RTN_BLACKHOLE: u8 = 6;
pub(crate) const RTN_UNREACHABLE: u8 = 7;
pub(crate) const RTN_PROHIBIT: u8 = 8;
pub(crate) const RTN_THROW: u8 = 9;

/// Length of `struct fib_rule_hdr`.
pub(crate) const FIB_RULE_HDR_LEN: usize = 12;
pub(crate) const FIB_RULE_INVERT: u32 = 0x2;
pub(crate) const FRA_DST: u16 = 1;
pub(crate) const FRA_SRC: u16 = 2;
pub(crate) const FRA_IIFNAME: u16 = 3;
pub(crate) const FRA_GOTO: u16 = 4;
pub(crate) const FRA_PRIORITY: u16 = 6;
pub(crate) const FRA_FWMARK: u16 = 10;
pub(crate) const FRA_TUN_ID: u16 = 12;
pub(crate) const FRA_SUPPRESS_IFGROUP: u16 = 13;
pub(crate) const FRA_SUPPRESS_PREFIXLEN: u16 = 14;
pub(crate) const FRA_TABLE: u16 = 15;
pub(crate) const FRA_FWMASK: u16 = 16;
pub(crate) const FRA_OIFNAME: u16 = 17;
pub(crate) const FRA_PAD: u16 = 18;
pub(crate) const FRA_L3MDEV: u16 = 19;
pub(crate) const FRA_PROTOCOL: u16 = 21;
pub(crate) const FRA_IP_PROTO: u16 = 22;
pub(crate) const FRA_SPORT_RANGE: u16 = 23;
pub(crate) const FRA_DPORT_RANGE: u16 = 24;
pub(crate) const FRA_SPORT_MASK: u16 = 28;
pub(crate) const FRA_DPORT_MASK: u16 = 29;
pub(crate) const FRA_FLOW: u16 = 11;
pub(crate) const FR_ACT_TO_TBL: u8 = 1;
pub(crate) const FR_ACT_GOTO: u8 = 2;
pub(crate) const FR_ACT_NOP: u8 = 3;
pub(crate) const FR_ACT_BLACKHOLE: u8 = 6;
pub(crate) const FR_ACT_UNREACHABLE: u8 = 7;
pub(crate) const FR_ACT_PROHIBIT: u8 = 8;

/// Length of `struct ndmsg`.
pub(crate) const NDMSG_LEN: usize = 12;
pub(crate) const NDA_DST: u16 = 1;
pub(crate) const NDA_LLADDR: u16 = 2;
pub(crate) const NDA_PORT: u16 = 6;
pub(crate) const NDA_VNI: u16 = 7;
pub(crate) const NDA_IFINDEX: u16 = 8;
pub(crate) const NDA_NH_ID: u16 = 13;
pub(crate) const NTF_USE: u8 = 0x01;
pub(crate) const NTF_PROXY: u8 = 0x08;
pub(crate) const NTF_ROUTER: u8 = 0x80;
pub(crate) const NUD_INCOMPLETE: u16 = 0x01;
pub(crate) const NUD_REACHABLE: u16 = 0x02;
pub(crate) const NUD_STALE: u16 = 0x04;
pub(crate) const NUD_DELAY: u16 = 0x08;
pub(crate) const NUD_PROBE: u16 = 0x10;
pub(crate) const NUD_FAILED: u16 = 0x20;
pub(crate) const NUD_NOARP: u16 = 0x40;
pub(crate) const NUD_PERMANENT: u16 = 0x80;
