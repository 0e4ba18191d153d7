//! Verdict of the program on a frame.

use core::fmt;

/// A decision, numbered as in `bpf/maps.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u32)]
pub enum Verdict {
    /// To Linux: ARP, or anything else that is not IP.
    PassNotIp,
    /// To Linux: no whole IP header.
    PassMalformed,
    /// To Linux: multicast or broadcast.
    PassMulticast,
    /// To Linux: neighbour discovery (RFC 4861).
    PassNeighbour,
    /// To Linux: IKE.
    PassIke,
    /// To Linux: a NAT keepalive (RFC 3948 §2.3), which it swallows.
    PassKeepalive,
    /// To Linux: a later fragment of UDP to this host, which has no ports.
    PassUdpFragment,
    /// To Linux: ESP or AH to this host with an SPI that is not in the table, or a fragment of one.
    PassUnknownEsp,
    /// To Linux: to this host.
    PassLocal,
    /// To Linux: to another address that no policy protects.
    PassTransit,
    /// To Linux: one packet of a known SA, so that Linux sees that the SA is in use.
    PassSample,
    /// To Linux: to be taken, but the daemon is not alive, and Linux carries on in its place.
    PassNoDaemon,
    /// To Linux: of a VLAN that is not in the table.
    PassVlan,
    /// Taken: ESP, plain or in UDP, or AH, for a known SA.
    TakeEsp,
    /// Taken: ESP or AH with an unknown SPI, because the configuration says so.
    TakeUnknownEsp,
    /// Taken: a fragment of ESP or AH to this host, to be put together.
    TakeEspFragment,
    /// Taken: a fragment of UDP to this host, which may be of ESP.
    TakeUdpFragment,
    /// Taken: an ICMP error to this host that says that ESP was too big, or that is about a packet with segments.
    TakeTooBig,
    /// Taken: cleartext to a protected address of this host.
    TakeLocal,
    /// Taken: to another, protected address.
    TakeTransit,
    /// Taken: of a known flow, whose addresses are translated.
    TakeFlow,
    /// Passed to Linux although to be taken: the frame's queue has no AF_XDP socket. Counted in
    /// addition to one of the `Take` verdicts.
    NoSocket,
    /// Dropped: to be taken, but in several buffers. Counted instead of a `Take` verdict.
    DropTooLong,
}

impl Verdict {
    /// All, in the order of their numbers.
    pub const ALL: [Self; 23] = [
        Self::PassNotIp,
        Self::PassMalformed,
        Self::PassMulticast,
        Self::PassNeighbour,
        Self::PassIke,
        Self::PassKeepalive,
        Self::PassUdpFragment,
        Self::PassUnknownEsp,
        Self::PassLocal,
        Self::PassTransit,
        Self::PassSample,
        Self::PassNoDaemon,
        Self::PassVlan,
        Self::TakeEsp,
        Self::TakeUnknownEsp,
        Self::TakeEspFragment,
        Self::TakeUdpFragment,
        Self::TakeTooBig,
        Self::TakeLocal,
        Self::TakeTransit,
        Self::TakeFlow,
        Self::NoSocket,
        Self::DropTooLong,
    ];

    /// The counter's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::PassNotIp => "pass_not_ip",
            Self::PassMalformed => "pass_malformed",
            Self::PassMulticast => "pass_multicast",
            Self::PassNeighbour => "pass_neighbour",
            Self::PassIke => "pass_ike",
            Self::PassKeepalive => "pass_keepalive",
            Self::PassUdpFragment => "pass_udp_fragment",
            Self::PassUnknownEsp => "pass_unknown_esp",
            Self::PassLocal => "pass_local",
            Self::PassTransit => "pass_transit",
            Self::PassSample => "pass_sample",
            Self::PassNoDaemon => "pass_no_daemon",
            Self::PassVlan => "pass_vlan",
            Self::TakeEsp => "take_esp",
            Self::TakeUnknownEsp => "take_unknown_esp",
            Self::TakeEspFragment => "take_esp_fragment",
            Self::TakeUdpFragment => "take_udp_fragment",
            Self::TakeTooBig => "take_too_big",
            Self::TakeLocal => "take_local",
            Self::TakeTransit => "take_transit",
            Self::TakeFlow => "take_flow",
            Self::NoSocket => "no_socket",
            Self::DropTooLong => "drop_too_long",
        }
    }

    /// True if the frame is meant for culvert.
    pub const fn is_taken(self) -> bool {
        matches!(
            self,
            Self::TakeEsp
                | Self::TakeUnknownEsp
                | Self::TakeEspFragment
                | Self::TakeUdpFragment
                | Self::TakeTooBig
                | Self::TakeLocal
                | Self::TakeTransit
                | Self::TakeFlow
        )
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How often each verdict was given, on all CPUs together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    pub(crate) counters: [u64; Verdict::ALL.len()],
}

impl Stats {
    /// One verdict's count.
    pub const fn count(&self, verdict: Verdict) -> u64 {
        self.counters[verdict as usize]
    }

    /// All verdicts with their counts.
    pub fn iter(&self) -> impl Iterator<Item = (Verdict, u64)> {
        Verdict::ALL.into_iter().zip(self.counters)
    }

    /// The number of frames that were left to Linux.
    pub fn passed(&self) -> u64 {
        self.iter()
            .filter(|(verdict, _)| !verdict.is_taken() && !matches!(verdict, Verdict::DropTooLong))
            .map(|(_, count)| count)
            .sum()
    }

    /// The number of frames that the program has seen.
    pub fn frames(&self) -> u64 {
        self.iter()
            .filter(|(verdict, _)| *verdict != Verdict::NoSocket)
            .map(|(_, count)| count)
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_names_and_order_agree() {
        for (number, verdict) in Verdict::ALL.into_iter().enumerate() {
            assert_eq!(verdict as usize, number);
            assert_eq!(verdict.is_taken(), verdict.name().starts_with("take_"), "{verdict}");
        }
    }

    #[test]
    fn numbers_are_those_of_the_program() {
        let source = include_str!("../bpf/maps.h");
        let listed = source.split("enum verdict {").nth(1).and_then(|rest| rest.split('}').next());
        let names: Vec<_> = listed.unwrap_or("").split(',').map(str::trim).collect();
        for (name, verdict) in names.iter().zip(Verdict::ALL) {
            let expected = match verdict {
                Verdict::TakeUnknownEsp => "TAKE_UNKNOWN".to_owned(),
                other => other.name().to_uppercase(),
            };
            assert_eq!(*name, expected);
        }
        assert_eq!(names[Verdict::ALL.len()], "VERDICTS");
    }

    #[test]
    fn a_frame_without_a_socket_is_one_frame() {
        let mut stats = Stats::default();
        stats.counters[Verdict::TakeEsp as usize] = 3;
        stats.counters[Verdict::NoSocket as usize] = 2;
        assert_eq!(stats.frames(), 3);
        assert_eq!(stats.count(Verdict::NoSocket), 2);
    }
}
