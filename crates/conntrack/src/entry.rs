//! A connection as Linux describes it, and the conditions under which the fast path may carry it.

use wire::protocol;

use crate::tuple::Tuple;

/// A connection as Linux tracks it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Packets of its first direction, before any translation.
    pub original: Tuple,
    /// Answers, before any translation.
    pub reply: Tuple,
    /// State of the connection in Linux.
    pub status: Status,
    /// TCP's state, where it was told.
    pub tcp: Option<TcpState>,
    /// Tells it from a later one with the same tuples.
    pub id: u32,
    /// Zone of the connection (`CTA_ZONE`).
    pub zone: u16,
}

/// `IPS_*` of `nf_conntrack_common.h`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Status(pub u32);

impl Status {
    /// Answers were seen.
    pub const SEEN_REPLY: Status = Status(1 << 1);
    /// Set if others are dropped first where room is scarce.
    pub const ASSURED: Status = Status(1 << 2);
    /// Set once its first packet has left this host.
    pub const CONFIRMED: Status = Status(1 << 3);
    /// Sequence numbers are adjusted, as a helper has changed lengths.
    const SEQ_ADJUST: Status = Status(1 << 6);
    /// Set while it is being removed.
    const DYING: Status = Status(1 << 9);
    /// Set for a template, which is no connection.
    const TEMPLATE: Status = Status(1 << 11);
    /// A helper reads its packets.
    const HELPER: Status = Status(1 << 13);
    /// One of Linux's own flow tables carries it.
    const OFFLOAD: Status = Status(1 << 14);
    const HW_OFFLOAD: Status = Status(1 << 15);

    /// Of these Linux has to see every packet, or somebody else does.
    const LINUXS: Status = Status(
        Self::SEQ_ADJUST.0
            | Self::DYING.0
            | Self::TEMPLATE.0
            | Self::HELPER.0
            | Self::OFFLOAD.0
            | Self::HW_OFFLOAD.0,
    );

    /// True if all of these bits are set.
    pub const fn has(self, what: Status) -> bool {
        self.0 & what.0 == what.0
    }

    /// With these set.
    #[must_use]
    pub const fn with(self, what: Status) -> Status {
        Status(self.0 | what.0)
    }
}

/// State of a TCP connection (`TCP_CONNTRACK_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpState(pub u8);

impl TcpState {
    /// Both sides have agreed, and neither has ended.
    pub const ESTABLISHED: TcpState = TcpState(3);
}

impl Entry {
    /// Tells for each direction, original and reply, if its packets may go past Linux.
    ///
    /// Of TCP both or none: Linux follows how a connection begins and ends. Of what has no state the answers go
    /// past Linux once it has seen one, which makes the connection one that is answered.
    pub fn carried(&self) -> (bool, bool) {
        let status = self.status;
        let is_known = status.has(Status::CONFIRMED) && status.0 & Status::LINUXS.0 == 0;
        if !is_known || self.zone != 0 {
            return (false, false);
        }
        match self.original.protocol {
            protocol::TCP => {
                let is_open = status.has(Status::ASSURED.with(Status::SEEN_REPLY))
                    && self.tcp == Some(TcpState::ESTABLISHED);
                (is_open, is_open)
            }
            protocol::UDP | protocol::ICMP | protocol::ICMPV6 => {
                (true, status.has(Status::SEEN_REPLY))
            }
            _ => (false, false),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tcp_is_carried_between_its_beginning_and_its_end() {
        let tuple = |protocol| Tuple {
            src: [10, 0, 0, 1].into(),
            dst: [10, 0, 0, 2].into(),
            protocol,
            src_port: 1,
            dst_port: 2,
        };
        let entry = |protocol, status, tcp: Option<u8>| Entry {
            original: tuple(protocol),
            reply: tuple(protocol),
            status: Status(status),
            tcp: tcp.map(TcpState),
            id: 1,
            zone: 0,
        };
        let open = Status::CONFIRMED.with(Status::ASSURED).with(Status::SEEN_REPLY).0;
        for state in 0..10 {
            let is_open = state == 3;
            assert_eq!(entry(6, open, Some(state)).carried(), (is_open, is_open), "{state}");
        }
        assert_eq!(entry(6, open & !Status::ASSURED.0, Some(3)).carried(), (false, false));
        assert_eq!(entry(17, Status::CONFIRMED.0, None).carried(), (true, false));
        assert_eq!(entry(17, open, None).carried(), (true, true));
        assert_eq!(entry(17, Status::SEEN_REPLY.0, None).carried(), (false, false));
        for bit in [6, 9, 11, 13, 14, 15] {
            assert_eq!(entry(17, open | 1 << bit, None).carried(), (false, false), "{bit}");
        }
        assert_eq!(Entry { zone: 7, ..entry(17, open, None) }.carried(), (false, false));
        assert_eq!(entry(47, open, None).carried(), (false, false));
    }
}
