//! Lost notifications are made good by a dump.

use std::io::Write;
use std::process::{Command, Stdio};

use crate::common::{in_namespace, ip, until_equal};
use mirror::{Change, Observer};

/// Feeds many commands to one `ip` process.
fn batch(lines: impl Iterator<Item = String>) {
    let mut child = Command::new("ip").args(["-batch", "-"]).stdin(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    for line in lines {
        writeln!(input, "{line}").unwrap();
    }
    drop(input);
    assert!(child.wait().unwrap().success());
}

#[test]
fn thousands_of_changes_into_a_tiny_buffer() {
    in_namespace(|| {
        ip("link add ea type veth peer name eb");
        ip("link set ea up");
        ip("addr add 10.1.0.1/16 dev ea");
        // Linux rounds up to its minimum, of a handful of notifications.
        let mut observer = Observer::with_receive_buffer(1).unwrap();
        let routes = |verb: &'static str| {
            (0..2000).map(move |i| {
                format!("route {verb} 10.{}.{}.0/24 via 10.1.0.2", 100 + i / 250, i % 250)
            })
        };
        let neighbours = (0..500).map(|i| {
            format!("neigh add 10.1.{}.{} lladdr 02:00:00:00:00:01 dev ea", i / 250 + 1, i % 250)
        });
        batch(routes("add").chain(neighbours));
        batch((0..200).map(|i| format!("rule add pref {} table {}", 1000 + i, 1000 + i)));
        let changes = observer.poll().unwrap();
        let added = changes.iter().filter(|c| matches!(c, Change::Route(r) if r.dst.len == 24));
        assert_eq!(added.count(), 2000);
        until_equal(&mut observer);
        assert_eq!(observer.snapshot().neighbours().filter(|n| n.ip.is_ipv4()).count(), 500);

        batch(routes("del"));
        ip("link del ea");
        let changes = observer.poll().unwrap();
        let gone =
            changes.iter().filter(|c| matches!(c, Change::RouteRemoved(r) if r.dst.len == 24));
        assert_eq!(gone.count(), 2000);
        until_equal(&mut observer);
        assert_eq!(observer.snapshot().neighbours().filter(|n| n.ip.is_ipv4()).count(), 0);
    });
}

#[test]
fn a_dump_while_things_change() {
    in_namespace(|| {
        ip("link add ea type veth peer name eb");
        ip("link set ea up");
        ip("addr add 10.1.0.1/16 dev ea");
        let mut observer = Observer::with_receive_buffer(1).unwrap();
        let mut child =
            Command::new("ip").args(["-batch", "-"]).stdin(Stdio::piped()).spawn().unwrap();
        let mut input = child.stdin.take().unwrap();
        for i in 0..3000 {
            let net = i / 3 % 250;
            match i % 3 {
                2 => writeln!(input, "route del 10.100.{net}.0/24").unwrap(),
                n => {
                    writeln!(input, "route replace 10.100.{net}.0/24 via 10.1.0.{}", 2 + n).unwrap()
                }
            }
            if i % 50 == 0 {
                observer.poll().unwrap();
            }
        }
        drop(input);
        assert!(child.wait().unwrap().success());
        until_equal(&mut observer);
    });
}
