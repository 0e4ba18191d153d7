//! What stays in the kernel so that nothing leaves in clear when the daemon is gone.
//!
//! With the built-in database nothing but culvert can encrypt. When it dies, its XDP programs go
//! with it and the kernel would route protected packets as they are. So every policy that culvert
//! serves stands in the kernel too, as a [`Barrier`]: what the policy protects is blocked there,
//! what it lets pass passes. Packets that culvert handles never meet a barrier: they go from port
//! to port past the stack, or through the private interface, which is exempt.
//!
//! Barriers are kernel XFRM policies of action block, which need no ESP in the kernel and survive
//! the process. There is one exception: **IPv6**. What exempts the private interface from policies
//! exists for IPv4 alone: Linux has no `disable_xfrm` for IPv6, and its `disable_policy` goes by
//! the interface that owns the address, not by the one that a packet came in by. So the barriers
//! for IPv6 are nftables rules, which spare the private interface by name.
//!
//! A file lists what stands, so that whoever comes next, the restarted daemon or `culvert guard
//! clear`, knows it.
#![forbid(unsafe_code)]

mod barrier;
mod kernel;
mod netfilter;

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use policy::{Direction, PolicyConfig, Prefix};
use thiserror::Error;

pub use barrier::{Barrier, Effect};
use kernel::KernelPolicies;

