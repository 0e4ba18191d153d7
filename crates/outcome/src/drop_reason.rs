//! The one table of drop reasons.

/// Declares the reasons once: the enum, the counter's name, the kernel's name and the text.
macro_rules! drop_reasons {
    ($( $(#[$doc:meta])* $variant:ident, $name:literal, $kernel:expr, $text:literal; )+) => {
        /// Why a packet was dropped.
        ///
        /// Where one of Linux's XFRM statistics (`/proc/net/xfrm_stat`) means the same,
        /// [`DropReason::kernel_name`] gives it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum DropReason { $( $(#[$doc])* #[doc = $text] $variant, )+ }

        impl DropReason {
            /// Every reason, in the order of the table; `ALL[r as usize] == r`.
            pub const ALL: &'static [DropReason] = &[ $( DropReason::$variant, )+ ];

            /// The counter's name, as `culvert drops` and `--json` spell it.
            pub const fn name(self) -> &'static str {
                match self { $( DropReason::$variant => $name, )+ }
            }

            /// The statistic of Linux's XFRM that counts the same event, if there is one.
            pub const fn kernel_name(self) -> Option<&'static str> {
                match self { $( DropReason::$variant => $kernel, )+ }
            }

            /// One sentence for people.
            pub const fn text(self) -> &'static str {
                match self { $( DropReason::$variant => $text, )+ }
            }
        }
    };
}

