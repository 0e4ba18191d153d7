//! Connections as `culvert nat` tells them.

use conntrack::{Binding, Direction, Rewrite, Statistics, Tuple};
use report::{Nat as Report, NatConnection, NatEnds, NatTable};
use wire::Headers;

use super::Nat;

impl Nat {
    /// True if ports take a packet as one of a connection that is translated; of TCP and UDP.
    pub fn takes(&self, h: &Headers) -> bool {
        let Headers { src, dst, protocol, src_port, dst_port, .. } = *h;
        let found = self.bindings.find(&Tuple { src, dst, protocol, src_port, dst_port });
        found.is_some_and(|found| found.binding.is_live() && found.binding.is_translated())
    }

    /// The connections known; so many at most, and those that are not translated where `all` are
    /// asked for.
    pub fn report(&self, most: usize, all: bool) -> Report {
        let mut report = Report {
            learns: true,
            rules: self.rules.families(),
            directions: self.bindings.len(),
            refreshed: self.counters.refreshed,
            refused: self.counters.refused,
            overruns: self.counters.overruns,
            table: super::statistics().map(table_row),
            ..Report::default()
        };
        self.bindings.each(0, 1, |binding| {
            if (all || binding.is_translated()) && report.connections.len() < most {
                report.connections.push(row(binding));
            } else {
                report.others += 1;
            }
        });
        report
    }
}

fn table_row(linux: Statistics) -> NatTable {
    let Statistics { entries, most, insert_failed, dropped, early_dropped } = linux;
    NatTable { entries, most, insert_failed, dropped, early_dropped }
}

fn row(binding: &Binding) -> NatConnection {
    let original = *binding.tuple(Direction::Original);
    let to = binding.rewrite(Direction::Original);
    let is_translated = to.is_some();
    let as_it_is = Rewrite {
        src: original.src,
        dst: original.dst,
        src_port: original.src_port,
        dst_port: original.dst_port,
    };
    let to = to.unwrap_or(as_it_is);
    let directions = [Direction::Original, Direction::Reply];
    let carried = directions.map(|direction| binding.carried(direction));
    NatConnection {
        id: binding.entry.id,
        protocol: original.protocol,
        original: ends(&as_it_is, original.is_icmp()),
        translated: ends(&to, original.is_icmp()),
        is_translated,
        both: binding.carries_both(),
        packets: carried.map(|(packets, _)| packets),
        bytes: carried.map(|(_, bytes)| bytes),
    }
}

/// The second port of an ICMP query is its type.
const fn ends(to: &Rewrite, is_icmp: bool) -> NatEnds {
    let Rewrite { src, dst, src_port, dst_port } = *to;
    NatEnds { src, src_port, dst, dst_port: if is_icmp { 0 } else { dst_port } }
}
