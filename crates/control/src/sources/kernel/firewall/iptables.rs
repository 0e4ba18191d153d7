//! The tables of legacy iptables and ip6tables. The kernel tells no changes, so they are looked at now and
//! then, by a thread of its own: the programs that know how take their time.

use std::fs;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use dataplane::Waker;
use tracing::error;

use super::chains::Chains;

/// How often tables are looked at.
const INTERVAL: Duration = Duration::from_secs(2);

/// Legacy iptables of one family.
struct Family {
    /// Names of the tables that a rule or a listing has made; none where the kernel has no such tables.
    names: &'static str,
    /// Programs that print all rules, in order of preference.
    programs: [&'static str; 2],
    word: &'static str,
    is_v4: bool,
}

const FAMILIES: [Family; 2] = [
    Family {
        names: "/proc/thread-self/net/ip_tables_names",
        programs: ["iptables-legacy-save", "iptables-save"],
        word: "iptables",
        is_v4: true,
    },
    Family {
        names: "/proc/thread-self/net/ip6_tables_names",
        programs: ["ip6tables-legacy-save", "ip6tables-save"],
        word: "ip6tables",
        is_v4: false,
    },
];

/// The last reading of a thread that looks at intervals.
pub struct Watch {
    readings: Receiver<Result<Chains, String>>,
    waker: Option<Waker>,
}

impl Watch {
    /// Looks, and goes on looking.
    pub fn new() -> (Watch, Result<Chains, String>) {
        let (sender, readings) = channel();
        let found = read();
        let waker = Waker::new().and_then(|waker| {
            let (theirs, last) = (waker.clone(), found.clone());
            let builder = std::thread::Builder::new().name("culvert-fw".into());
            builder.spawn(move || look(&sender, &theirs, last))?;
            Ok(waker)
        });
        match waker {
            Ok(waker) => (Watch { readings, waker: Some(waker) }, found),
            Err(error) => {
                error!(%error, "iptables is not watched");
                (Watch { readings, waker: None }, Err(format!("iptables: {error}")))
            }
        }
    }

    /// Readable when there is another reading.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.waker.as_ref().map(|waker| waker.as_fd())
    }

    /// The last reading, if there is one since the last call.
    pub fn poll(&self) -> Option<Result<Chains, String>> {
        if let Some(waker) = &self.waker {
            waker.clear();
        }
        self.readings.try_iter().last()
    }
}

/// Until nobody listens any more.
fn look(
    readings: &Sender<Result<Chains, String>>,
    waker: &Waker,
    mut last: Result<Chains, String>,
) {
    loop {
        std::thread::sleep(INTERVAL);
        let found = read();
        if found != last {
            if readings.send(found.clone()).is_err() {
                return;
            }
            waker.wake();
            last = found;
        }
    }
}

/// The rules as they are now.
pub fn read() -> Result<Chains, String> {
    let mut found = Chains::default();
    for family in &FAMILIES {
        if has_tables(family) {
            let text = saved(family)?;
            if let Some((table, chain)) = first_that_counts(&text) {
                let word = family.word;
                found.note(family.is_v4, !family.is_v4, || {
                    format!("{word} has chain {table} {chain}")
                });
            }
        }
    }
    Ok(found)
}

fn has_tables(family: &Family) -> bool {
    fs::read_to_string(family.names).is_ok_and(|names| !names.trim().is_empty())
}

/// All tables as a save program prints them.
fn saved(family: &Family) -> Result<String, String> {
    for program in family.programs {
        let output = Command::new(program).stdin(Stdio::null()).output();
        let Ok(output) = output else { continue };
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        // One that knows nftables alone has no word about these tables.
        let is_other = text.lines().any(|line| line.starts_with('#') && line.contains("nf_tables"));
        if output.status.success() && !is_other {
            return Ok(text);
        }
    }
    Err(format!("{} of legacy iptables cannot be run", family.programs[0]))
}