/// Why a barrier could not be put up or taken down.
#[derive(Debug, Error)]
pub enum GuardError {
    /// The kernel's XFRM socket cannot be used.
    #[error(
        "NETLINK_XFRM: {0}\n  the guard needs CAP_NET_ADMIN and a kernel with CONFIG_XFRM_USER"
    )]
    Socket(io::Error),
    /// The kernel refused a policy.
    #[error("the kernel refused the guard's policy `{barrier}`: {source}")]
    Refused {
        /// Which.
        barrier: Barrier,
        /// Its answer.
        source: io::Error,
    },
    /// `nft` failed or is missing.
    #[error("IPv6 guard: nft: {0}\n  install the package nftables, or IPv6 is not guarded")]
    Netfilter(String),
    /// The list cannot be kept.
    #[error("{path}: {source}")]
    List {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// The barriers of one instance, in the network namespace of the process.
///
/// One at a time for each instance: the daemon, or a command while no daemon runs.
#[derive(Debug)]
pub struct Guard {
    instance: String,
    tun: String,
    list: PathBuf,
    standing: HashSet<Barrier>,
    kernel: KernelPolicies,
}

impl Guard {
    /// Takes up what stands by the list in `directory`, which must exist.
    ///
    /// `tun` is the private interface, which the guard spares.
    ///
    /// # Errors
    /// When the list cannot be read, or the kernel has no XFRM.
    pub fn open(instance: &str, tun: &str, directory: &Path) -> Result<Guard, GuardError> {
        let list = directory.join("guard.json");
        let standing = match fs::read(&list) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(io::Error::from),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(HashSet::new()),
            Err(error) => Err(error),
        };
        let standing =
            standing.map_err(|source| GuardError::List { path: list.clone(), source })?;
        let kernel = KernelPolicies::open().map_err(GuardError::Socket)?;
        Ok(Guard { instance: instance.into(), tun: tun.into(), list, standing, kernel })
    }

    /// What stands.
    pub fn standing(&self) -> impl ExactSizeIterator<Item = &Barrier> {
        self.standing.iter()
    }

    /// Makes exactly these barriers stand: for the policies, and for the prefixes to and from
    /// which everything needs protection.
    ///
    /// New ones go up before old ones come down. The list is written before the first goes up and
    /// after the last has come down, so that it never misses one.
    ///
    /// # Errors
    /// The first failure; everything else is tried all the same, and what failed is tried again
    /// the next time.
    pub fn set<'a>(
        &mut self,
        policies: impl IntoIterator<Item = &'a PolicyConfig>,
        prefixes: &[Prefix],
    ) -> Result<(), GuardError> {
        let mut wanted: HashSet<Barrier> = policies.into_iter().map(Barrier::of_policy).collect();
        wanted.extend(prefixes.iter().flat_map(|prefix| Barrier::of_prefix(*prefix)));
        self.settle(wanted)
    }

    /// Completes a set of barriers, resolves contradictions, and makes it stand.
    fn settle(&mut self, wanted: HashSet<Barrier>) -> Result<(), GuardError> {
        // The kernel holds one policy for a selector and direction; the first in order decides.
        let mut first: HashMap<Barrier, Barrier> = HashMap::with_capacity(wanted.len());
        for barrier in wanted {
            first
                .entry(barrier.identity())
                .and_modify(|kept| {
                    if barrier.priority() < kept.priority() {
                        *kept = barrier;
                    }
                })
                .or_insert(barrier);
        }
        self.replace(first.into_values().collect())
    }

    /// Adds barriers for prefixes to what stands.
    ///
    /// # Errors
    /// As [`Guard::set`].
    pub fn add_prefixes(&mut self, prefixes: &[Prefix]) -> Result<(), GuardError> {
        let mut wanted = self.standing.clone();
        wanted.extend(prefixes.iter().flat_map(|prefix| Barrier::of_prefix(*prefix)));
        self.settle(wanted)
    }

    /// Takes every barrier down.
    ///
    /// # Errors
    /// As [`Guard::set`].
    pub fn clear(&mut self) -> Result<(), GuardError> {
        self.replace(HashSet::new())
    }

    fn replace(&mut self, wanted: HashSet<Barrier>) -> Result<(), GuardError> {
        if wanted == self.standing {
            return Ok(());
        }
        let mut first_error = Ok(());
        let mut note = |result: Result<(), GuardError>| {
            if first_error.is_ok() {
                first_error = result;
            }
        };
        let either: HashSet<Barrier> = wanted.union(&self.standing).copied().collect();
        note(self.write_list(&either));
        let identities: HashSet<Barrier> = wanted.iter().map(Barrier::identity).collect();
        let mut standing = HashSet::new();
        let mut netfilter_changed = false;
        for barrier in &wanted {
            if barrier.is_netfilter() {
                netfilter_changed |= !self.standing.contains(barrier);
                standing.insert(*barrier);
            } else if self.standing.contains(barrier) {
                standing.insert(*barrier);
            } else {
                match self.kernel.put(barrier) {
                    Ok(()) => {
                        standing.insert(*barrier);
                    }
                    Err(source) => note(Err(GuardError::Refused { barrier: *barrier, source })),
                }
            }
        }
        for barrier in self.standing.difference(&wanted) {
            if barrier.is_netfilter() {
                netfilter_changed = true;
            } else if identities.contains(&barrier.identity()) {
                // Replaced in place by the one above.
            } else if let Err(source) = self.kernel.remove(barrier) {
                // Somebody took it away: what we wanted.
                if source.raw_os_error() != Some(NO_ENTRY) {
                    standing.insert(*barrier);
                    note(Err(GuardError::Refused { barrier: *barrier, source }));
                }
            }
        }
        if netfilter_changed {
            let rules = netfilter::ruleset(&self.instance, &self.tun, &standing);
            if let Err(error) = netfilter::apply(&rules) {
                note(Err(GuardError::Netfilter(error)));
                // Tried again with the next change.
                standing.retain(|b| !b.is_netfilter() || self.standing.contains(b));
            }
        }
        self.standing = standing;
        note(self.write_list(&self.standing));
        first_error
    }

    fn write_list(&self, barriers: &HashSet<Barrier>) -> Result<(), GuardError> {
        let fail = |source| GuardError::List { path: self.list.clone(), source };
        if barriers.is_empty() {
            return match fs::remove_file(&self.list) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(fail(error)),
                _ => Ok(()),
            };
        }
        let bytes = serde_json::to_vec(barriers).map_err(|e| fail(e.into()))?;
        let next = self.list.with_extension("next");
        let mut options = fs::OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        let mut file = options.open(&next).map_err(fail)?;
        file.write_all(&bytes).map_err(fail)?;
        fs::rename(&next, &self.list).map_err(fail)
    }
}

