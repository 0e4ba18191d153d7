//! The fixed structs of `linux/xfrm.h`, as 64-bit kernels lay them out.
//!
//! Numbers are in native byte order unless the type is [`Be16`] or [`Be32`]. Times are wall-clock
//! seconds, limits by time are seconds.

use netlink::{Be16, Be32, Pad, layout};

use super::address::Address;

layout! {
    /// `xfrm_selector`: which packets an SA or policy is for.
    SelectorInfo, 56 bytes {
        /// Destination address, in a selector.
        dst: Address,
        /// Source address, in a selector.
        src: Address,
        /// Destination port (ICMP: code).
        dst_port: Be16,
        /// Bits of the destination port that count.
        dst_port_mask: Be16,
        /// Source port (ICMP: type).
        src_port: Be16,
        /// Bits of the source port that count.
        src_port_mask: Be16,
        /// Address family, 0 for unspecified.
        family: u16,
        /// Destination's prefix length in bits.
        dst_prefix_len: u8,
        /// Source's prefix length in bits.
        src_prefix_len: u8,
        /// Upper-layer protocol, 0 for any.
        protocol: u8,
        /// Padding, always zero.
        pad: Pad<3>,
        /// Interface, 0 for any.
        ifindex: i32,
        /// User id, which is ignored.
        user: u32,
    }

    /// `xfrm_id`: destination, SPI and protocol.
    Id, 24 bytes {
        /// Destination address of the SA.
        dst: Address,
        /// SPI, network byte order.
        spi: Be32,
        /// IP protocol of the SA.
        protocol: u8,
        /// Padding, always zero.
        pad: Pad<3>,
    }

    /// `xfrm_lifetime_cfg`: limits; volumes are unsigned with `u64::MAX` for none, times signed
    /// in effect with 0 for none.
    LifetimeConfig, 64 bytes {
        /// Soft limit in bytes.
        soft_bytes: u64,
        /// Hard limit in bytes.
        hard_bytes: u64,
        /// Soft limit in packets.
        soft_packets: u64,
        /// Hard limit in packets.
        hard_packets: u64,
        /// Soft limit in seconds since it was added.
        soft_add_s: u64,
        /// Hard limit in seconds since it was added.
        hard_add_s: u64,
        /// Soft limit in seconds since its first use.
        soft_use_s: u64,
        /// Hard limit in seconds since its first use.
        hard_use_s: u64,
    }

    /// `xfrm_lifetime_cur`: what has been used of the limits.
    LifetimeCurrent, 32 bytes {
        /// Bytes carried so far.
        bytes: u64,
        /// Packets carried so far.
        packets: u64,
        /// When it was added, wall-clock second.
        add_time_s: u64,
        /// First use of an SA, last use of a policy, wall-clock second; 0 for never.
        use_time_s: u64,
    }

    /// `xfrm_stats`: drops of an inbound SA.
    Statistics, 12 bytes {
        /// Packets older than the window.
        replay_window: u32,
        /// Packets dropped as replayed.
        replay: u32,
        /// Packets dropped for a wrong ICV.
        integrity_failed: u32,
    }

    /// `xfrm_usersa_info`: an SA without its attributes.
    SaInfo, 224 bytes {
        /// The SA's own selector.
        selector: SelectorInfo,
        /// Identity of the SA.
        id: Id,
        /// Source address of the outer header.
        src: Address,
        /// Limits by time, bytes and packets.
        limits: LifetimeConfig,
        /// Used so far.
        current: LifetimeCurrent,
        /// Counts of dropped packets.
        statistics: Statistics,
        /// The acquire that it answers, 0 for none.
        seq: u32,
        /// Ties to templates.
        reqid: u32,
        /// Address family of source and destination.
        family: u16,
        /// Mode of the SA (`XFRM_MODE_*`).
        mode: u8,
        /// Replay window in packets, at most 32 (larger ones stand in an attribute).
        replay_window: u8,
        /// Flags of the SA (`XFRM_STATE_*`).
        flags: u8,
        /// Padding, always zero.
        pad: Pad<7>,
    }

    /// `xfrm_usersa_id`: names an SA.
    SaId, 24 bytes {
        /// Destination address of the SA.
        dst: Address,
        /// SPI, network byte order.
        spi: Be32,
        /// Address family of the SA.
        family: u16,
        /// IP protocol of the SA.
        protocol: u8,
        /// Padding, always zero.
        pad: Pad<1>,
    }

    /// `xfrm_userspi_info`: asks for an SPI.
    SpiInfo, 232 bytes {
        /// Addresses, protocol, mode, reqid of the larval SA.
        info: SaInfo,
        /// Smallest SPI, host byte order.
        min: u32,
        /// Largest SPI, host byte order.
        max: u32,
    }

    /// `xfrm_aevent_id`: names an SA in a replay or lifetime event.
    AeventId, 48 bytes {
        /// Identity of the SA.
        sa: SaId,
        /// Source address of the SA.
        src: Address,
        /// Reasons and settings (`XFRM_AE_*`).
        flags: u32,
        /// Number that ties the SA to templates.
        reqid: u32,
    }

    /// Request to delete all SAs of a protocol (`xfrm_usersa_flush`).
    SaFlush, 4 bytes {
        /// IP protocol, 0 for all.
        protocol: u8,
        /// Padding to netlink's alignment.
        pad: Pad<3>,
    }

    /// Event of an SA's limit (`xfrm_user_expire`).
    Expire, 232 bytes {
        /// State of the SA.
        sa: SaInfo,
        /// 1 for hard.
        hard: u8,
        /// Padding, always zero.
        pad: Pad<7>,
    }

    /// `xfrm_user_mapping`: the peer's address or port behind NAT changed.
    Mapping, 64 bytes {
        /// Identity of the SA.
        id: SaId,
        /// Number that ties the SA to templates.
        reqid: u32,
        /// Peer's address as the SA has it.
        old_src: Address,
        /// Peer's address as seen.
        new_src: Address,
        /// Peer's UDP port as the SA has it.
        old_src_port: Be16,
        /// Peer's UDP port as seen.
        new_src_port: Be16,
    }

    /// `xfrm_userpolicy_info`: a policy without its attributes.
    PolicyInfo, 168 bytes {
        /// Selector of the packets.
        selector: SelectorInfo,
        /// Limits by time, bytes and packets.
        limits: LifetimeConfig,
        /// Used so far.
        current: LifetimeCurrent,
        /// Lower comes first.
        priority: u32,
        /// The database's number for it.
        index: u32,
        /// `XFRM_POLICY_IN`, `OUT`, `FWD`.
        dir: u8,
        /// Action (`XFRM_POLICY_ALLOW`, `BLOCK`).
        action: u8,
        /// Flags (`XFRM_POLICY_LOCALOK`, `ICMP`).
        flags: u8,
        /// Sharing of SAs (`XFRM_SHARE_*`).
        share: u8,
        /// Padding, always zero.
        pad: Pad<4>,
    }

    /// `xfrm_userpolicy_id`: names a policy, by index or by selector.
    PolicyId, 64 bytes {
        /// Selector, where the index is 0.
        selector: SelectorInfo,
        /// Index of the policy.
        index: u32,
        /// Direction of the policy (`XFRM_POLICY_IN`, `OUT`, `FWD`).
        dir: u8,
        /// Padding, always zero.
        pad: Pad<3>,
    }

    /// Event of a policy's limit (`xfrm_user_polexpire`).
    PolicyExpire, 176 bytes {
        /// State of the policy.
        policy: PolicyInfo,
        /// 1 for hard.
        hard: u8,
        /// Padding, always zero.
        pad: Pad<7>,
    }

    /// `xfrm_user_tmpl`: one of a policy's templates.
    Template, 64 bytes {
        /// Destination, SPI, protocol.
        id: Id,
        /// Address family of source and destination.
        family: u16,
        /// Padding, always zero.
        pad: Pad<2>,
        /// Source address of the SA's outer header.
        src: Address,
        /// Ties to SAs.
        reqid: u32,
        /// Mode of the SA (`XFRM_MODE_*`).
        mode: u8,
        /// Sharing of SAs (`XFRM_SHARE_*`).
        share: u8,
        /// 1 for `level use`.
        optional: u8,
        /// Padding, always zero.
        pad2: Pad<1>,
        /// Authentication algorithms allowed.
        aalgos: u32,
        /// Encryption algorithms allowed.
        ealgos: u32,
        /// Compression algorithms allowed.
        calgos: u32,
    }

    /// `xfrm_user_migrate`: the old and the new ends of an SA or a template.
    MigrateEntry, 76 bytes {
        /// The destination before.
        old_dst: Address,
        /// The source before.
        old_src: Address,
        /// The destination from now on.
        new_dst: Address,
        /// The source from now on.
        new_src: Address,
        /// IP protocol of the SA.
        protocol: u8,
        /// Mode of the SA (`XFRM_MODE_*`).
        mode: u8,
        /// Padding, always zero.
        pad: Pad<2>,
        /// Ties to SAs, 0 for any.
        reqid: u32,
        /// Family of the ends before.
        old_family: u16,
        /// Family of the ends from now on.
        new_family: u16,
    }

    /// `xfrm_user_migrate_state`: where one SA moves.
    MigrateState, 132 bytes {
        /// Identity of the SA.
        id: SaId,
        /// The destination from now on.
        new_dst: Address,
        /// The source from now on.
        new_src: Address,
        /// The mark that the SA is found by.
        old_mark: MarkAttribute,
        /// The selector from now on.
        selector: SelectorInfo,
        /// Ties to policies from now on.
        reqid: u32,
        /// Flags of the request (`XFRM_MIGRATE_STATE_*`).
        flags: u32,
        /// Family of the ends from now on.
        new_family: u16,
        /// Must be zero.
        reserved: u16,
    }

    /// `xfrm_user_acquire`: asks the IKE daemon for an SA.
    Acquire, 280 bytes {
        /// The SA wanted.
        id: Id,
        /// Source address of the SA.
        src: Address,
        /// The packet's flow.
        selector: SelectorInfo,
        /// The policy that asks.
        policy: PolicyInfo,
        /// From the template.
        aalgos: u32,
        /// From the template.
        ealgos: u32,
        /// From the template.
        calgos: u32,
        /// The answer's `seq`.
        seq: u32,
    }

    /// `xfrm_encap_tmpl`: UDP encapsulation.
    Encap, 24 bytes {
        /// `UDP_ENCAP_ESPINUDP` is 2.
        kind: u16,
        /// Source port, network byte order.
        src_port: Be16,
        /// Destination port, network byte order.
        dst_port: Be16,
        /// Padding, always zero.
        pad: Pad<2>,
        /// Original address (`encap_oa`).
        original: Address,
    }

    /// Mark and mask (`xfrm_mark`).
    MarkAttribute, 8 bytes {
        /// Value under the mask.
        value: u32,
        /// Bits that count.
        mask: u32,
    }

    /// `xfrm_replay_state`: replay state with a window of at most 32 packets.
    ReplayState, 12 bytes {
        /// Last number sent.
        oseq: u32,
        /// Highest number received.
        seq: u32,
        /// Bit 0 is `seq`, bit 1 the one before it.
        bitmap: u32,
    }

    /// `xfrm_address_filter`: narrows a dump of SAs.
    AddressFilter, 36 bytes {
        /// Prefix of source addresses.
        src: Address,
        /// Prefix of destination addresses.
        dst: Address,
        /// Address family, 0 for any.
        family: u16,
        /// Source's prefix length in bits.
        src_prefix_len: u8,
        /// Destination's prefix length in bits.
        dst_prefix_len: u8,
    }

    /// Offload request (`xfrm_user_offload`).
    Offload, 8 bytes {
        /// Index of the device's interface.
        ifindex: i32,
        /// Flags of the request (`XFRM_OFFLOAD_*`).
        flags: u8,
        /// Padding, always zero.
        pad: Pad<3>,
    }

    /// `xfrm_userpolicy_default`: what happens to packets that no policy matches.
    PolicyDefault, 3 bytes {
        /// Default action for inbound packets.
        input: u8,
        /// Default action for forwarded packets.
        forward: u8,
        /// Default action for outbound packets.
        output: u8,
    }

    /// `xfrmu_sadhinfo`: the SAD's hash table.
    SadHashInfo, 8 bytes {
        /// Buckets of the hash table now.
        buckets: u32,
        /// Buckets of the hash table at most.
        max_buckets: u32,
    }

    /// `xfrmu_spdinfo`: how many policies.
    SpdInfo, 24 bytes {
        /// Count of inbound policies.
        input: u32,
        /// Count of outbound policies.
        output: u32,
        /// Count of forward policies.
        forward: u32,
        /// Inbound, of sockets.
        socket_input: u32,
        /// Outbound, of sockets.
        socket_output: u32,
        /// Forwarded, of sockets.
        socket_forward: u32,
    }

    /// `xfrmu_spdhinfo`: the SPD's hash table.
    SpdHashInfo, 8 bytes {
        /// Buckets of the hash table now.
        buckets: u32,
        /// Buckets of the hash table at most.
        max_buckets: u32,
    }

    /// `xfrmu_spdhthresh`: prefix lengths from which on policies are hashed.
    SpdThreshold, 2 bytes {
        /// Local prefix length in bits.
        local_bits: u8,
        /// Remote prefix length in bits.
        remote_bits: u8,
    }
}