/// The first table and chain that packets meet between two interfaces, and that could do more than let them
/// pass.
fn first_that_counts(saved: &str) -> Option<(&str, &str)> {
    let mut table = "";
    for line in saved.lines() {
        if let Some(name) = line.strip_prefix('*') {
            table = name.trim();
        } else if let Some(declared) = line.strip_prefix(':') {
            let mut words = declared.split_whitespace();
            let (chain, policy) = (words.next()?, words.next());
            if is_met(chain) && table != "nat" && policy == Some("DROP") {
                return Some((table, chain));
            }
        } else if let Some((chain, rule)) = rule(line)
            && is_met(chain)
            && !is_harmless(rule)
        {
            return Some((table, chain));
        }
    }
    None
}

/// A rule's chain, and the rest of it. Counters may come before it.
fn rule(line: &str) -> Option<(&str, &str)> {
    let line = match line.strip_prefix('[') {
        Some(counters) => counters.split_once("] ")?.1,
        None => line,
    };
    let rule = line.strip_prefix("-A ")?;
    Some(rule.split_once(' ').unwrap_or((rule, "")))
}

fn is_met(chain: &str) -> bool {
    matches!(chain, "PREROUTING" | "FORWARD" | "POSTROUTING")
}

/// True if a rule only counts or accepts.
fn is_harmless(rule: &str) -> bool {
    let words: Vec<&str> = rule.split_whitespace().collect();
    // A comment may have such words too: then all of them have to be harmless.
    words.iter().zip(words.iter().skip(1)).all(|(word, next)| match *word {
        "-j" | "--jump" => matches!(*next, "ACCEPT" | "RETURN"),
        "-g" | "--goto" => false,
        _ => true,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(name: &str, lines: &str) -> String {
        format!("# Generated by iptables-save v1.8.9 on Thu\n*{name}\n{lines}COMMIT\n# Completed\n")
    }

    /// A table, its lines, and the chain that counts.
    type Row = (&'static str, &'static str, Option<(&'static str, &'static str)>);

    #[test]
    fn what_counts() {
        let rows: &[Row] = &[
            ("filter", ":INPUT DROP [0:0]\n:FORWARD ACCEPT [0:0]\n:OUTPUT ACCEPT [0:0]\n", None),
            ("filter", ":FORWARD DROP [12:720]\n", Some(("filter", "FORWARD"))),
            ("filter", ":FORWARD ACCEPT [0:0]\n-A INPUT -j DROP\n", None),
            (
                "filter",
                ":FORWARD ACCEPT [0:0]\n-A FORWARD -d 10.2.0.9/32 -j DROP\n",
                Some(("filter", "FORWARD")),
            ),
            // What strongSwan's updown script adds.
            (
                "filter",
                ":FORWARD ACCEPT [0:0]\n-A FORWARD -s 10.2.0.0/24 -d 10.1.0.0/24 -i wan -m policy \
                 --dir in --pol ipsec --reqid 1 --proto esp -j ACCEPT\n",
                None,
            ),
            (
                "filter",
                ":FORWARD ACCEPT [0:0]\n:x - [0:0]\n-A FORWARD -j x\n",
                Some(("filter", "FORWARD")),
            ),
            ("filter", ":FORWARD ACCEPT [0:0]\n-A FORWARD -g x\n", Some(("filter", "FORWARD"))),
            ("filter", ":FORWARD ACCEPT [0:0]\n:x - [0:0]\n-A x -j DROP\n", None),
            (
                "filter",
                ":FORWARD ACCEPT [0:0]\n[3:99] -A FORWARD -j LOG\n",
                Some(("filter", "FORWARD")),
            ),
            ("nat", ":PREROUTING ACCEPT [0:0]\n:POSTROUTING ACCEPT [0:0]\n", None),
            (
                "nat",
                ":POSTROUTING ACCEPT [0:0]\n-A POSTROUTING -o wan -j MASQUERADE\n",
                Some(("nat", "POSTROUTING")),
            ),
            (
                "mangle",
                ":PREROUTING ACCEPT [0:0]\n-A PREROUTING -j MARK --set-xmark 0x1/0xffffffff\n",
                Some(("mangle", "PREROUTING")),
            ),
        ];
        for (name, lines, expected) in rows {
            let text = table("raw", ":PREROUTING ACCEPT [0:0]\n") + &table(name, lines);
            assert_eq!(first_that_counts(&text), *expected, "{text}");
        }
    }
}
