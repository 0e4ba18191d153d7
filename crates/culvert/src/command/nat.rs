//! `culvert nat`: connections that Linux tracks, and what the fast path has carried of them.

use std::net::{IpAddr, SocketAddr};

use report::client::{ClientError, ask, ask_json};
use report::protocol;
use report::units::si;
use report::{Nat, NatEnds, NatTable, Request};

use crate::cli::NatArgs;
use crate::table::table;

/// The table, or JSON.
pub fn nat(name: &str, json: bool, args: &NatArgs) -> Result<String, ClientError> {
    let request = Request::Nat { most: args.max, all: args.all };
    if json { ask_json(name, request) } else { ask(name, request).map(|seen| text(&seen)) }
}

fn text(seen: &Nat) -> String {
    if !seen.learns {
        return "NAT is not learnt: learn = \"conntrack\" in [nat], and a restart".into();
    }
    let head = ["PROTO", "FROM", "TO", "BECOMES", "", "WAY", ">PACKETS", ">ANSWERS", ">BYTES"];
    let rows = seen.connections.iter().map(|c| {
        let end = |addr: IpAddr, port: u16| SocketAddr::new(addr, port).to_string();
        let ends = |ends: &NatEnds| [end(ends.src, ends.src_port), end(ends.dst, ends.dst_port)];
        let [from, to] = ends(&c.original);
        let [new_from, new_to] = match c.is_translated {
            true => ends(&c.translated),
            false => ["the same".into(), String::new()],
        };
        let way = if c.both { "both" } else { "there" };
        let [packets, answers] = c.packets;
        vec![
            protocol::name(c.protocol),
            from,
            to,
            new_from,
            new_to,
            way.into(),
            si(packets),
            si(answers),
            si(c.bytes.iter().sum()),
        ]
    });
    let families = ["IPv4", "IPv6"].into_iter().zip(seen.rules);
    let families: Vec<&str> = families.filter_map(|(name, has)| has.then_some(name)).collect();
    let rules = match families.is_empty() {
        true => "no rules of NAT".to_owned(),
        false => format!("rules of NAT for {}", families.join(" and ")),
    };
    let mut text = match seen.connections.is_empty() {
        true => "no connections that are told".into(),
        false => table(&head, rows),
    };
    if seen.others > 0 {
        text += &format!("\nand {} others (--max, --all)", seen.others);
    }
    text += &format!(
        "\nLinux has {rules}; {} directions are known; {} times a connection was kept alive, {} were gone; {} overruns",
        seen.directions, seen.refreshed, seen.refused, seen.overruns
    );
    text + &seen.table.map(linux_table).unwrap_or_default()
}

/// A line about Linux's own table, and one for each kind of refusal that there was.
fn linux_table(table: NatTable) -> String {
    let NatTable { entries, most, insert_failed, dropped, early_dropped } = table;
    let of = if most > 0 { format!(" of {most}") } else { String::new() };
    let mut text = format!("\nLinux's table has {entries}{of} connections");
    if insert_failed > 0 {
        text += &format!(
            "\n{insert_failed} did not come into it (insert_failed): no port was left, or another had the same ends"
        );
    }
    let without_room = dropped.saturating_sub(insert_failed);
    if without_room + early_dropped > 0 {
        text += &format!(
            "\n{without_room} packets were dropped for lack of room (drop), {early_dropped} connections were ended for it (early_drop)"
        );
    }
    if insert_failed + dropped + early_dropped > 0 {
        text += "\nculvert doctor says what mends it";
    }
    text
}

#[cfg(test)]
mod tests {
    use report::NatConnection;

    use super::*;

    #[test]
    fn what_a_connection_becomes_is_told() {
        assert!(text(&Nat::default()).contains("[nat]"));
        let ends = |src: [u8; 4], src_port| NatEnds {
            src: src.into(),
            src_port,
            dst: [198, 51, 100, 9].into(),
            dst_port: 53,
        };
        let one = NatConnection {
            id: 7,
            protocol: 17,
            original: ends([10, 1, 0, 10], 1000),
            translated: ends([192, 0, 2, 1], 2000),
            is_translated: true,
            both: true,
            packets: [3, 2],
            bytes: [300, 200],
        };
        let same = NatConnection { is_translated: false, both: false, ..one.clone() };
        let seen = Nat {
            learns: true,
            rules: [true, false],
            directions: 4,
            connections: vec![one, same],
            others: 5,
            ..Nat::default()
        };
        let text = text(&seen);
        for piece in ["10.1.0.10:1000", "192.0.2.1:2000", "the same", "and 5 others", "for IPv4;"] {
            assert!(text.contains(piece), "{piece}: {text}");
        }
    }

    #[test]
    fn what_linux_refused_is_told_where_it_refused_something() {
        let with = |table| text(&Nat { learns: true, table: Some(table), ..Nat::default() });
        let calm = NatTable { entries: 12, most: 100, ..NatTable::default() };
        let told = with(calm);
        assert!(told.ends_with("Linux's table has 12 of 100 connections"), "{told}");
        let told = with(NatTable { most: 0, insert_failed: 3, dropped: 3, ..calm });
        assert!(told.contains("has 12 connections\n3 did not come into it"), "{told}");
        assert!(!told.contains("early_drop") && told.contains("culvert doctor"), "{told}");
        let told = with(NatTable { early_dropped: 7, ..calm });
        assert!(
            told.contains("0 packets were dropped") && told.contains("7 connections"),
            "{told}"
        );
    }
}