impl MarkAttribute {
    /// The mark without the bits of its value that do not count. Linux cuts them off when it stores an SA or a
    /// policy (6.15, and what was backported to older ones); before, such a mark matched no packet.
    #[must_use]
    pub const fn cut(self) -> MarkAttribute {
        MarkAttribute { value: self.value & self.mask, mask: self.mask }
    }
}

impl LifetimeConfig {
    /// A lifetime without limits.
    pub fn unlimited() -> LifetimeConfig {
        let all = constant::INFINITY;
        LifetimeConfig {
            soft_bytes: all,
            hard_bytes: all,
            soft_packets: all,
            hard_packets: all,
            ..LifetimeConfig::default()
        }
    }
}

/// Numbers of `linux/xfrm.h` and its neighbours.
pub mod constant {
    /// IPv6 routing header.
    pub const IPPROTO_ROUTING: u8 = 43;
    /// IP protocol ESP (RFC 4303).
    pub const IPPROTO_ESP: u8 = 50;
    /// IP protocol AH (RFC 4302).
    pub const IPPROTO_AH: u8 = 51;
    /// IPv6 destination options.
    pub const IPPROTO_DSTOPTS: u8 = 60;
    /// IP protocol IPComp (RFC 3173).
    pub const IPPROTO_COMP: u8 = 108;
    /// IP in IPv4.
    pub const IPPROTO_IPIP: u8 = 4;
    /// IP in IPv6.
    pub const IPPROTO_IPV6: u8 = 41;
    /// Any of ESP, AH and IPComp.
    pub const IPSEC_PROTO_ANY: u8 = 255;