/// `ENOENT`.
const NO_ENTRY: i32 = 2;

/// The kernel's number of a direction (`XFRM_POLICY_IN`, …).
fn direction_number(direction: Direction) -> u8 {
    direction as u8
}

#[cfg(test)]
mod tests {
    use super::*;
    use policy::{Action, Mark, Selector, Template};

    /// Runs in a network namespace of its own, which ends with its thread.
    fn in_namespace(test: impl FnOnce() + Send + 'static) {
        if !rustix::process::getuid().is_root() {
            println!("skipped: needs root");
            return;
        }
        let thread = std::thread::spawn(|| {
            let flags = rustix::thread::UnshareFlags::NEWNET;
            #[expect(
                deprecated,
                reason = "a network namespace alone breaks no promise of the standard library"
            )]
            rustix::thread::unshare(flags).expect("unshare");
            test();
        });
        thread.join().expect("the test in its namespace");
    }

    fn run(command: &str) -> (bool, String) {
        let words: Vec<&str> = command.split_whitespace().collect();
        let output = std::process::Command::new(words[0]).args(&words[1..]).output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8_lossy(&text).into_owned())
    }

    fn prefix(text: &str) -> Prefix {
        let (addr, len) = text.split_once('/').unwrap();
        Prefix { addr: addr.parse().unwrap(), len: len.parse().unwrap() }
    }

    fn protecting(src: &str, dst: &str, direction: Direction) -> PolicyConfig {
        let end: std::net::IpAddr = "192.0.2.1".parse().unwrap();
        let (src, dst) = (prefix(src), prefix(dst));
        PolicyConfig {
            index: 1,
            direction,
            selector: Selector::between(src, dst),
            priority: 1000,
            action: Action::Allow,
            templates: vec![Template {
                src: end,
                dst: end,
                spi: 0,
                protocol: 50,
                mode: esp::Mode::Tunnel,
                reqid: 1,
                optional: false,
            }],
            mark: Mark::default(),
            if_id: 0,
        }
    }

    /// A namespace with a way out and the private interface's stand-in, which is exempt.
    fn two_ways_out() {
        for command in [
            "ip link set lo up",
            "ip link add out0 arp off type veth peer name out1",
            "ip link set out0 up",
            "ip link set out1 up",
            "ip addr add 10.1.0.1/16 dev out0",
            "ip -6 addr add fd01::1/64 dev out0 nodad",
            "ip route add default dev out0",
            "ip -6 route add default dev out0",
            "ip link add culvert0 arp off type veth peer name culvert1",
            "sysctl -qw net.ipv4.conf.culvert0.disable_xfrm=1",
            "ip link set culvert0 up",
            "ip link set culvert1 up",
            "ip route add 10.2.1.0/24 dev culvert0",
            "ip -6 route add fd02:0:0:1::/64 dev culvert0",
        ] {
            let (ok, text) = run(command);
            assert!(ok, "{command}: {text}");
        }
    }

    fn sent(interface: &str) -> u64 {
        let text = std::fs::read_to_string("/proc/thread-self/net/dev").unwrap();
        let line = text.lines().find(|l| l.trim_start().starts_with(interface)).unwrap();
        line.split(':').nth(1).unwrap().split_whitespace().nth(9).unwrap().parse().unwrap()
    }

    /// Whether a UDP packet to an address leaves by the interface.
    fn leaves(to: &str, interface: &str) -> bool {
        let any = if to.contains(':') { "[::]:0" } else { "0.0.0.0:0" };
        let socket = std::net::UdpSocket::bind(any).unwrap();
        let before = sent(interface);
        let to: std::net::IpAddr = to.parse().unwrap();
        let result = socket.send_to(b"in the clear", (to, 9));
        let after = sent(interface);
        // Router and neighbour solicitations of the interface may come between: a refused packet
        // is told by the error as well.
        result.is_ok() && after > before
    }

    #[test]
    fn protected_prefixes_stay_in_and_the_private_interface_is_spared() {
        in_namespace(|| {
            two_ways_out();
            let directory = tempfile::tempdir().unwrap();
            assert!(leaves("10.2.0.1", "out0"));
            assert!(leaves("fd02::1", "out0"));
            let policies = [
                protecting("10.1.0.0/16", "10.2.0.0/16", Direction::Out),
                protecting("fd01::/32", "fd02::/32", Direction::Out),
                protecting("10.2.0.0/16", "10.1.0.0/16", Direction::Forward),
            ];
            let mut guard = Guard::open("test", "culvert0", directory.path()).unwrap();
            guard.set(&policies, &[]).unwrap();
            assert!(!leaves("10.2.0.1", "out0"), "IPv4 leaked");
            assert!(!leaves("fd02::1", "out0"), "IPv6 leaked");
            assert!(leaves("10.2.1.1", "culvert0"), "the private interface was blocked");
            assert!(leaves("fd02:0:0:1::1", "culvert0"), "the private interface was blocked");
            assert!(leaves("10.9.0.1", "out0"), "what no policy names was blocked");
            drop(guard);
            assert!(!leaves("10.2.0.1", "out0"), "the guard died with its owner");
            assert!(!leaves("fd02::1", "out0"), "the guard died with its owner");

            let mut guard = Guard::open("test", "culvert0", directory.path()).unwrap();
            assert!(guard.standing().len() >= 3);
            guard.clear().unwrap();
            assert!(leaves("10.2.0.1", "out0"));
            assert!(leaves("fd02::1", "out0"));
            assert_eq!(run("ip xfrm policy").1, "");
            assert!(!run("nft list ruleset").1.contains("culvert"));
            assert!(!directory.path().join("guard.json").exists());
        });
    }

    #[test]
    fn prefixes_guard_before_any_policy_and_bypass_wins() {
        in_namespace(|| {
            two_ways_out();
            let directory = tempfile::tempdir().unwrap();
            let mut guard = Guard::open("test", "culvert0", directory.path()).unwrap();
            let prefixes = [prefix("10.2.0.0/16"), prefix("fd02::/32")];
            guard.set(&[], &prefixes).unwrap();
            assert!(!leaves("10.2.0.1", "out0"));
            assert!(!leaves("fd02::1", "out0"));
            let bypass = |src, dst| PolicyConfig {
                templates: Vec::new(),
                ..protecting(src, dst, Direction::Out)
            };
            let policies =
                [bypass("10.1.0.0/16", "10.2.9.0/24"), bypass("fd01::/32", "fd02:9::/32")];
            guard.set(&policies, &prefixes).unwrap();
            assert!(leaves("10.2.9.1", "out0"));
            assert!(!leaves("10.2.0.1", "out0"));
            guard.clear().unwrap();
        });
    }

    #[test]
    fn two_barriers_with_one_identity_leave_the_first_in_order() {
        in_namespace(|| {
            let directory = tempfile::tempdir().unwrap();
            let mut guard = Guard::open("test", "culvert0", directory.path()).unwrap();
            let mut strict = protecting("0.0.0.0/0", "10.2.0.0/16", Direction::Out);
            strict.priority = 7;
            guard.set([&strict], &[prefix("10.2.0.0/16")]).unwrap();
            let listed = run("ip xfrm policy").1;
            assert!(listed.contains("priority 7"), "{listed}");
            guard.set(&[], &[]).unwrap();
            assert_eq!(run("ip xfrm policy").1, "");
        });
    }

    #[test]
    fn a_broken_list_is_named() {
        in_namespace(|| {
            let directory = tempfile::tempdir().unwrap();
            std::fs::write(directory.path().join("guard.json"), "[{]").unwrap();
            let error = Guard::open("test", "culvert0", directory.path()).unwrap_err();
            assert!(error.to_string().contains("guard.json"));
        });
    }
}