drop_reasons! {
    // Parsing.
    MalformedEthernet, "malformed-ethernet", None, "The Ethernet frame is shorter than its headers.";
    MalformedIp, "malformed-ip", Some("XfrmInHdrError"), "The IP header is truncated or contradicts itself.";
    MalformedUpper, "malformed-upper", None, "The header above IP is truncated or contradicts itself.";
    BadIpChecksum, "bad-ip-checksum", None, "The IPv4 header checksum is wrong.";
    MalformedEsp, "malformed-esp", Some("XfrmInHdrError"), "The ESP packet is too short, or its length does not fit the cipher.";
    MalformedAh, "malformed-ah", Some("XfrmInHdrError"), "The AH packet is too short, its length does not fit the algorithm, or the headers in front contradict themselves.";
    MalformedIpComp, "malformed-ipcomp", Some("XfrmInHdrError"), "The IPComp packet is shorter than its header.";
    // Fragments that wait for the others of their packet.
    FragmentMalformed, "fragment-malformed", None, "A fragment has no payload, or one that does not end where the next can begin.";
    FragmentDuplicate, "fragment-duplicate", None, "The same fragment waits already.";
    FragmentOverlap, "fragment-overlap", None, "Fragments of the packet overlap or contradict each other (RFC 5722).";
    FragmentLimit, "fragment-limit", None, "Too many fragments wait, of the packet, of its source, or in all.";
    FragmentTimeout, "fragment-timeout", None, "The other fragments of the packet did not come in time.";
    FragmentTooLong, "fragment-too-long", None, "The fragments make a packet for which no buffer is long enough.";
    FragmentEcn, "fragment-ecn", None, "One fragment says CE and another not-ECT (RFC 3168, section 5.3).";
    OtherHost, "other-host", None, "The frame is for another station's Ethernet address.";
    UnexpectedProtocol, "unexpected-protocol", None, "A frame of a kind that the data path does not handle.";
    UnknownVlan, "unknown-vlan", None, "The frame's tags are of no VLAN that Linux has on the port, or there are more than two.";
    ReversePath, "reverse-path", None, "The way back to the source does not lead where the packet came from (rp_filter).";
    MartianSource, "martian-source", None, "The source address is this host's own, or one that no packet on a wire may have.";
    // Inbound.
    InNoState, "in-no-state", Some("XfrmInNoStates"), "No SA has this destination, SPI and protocol.";
    InStateExpired, "in-state-expired", Some("XfrmInStateExpired"), "The SA has reached a hard lifetime limit.";
    InStateMode, "in-state-mode", Some("XfrmInStateModeError"), "The decrypted content does not fit the SA's mode.";
    InEncapMismatch, "in-encap-mismatch", Some("XfrmInStateMismatch"), "UDP encapsulation on the wire and in the SA differ, or the ports do.";
    InReplayOld, "in-replay-old", Some("XfrmInStateSeqError"), "The sequence number is older than the replay window.";
    InReplayDuplicate, "in-replay-duplicate", Some("XfrmInStateSeqError"), "The sequence number was already received.";
    InSequenceZero, "in-sequence-zero", Some("XfrmInStateSeqError"), "Sequence number zero is never sent.";
    InIntegrity, "in-integrity", Some("XfrmInStateProtoError"), "The integrity check value is wrong.";
    InCrypto, "in-crypto", Some("XfrmInStateProtoError"), "The crypto engine failed on a received packet.";
    InDeflate, "in-deflate", Some("XfrmInStateProtoError"), "What IPComp has compressed is no deflate stream, or one that saves nothing.";
    InDeflateTooLong, "in-deflate-too-long", Some("XfrmInStateProtoError"), "What IPComp has compressed is longer than an IP packet, or than any buffer.";
    InDeflateLimit, "in-deflate-limit", Some("XfrmInStateProtoError"), "What IPComp has compressed becomes long, and so has too much of the packets received with it.";
    InPadding, "in-padding", Some("XfrmInStateProtoError"), "The ESP trailer's padding is wrong.";
    InNextHeader, "in-next-header", Some("XfrmInStateProtoError"), "The ESP trailer's next header does not fit the content.";
    InInnerHeader, "in-inner-header", Some("XfrmInHdrError"), "The decrypted packet has a malformed header.";
    InSelector, "in-selector", Some("XfrmInStateMismatch"), "The decrypted packet does not match the SA's selector.";
    InPolicy, "in-policy", Some("XfrmInTmplMismatch"), "No policy allows this content under this SA.";
    InPolicyBlock, "in-policy-block", Some("XfrmInPolBlock"), "A policy blocks the packet.";
    InCleartext, "in-cleartext", Some("XfrmInTmplMismatch"), "Cleartext arrived that a policy wants protected.";
    InMark, "in-mark", None, "The SA marks what it decrypts, and Linux cannot be told the mark.";
    InNoRoom, "in-no-room", Some("XfrmInBufferError"), "The buffer has no room to check the packet's integrity in.";
    InNesting, "in-nesting", Some("XfrmInError"), "The packet is inside of more SAs than a policy can ask for.";
    InDeviceFragment, "in-device-fragment", Some("XfrmInError"), "ESP for a device's SA, or what the device has found in it, came in fragments, which devices drop.";
    InEcn, "in-ecn", None, "The outer header says CE and the inner one not-ECT (RFC 6040).";
    InIptfs, "in-iptfs", Some("XfrmInIptfsError"), "A payload of IP-TFS contradicts itself or the one before it, or holds a packet that no buffer is long enough for.";
    InIptfsLate, "in-iptfs-late", Some("XfrmInIptfsError"), "A payload of IP-TFS came when the reorder window had given it up.";
    InIptfsIncomplete, "in-iptfs-incomplete", Some("XfrmInIptfsError"), "A piece of a packet that IP-TFS carries in several payloads did not come.";
    // GTP-U to an address of applications.
    GtpuMalformed, "gtpu-malformed", None, "A GTP-U message for applications contradicts itself; `culvert stats` counts in which way.";
    GtpuTeid, "gtpu-teid", None, "No application has the TEID of a GTP-U message.";
    ProbeRefused, "probe-refused", None, "A probe of a path that the reflector does not send back, or a reply that measures nothing.";
    BfdRefused, "bfd-refused", None, "A BFD packet between the ends of a session that breaks a rule: its TTL, form, or discriminator; `culvert bfd` counts which.";
    GtpuTooLong, "gtpu-too-long", None, "A GTP-U message is longer than the application's port takes.";
    // Packets in copies.
    CopyDuplicate, "copy-duplicate", None, "A copy of the packet came before: a normal event, as all packets of the flow are sent twice.";
    CopyLate, "copy-late", None, "A copy is so late that nobody knows if another one came.";
    CopyUnknown, "copy-unknown", None, "A copy has a label that this host has not assigned, or too many streams of copies come.";
    CopyMalformed, "copy-malformed", None, "What came to the UDP port of copies is none, and no parity, or has no IP packet inside.";
    ParityMalformed, "parity-malformed", None, "Parity contradicts the packets that it is of: what it recovers is no IP packet of its length.";
    ParityMissing, "parity-missing", None, "More than one packet that parity is of is missing, or none has come by the parity's own SA: it recovers nothing.";
    // SRv6, at segments of this node.
    Srv6Malformed, "srv6-malformed", None, "The headers in front of what a segment is for are truncated or contradict themselves.";
    Srv6SegmentsLeft, "srv6-segments-left", None, "The segments left do not fit the list, or are left at the last segment; an ICMP error went back.";
    Srv6UpperLayer, "srv6-upper-layer", None, "What a segment is for does not follow the headers; an ICMP error went back.";
    Srv6Hmac, "srv6-hmac", None, "The segment routing header has an HMAC, which is not checked here.";
    Srv6Fragment, "srv6-fragment", None, "The packet that a segment would decapsulate is a fragment.";
    Srv6Edge, "srv6-edge", None, "The packet is for a segment, and came in by no interface inside the domain (`srv6.domain`).";
    Srv6NoFrame, "srv6-no-frame", None, "A route puts segments on whole frames, and the packet is too long, or did not come in one.";
    // Overlays.
    OverlayLoop, "overlay-loop", None, "Overlays lead into one another without end, or through more than four.";
    // Outbound.
    OutPolicyBlock, "out-policy-block", Some("XfrmOutPolBlock"), "A policy blocks the packet.";
    OutNoState, "out-no-state", Some("XfrmOutNoStates"), "The policy's SA does not exist yet, and too many packets wait for it.";
    OutStateExpired, "out-state-expired", Some("XfrmOutStateExpired"), "The SA has reached a hard lifetime limit.";
    OutSequenceExhausted, "out-sequence-exhausted", Some("XfrmOutStateSeqError"), "The SA has used its last sequence number.";
    OutLease, "out-lease", None, "The kernel, which owns the SA, has not yet leased further sequence numbers.";
    OutTooBig, "out-too-big", None, "The packet does not fit and must not be fragmented; an ICMP error went back.";
    OutNoRoom, "out-no-room", Some("XfrmOutError"), "The buffer has no room for the headers.";
    OutCrypto, "out-crypto", Some("XfrmOutStateProtoError"), "The crypto engine failed.";
    OutUnsupported, "out-unsupported", Some("XfrmOutPolError"), "The policy protects in a way that culvert cannot do; the packet must not leave in clear.";
    OutNoTunnel, "out-no-tunnel", Some("XfrmOutNoStates"), "No policy protects what is routed to a tunnel interface; an ICMP error went back.";
    OutTunnelMulticast, "out-tunnel-multicast", Some("XfrmOutNoStates"), "A multicast (Linux's own on a new interface, such as MLD) leads to a tunnel interface where no policy protects it.";
    OutMode, "out-mode", Some("XfrmOutStateModeError"), "The packet cannot be carried in the SA's mode.";
    OutIptfsBroken, "out-iptfs-broken", None, "The circuit breaker of the SA's constant rate is open: losses last, or nothing is heard of them.";
    OutNoQueueSpace, "out-no-queue-space", Some("XfrmOutNoQueueSpace"), "Too much waits already for its turn to leave by an SA of IP-TFS mode.";
    OutDeviceMismatch, "out-device-mismatch", Some("XfrmOutError"), "The SA is not in the device that has the policy, or only one of them is in a device.";
    OutDeviceFragment, "out-device-fragment", Some("XfrmOutError"), "The packet is a fragment, or has to be cut, and a device that drops fragments protects it.";
    // Packet offload, both ways.
    DeviceFull, "device-full", None, "The queue of the offload device is full.";
    DeviceLost, "device-lost", None, "The offload device has gone, and the packet with it.";
    // Forwarding.
    TtlExceeded, "ttl-exceeded", None, "The TTL or hop limit ran out; an ICMP error went back.";
    NoRoute, "no-route", None, "No route leads to the destination.";
    RouteProhibited, "route-prohibited", None, "A route of type blackhole, unreachable or prohibit matched.";
    NoPath, "no-path", None, "No path is good enough for the packet, and its `[[steer]]` rule stops it then.";
    SteerCleartext, "steer-cleartext", None, "A `[[steer]]` rule leads the packet to an uplink in clear, and no policy lets it pass in clear.";
    NeighbourFailed, "neighbour-failed", None, "The neighbour did not answer.";
    HoldQueueFull, "hold-queue-full", None, "Too many packets wait for a neighbour.";
    HandOverFull, "hand-over-full", None, "Another worker has to send or protect the packet, and the queue to it is full.";
    HoldTimeout, "hold-timeout", None, "The neighbour or SA that the packet waited for did not come in time.";
    EgressNotPort, "egress-not-port", None, "The route leads to an interface that is not a culvert port.";
    ForwardLoop, "forward-loop", None, "Linux handed over a packet that is for Linux itself: it would go round forever.";
    RateLimit, "rate-limit", None, "A limiter has no tokens for the packet, or drops its colour; `culvert limit show` counts by limiter.";
    LimitQueueFull, "limit-queue-full", None, "Too much waits already for a limit's tokens, or what came later is of a better class.";
    LimitWait, "limit-wait", None, "The packet has waited for a limit's tokens for five seconds, or its worker went or got another place.";
    NewFlowLimit, "new-flow-limit", None, "The worker does not catch up with the port, and the packet is of a flow that it does not know: few of them are taken then.";
    // Ports.
    TransmitFull, "transmit-full", None, "The transmit ring was full.";
    TransmitDown, "transmit-down", None, "The port is down or gone.";
    LinuxFull, "linux-full", None, "The private interface did not take the packet.";
    NoFrames, "no-frames", None, "No free frame to copy the packet into.";
}