    /// SA of transport mode.
    pub const MODE_TRANSPORT: u8 = 0;
    /// SA of tunnel mode.
    pub const MODE_TUNNEL: u8 = 1;
    /// Route optimisation (Mobile IPv6).
    pub const MODE_ROUTE_OPTIMIZATION: u8 = 2;
    /// Bound end-to-end tunnel.
    pub const MODE_BEET: u8 = 4;
    /// IP-TFS (RFC 9347).
    pub const MODE_IPTFS: u8 = 5;
    /// One more than the last mode.
    pub const MODE_MAX: u8 = 6;

    /// Do not handle ECN.
    pub const STATE_NOECN: u8 = 1;
    /// Copy DSCP inwards.
    pub const STATE_DECAP_DSCP: u8 = 2;
    /// No path MTU discovery.
    pub const STATE_NOPMTUDISC: u8 = 4;
    /// SA of Mobile IPv6.
    pub const STATE_WILDRECV: u8 = 8;
    /// ICMP errors too.
    pub const STATE_ICMP: u8 = 16;
    /// The selector's family is open.
    pub const STATE_AF_UNSPEC: u8 = 32;
    /// Extended sequence numbers.
    pub const STATE_ALIGN4: u8 = 64;
    /// Extended sequence numbers.
    pub const STATE_ESN: u8 = 128;

