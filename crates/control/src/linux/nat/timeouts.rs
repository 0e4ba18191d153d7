//! How long Linux keeps connections without packets (`net.netfilter.nf_conntrack_*`).

use std::fs;

use conntrack::Status;
use wire::protocol;

/// Timeouts in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    udp: u32,
    udp_stream: u32,
    tcp_established: u32,
    icmp: u32,
    icmpv6: u32,
}

impl Timeouts {
    /// As they are now; Linux's own where one cannot be read.
    pub fn read() -> Timeouts {
        let of = |name: &str, default: u32| {
            let text = fs::read_to_string(format!("/proc/sys/net/netfilter/nf_conntrack_{name}"));
            text.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(default)
        };
        Timeouts {
            udp: of("udp_timeout", 30),
            udp_stream: of("udp_timeout_stream", 120),
            tcp_established: of("tcp_timeout_established", 432_000),
            icmp: of("icmp_timeout", 30),
            icmpv6: of("icmpv6_timeout", 30),
        }
    }

    /// How long a connection has without packets from when Linux last saw one, or was told of one.
    ///
    /// Linux gives UDP the time of a stream only once it has been answered for two seconds, which is when it is assured. A
    /// connection whose packets go past Linux before then has the short time left.
    pub fn running(&self, protocol: u8, status: Status) -> u32 {
        match protocol {
            protocol::UDP if !status.has(Status::ASSURED) => self.udp,
            _ => self.of(protocol, status),
        }
    }

    /// Timeout of a connection with packets.
    pub fn of(&self, protocol: u8, status: Status) -> u32 {
        match protocol {
            protocol::TCP => self.tcp_established,
            protocol::UDP if status.has(Status::SEEN_REPLY) => self.udp_stream,
            protocol::UDP => self.udp,
            protocol::ICMP => self.icmp,
            _ => self.icmpv6,
        }
    }

    /// The shortest timeout.
    pub fn shortest_s(&self) -> u32 {
        let all = [self.udp, self.udp_stream, self.tcp_established, self.icmp, self.icmpv6];
        all.into_iter().min().unwrap_or(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_its_own() {
        let all = Timeouts { udp: 30, udp_stream: 120, tcp_established: 9, icmp: 31, icmpv6: 32 };
        let answered = Status::SEEN_REPLY;
        let of =
            [(6, answered), (17, answered), (17, Status::default()), (1, answered), (58, answered)];
        assert_eq!(of.map(|(protocol, status)| all.of(protocol, status)), [9, 120, 30, 31, 32]);
        assert_eq!(all.shortest_s(), 9);
        let assured = answered.with(Status::ASSURED);
        let running = [(17, Status::default()), (17, answered), (17, assured), (6, assured)];
        assert_eq!(
            running.map(|(protocol, status)| all.running(protocol, status)),
            [30, 30, 120, 9]
        );
    }
}
