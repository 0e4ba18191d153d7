//! Culvert's routes and rules do not show under the library: the kernel's own rtnetlink, in a
//! namespace of the test's own.

use std::path::Path;
use std::process::{Command, Output};

/// Runs a shell script in a new network namespace; with `LIBRARY` set before a command, that runs
/// under the library.
fn in_namespace(script: &str) -> Output {
    // Where nobody listens: rtnetlink needs no server.
    let under = crate::program::command("env", Some(Path::new("/nonexistent")));
    let variables: Vec<String> = under
        .get_envs()
        .filter_map(|(name, value)| Some((name.to_str()?, value?.to_str()?)))
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    let preamble = format!("set -e\nLIBRARY='env {}'\n", variables.join(" "));
    let setup = r#"
ip link set lo up
ip link add ea type veth peer name eb
ip link set ea up; ip link set eb up
ip addr add 10.1.0.1/24 dev ea
ours() {
  ip route add 10.2.0.0/24 dev ea table 219 proto 219
  ip route add throw 10.3.0.0/24 table 219 proto 219
  ip -6 route add 2001:db8:2::/64 dev ea table 219 proto 219
  ip rule add pref 210 not iif eb lookup 219 protocol 219
}
"#;
    let all = format!("{preamble}{setup}{script}");
    Command::new("unshare").args(["-n", "sh", "-c", &all]).output().expect("unshare")
}

fn text(output: &Output) -> String {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    assert_eq!(errors, "");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn dumps_do_not_list_them() {
    let show = "ip -4 route show table all; ip -6 route show table all; ip rule";
    let before = text(&in_namespace(show));
    let plain = text(&in_namespace(&format!("ours; {show}")));
    assert_eq!(plain.matches("proto 219").count(), 4, "{plain}");
    let library = show.replace("ip ", "$LIBRARY ip ");
    let under = text(&in_namespace(&format!("ours; {library}")));
    let lines = |text: &str| {
        // Addresses that the kernel made up differ from run to run, and come when they come.
        let all =
            text.lines().filter(|l| !l.contains("fe80") && !l.contains("ff00")).map(str::to_owned);
        all.collect::<Vec<_>>()
    };
    assert_eq!(lines(&under), lines(&before));
    // A dump of nothing else.
    let none = text(&in_namespace("ours; $LIBRARY ip route show table 219; echo end"));
    assert_eq!(none, "end\n");
}

#[test]
fn a_dump_of_many_parts_closes_up() {
    let script = r#"
for n in $(seq 0 2999); do
  echo "route add 10.$((100 + n / 200)).$((n % 200)).0/24 dev ea table 219 proto 219"
done | ip -batch -
ip route add 10.200.0.0/16 dev ea table 219
$LIBRARY ip route show table 219
"#;
    assert_eq!(text(&in_namespace(script)).trim(), "10.200.0.0/16 dev ea scope link");
}

#[test]
fn a_look_up_is_answered_as_ever() {
    let out = text(&in_namespace("ours; $LIBRARY ip route get 10.2.0.9"));
    assert!(out.contains("dev ea table 219"), "{out}");
}

#[test]
fn events_say_nothing_of_them() {
    let script = r#"
exec 2> /dev/null
$LIBRARY ip monitor route rule > /dev/shm/culvert-monitor-$$ & monitor=$!
for n in $(seq 100); do
  ip route replace 10.8.0.0/24 dev ea
  grep -q 10.8.0.0 /dev/shm/culvert-monitor-$$ && break
  ip route del 10.8.0.0/24; sleep 0.1
done
ours
ip route del 10.2.0.0/24 table 219
ip route add 10.9.0.0/24 dev ea
for n in $(seq 100); do grep -q 10.9.0.0 /dev/shm/culvert-monitor-$$ && break; sleep 0.1; done
kill $monitor; wait $monitor || true
cat /dev/shm/culvert-monitor-$$; rm /dev/shm/culvert-monitor-$$
"#;
    let out = text(&in_namespace(script));
    assert!(out.contains("10.9.0.0/24"), "{out}");
    assert!(!out.contains("219") && !out.contains("10.2.0.0"), "{out}");
}