    /// Do not copy DSCP outwards (extra flag).
    pub const XFLAG_DONT_ENCAP_DSCP: u32 = 1;
    /// Outbound numbers may wrap (extra flag).
    pub const XFLAG_OSEQ_MAY_WRAP: u32 = 2;

    /// The last direction that is not a socket's (`XFRM_POLICY_FWD`).
    pub const POLICY_DIR_LAST: u8 = 2;

    /// Let pass, protected by the templates.
    pub const POLICY_ALLOW: u8 = 0;
    /// Action of a policy: drop.
    pub const POLICY_BLOCK: u8 = 1;

    /// ICMP errors about what the policy protects go by it, too.
    pub const POLICY_ICMP: u8 = 2;
    /// Each CPU is to have an SA of its own (RFC 9611).
    pub const POLICY_CPU_ACQUIRE: u8 = 4;

    /// Default unset in a request.
    pub const DEFAULT_UNSPEC: u8 = 0;
    /// Default action: drop.
    pub const DEFAULT_BLOCK: u8 = 1;
    /// Default: let pass.
    pub const DEFAULT_ACCEPT: u8 = 2;

    /// Replay state asked for.
    pub const AE_RVAL: u32 = 2;
    /// Lifetime asked for.
    pub const AE_LVAL: u32 = 4;
    /// Replay threshold asked for.
    pub const AE_RTHR: u32 = 1;
    /// Expiry timer threshold asked for.
    pub const AE_ETHR: u32 = 8;
    /// The cause is a sequence number that moved.
    pub const AE_CR: u32 = 16;
    /// The cause is a timer, after sequence numbers moved.
    pub const AE_CE: u32 = 32;
    /// The cause is an update by the owner.
    pub const AE_CU: u32 = 64;