/// Linux's statistics, in the order of `/proc/net/xfrm_stat` (`xfrm_proc.c`, Linux 6.18).
pub const KERNEL_STATISTICS: [&str; 32] = [
    "XfrmInError",
    "XfrmInBufferError",
    "XfrmInHdrError",
    "XfrmInNoStates",
    "XfrmInStateProtoError",
    "XfrmInStateModeError",
    "XfrmInStateSeqError",
    "XfrmInStateExpired",
    "XfrmInStateMismatch",
    "XfrmInStateInvalid",
    "XfrmInTmplMismatch",
    "XfrmInNoPols",
    "XfrmInPolBlock",
    "XfrmInPolError",
    "XfrmOutError",
    "XfrmOutBundleGenError",
    "XfrmOutBundleCheckError",
    "XfrmOutNoStates",
    "XfrmOutStateProtoError",
    "XfrmOutStateModeError",
    "XfrmOutStateSeqError",
    "XfrmOutStateExpired",
    "XfrmOutPolBlock",
    "XfrmOutPolDead",
    "XfrmOutPolError",
    "XfrmFwdHdrError",
    "XfrmOutStateInvalid",
    "XfrmAcquireError",
    "XfrmOutStateDirError",
    "XfrmInStateDirError",
    "XfrmInIptfsError",
    "XfrmOutNoQueueSpace",
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn this_kernels_statistics_are_among_ours_in_one_order() {
        // A kernel without XFRM has none; an older one has fewer.
        let Ok(text) = std::fs::read_to_string("/proc/net/xfrm_stat") else { return };
        let mut ours = KERNEL_STATISTICS.iter();
        for name in text.lines().filter_map(|line| line.split_whitespace().next()) {
            assert!(ours.any(|our| *our == name), "{name}");
        }
    }

    #[test]
    fn names_are_unique_and_indices_agree() {
        let names: HashSet<_> = DropReason::ALL.iter().map(|r| r.name()).collect();
        assert_eq!(names.len(), DropReason::ALL.len());
        for (i, r) in DropReason::ALL.iter().enumerate() {
            assert_eq!(*r as usize, i);
            assert!(r.text().ends_with('.'));
            assert!(r.kernel_name().is_none_or(|name| KERNEL_STATISTICS.contains(&name)));
        }
    }
}