    /// ESP in UDP (RFC 3948).
    pub const UDP_ENCAP_ESPINUDP: u16 = 2;
    /// IPv6, which Linux ignores.
    pub const OFFLOAD_IPV6: u8 = 1;
    /// Of an inbound SA; else of an outbound one.
    pub const OFFLOAD_INBOUND: u8 = 2;
    /// Offload of whole packets.
    pub const OFFLOAD_PACKET: u8 = 4;

    /// Direction of an SA: inbound only.
    pub const SA_DIR_IN: u8 = 1;
    /// Direction of an SA: outbound only.
    pub const SA_DIR_OUT: u8 = 2;

    /// A migration leaves offload behind.
    pub const MIGRATE_CLEAR_OFFLOAD: u32 = 1;
    /// A migration has the selector of an SA between hosts follow its ends.
    pub const MIGRATE_UPDATE_HOST_SELECTOR: u32 = 2;

    /// No limit by volume.
    pub const INFINITY: u64 = u64::MAX;
    /// Most templates of a policy.
    pub const MAX_DEPTH: usize = 6;
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::codec::{Field, TooShort};

    fn round_trip<T: Field + PartialEq + core::fmt::Debug>(noise: &[u8]) {
        let value = T::decode(noise).unwrap();
        let bytes = value.to_bytes();
        assert_eq!(bytes.len(), T::LEN);
        assert_eq!(T::decode(&bytes).unwrap(), value);
        assert_eq!(T::decode(&bytes[..T::LEN - 1]), Err(TooShort));
    }

    proptest! {
        #[test]
        fn all_round_trip(noise in proptest::collection::vec(any::<u8>(), 300)) {
            round_trip::<SelectorInfo>(&noise);
            round_trip::<SaInfo>(&noise);
            round_trip::<SaId>(&noise);
            round_trip::<SpiInfo>(&noise);
            round_trip::<AeventId>(&noise);
            round_trip::<SaFlush>(&noise);
            round_trip::<Expire>(&noise);
            round_trip::<Mapping>(&noise);
            round_trip::<PolicyInfo>(&noise);
            round_trip::<PolicyId>(&noise);
            round_trip::<PolicyExpire>(&noise);
            round_trip::<Template>(&noise);
            round_trip::<MigrateEntry>(&noise);
            round_trip::<MigrateState>(&noise);
            round_trip::<Acquire>(&noise);
            round_trip::<Encap>(&noise);
            round_trip::<ReplayState>(&noise);
            round_trip::<AddressFilter>(&noise);
            round_trip::<Offload>(&noise);
            round_trip::<PolicyDefault>(&noise);
            round_trip::<SpdInfo>(&noise);
        }
    }

    #[test]
    fn fields_stand_where_the_header_has_them() {
        let noise: Vec<u8> = (0..=255).collect();
        let sa = SaInfo::decode(&noise).unwrap();
        assert_eq!(sa.selector.family, u16::from_ne_bytes([40, 41]));
        assert_eq!(sa.id.spi.0, u32::from_be_bytes([72, 73, 74, 75]));
        assert_eq!(sa.limits.soft_bytes, u64::from_ne_bytes([96, 97, 98, 99, 100, 101, 102, 103]));
        assert_eq!(sa.seq, u32::from_ne_bytes([204, 205, 206, 207]));
        assert_eq!((sa.mode, sa.replay_window, sa.flags), (214, 215, 216));
        let t = Template::decode(&noise).unwrap();
        assert_eq!((t.mode, t.share, t.optional), (48, 49, 50));
        assert_eq!(t.src.0[0], 28);
        let p = PolicyInfo::decode(&noise).unwrap();
        assert_eq!((p.dir, p.action, p.flags, p.share), (160, 161, 162, 163));
        let a = Acquire::decode(&[0; 280]).unwrap();
        assert_eq!(a.seq, 0);
    }
}
