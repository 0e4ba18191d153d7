//! Length that fits the SAs behind each protected destination: the MTU of the routes that lead there.
//!
//! Linux's own programs go by a route's MTU from their first packet on: the segments that TCP announces, the
//! pieces that a long datagram goes in. So they need no ICMP error, which a packet filter may drop.
//!
//! The MTU of a destination is the smallest of those of the policies for it, and a policy's is what is left of
//! its peer's path under all of its SAs. It is told again when one of those SAs is another (a rekey may bring
//! another cipher), and when a path has changed, of which there may be many: of those at most once a second, and
//! more rarely where there are many policies. A policy without SAs keeps the one that it
//! had: they are about to come.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, Instant};

use esp::Sa;
use mirror::Prefix;
use policy::{Action, Databases, Direction, OutboundKey, PolicyConfig};

use crate::clock::Now;

/// The MTUs of all protected destinations.
#[derive(Debug, Default)]
pub struct InnerMtus {
    policies: HashMap<u32, OfPolicy>,
    /// The policies, by what their SAs are looked for.
    by_key: BTreeSet<(OutboundKey, u32)>,
    /// MTU and index of the policies for each destination.
    by_dst: BTreeMap<Prefix, BTreeSet<(u32, u32)>>,
    /// When all are to be found out again, because paths have changed.
    redo_at: Option<Instant>,
}

/// An outbound policy that protects.
#[derive(Debug)]
struct OfPolicy {
    dst: Prefix,
    keys: Vec<OutboundKey>,
    mtu: Option<u32>,
}

/// Inputs of the MTUs.
#[derive(Clone, Copy)]
pub struct Seen<'s> {
    pub databases: &'s Databases<Sa>,
    /// The longest outer packet of an SA, in bytes, if a path leads to its peer.
    pub path: &'s dyn Fn(&Sa) -> Option<usize>,
}

/// Destinations whose MTU is another now, with it.
pub type Changed = BTreeMap<Prefix, Option<u32>>;

/// How long changes of paths are gathered, at least ...
const GATHERED_FOR: Duration = Duration::from_secs(1);

/// ... and for each policy, many times of what it takes to find out about one: routes may change all the time.
const EACH: Duration = Duration::from_micros(100);

impl InnerMtus {
    /// Follows policies that were added, replaced or removed.
    pub fn policies_changed<'p>(
        &mut self,
        steps: impl Iterator<Item = (u32, Option<&'p PolicyConfig>)>,
        seen: Seen<'_>,
    ) -> Changed {
        let mut touched = BTreeMap::new();
        for (index, new) in steps {
            let new = new.filter(|config| is_protecting(config));
            let last = self.policies.remove(&index);
            if let Some(old) = &last {
                touched.entry(old.dst).or_insert_with(|| self.mtu(old.dst));
                self.note_mtu(index, old.dst, old.mtu, None);
                for key in &old.keys {
                    self.by_key.remove(&(*key, index));
                }
            }
            let Some((config, keys)) = new.and_then(|c| Some((c, OutboundKey::of_policy(c)?)))
            else {
                continue;
            };
            let dst = Prefix::of(config.selector.dst.addr, config.selector.dst.len);
            touched.entry(dst).or_insert_with(|| self.mtu(dst));
            let before = last.filter(|old| old.dst == dst).and_then(|old| old.mtu);
            let mtu = seen.mtu(config).or(before);
            self.note_mtu(index, dst, None, mtu);
            self.by_key.extend(keys.iter().map(|key| (*key, index)));
            self.policies.insert(index, OfPolicy { dst, keys, mtu });
        }
        self.changed_since(touched)
    }

    /// Follows SAs that were added, replaced or removed.
    pub fn sas_changed(&mut self, keys: BTreeSet<OutboundKey>, seen: Seen<'_>) -> Changed {
        let mut indices = BTreeSet::new();
        for key in keys {
            let of_key = self.by_key.range((key, 0)..=(key, u32::MAX));
            indices.extend(of_key.map(|(_, index)| *index));
        }
        self.redo(indices, seen)
    }

    /// Paths have changed: what fits them is found out soon.
    pub fn paths_changed(&mut self, now: Now) {
        let policies = u32::try_from(self.policies.len()).unwrap_or(u32::MAX);
        let wait = GATHERED_FOR.max(EACH.saturating_mul(policies));
        self.redo_at.get_or_insert_with(|| now.at + wait);
    }

    /// Finds out about all destinations again, if paths have changed and it is time.
    pub fn follow_paths(&mut self, now: Now, seen: Seen<'_>) -> Changed {
        if self.redo_at.take_if(|at| *at <= now.at).is_none() {
            return Changed::new();
        }
        let indices: Vec<u32> = self.policies.keys().copied().collect();
        self.redo(indices, seen)
    }

    fn redo(&mut self, indices: impl IntoIterator<Item = u32>, seen: Seen<'_>) -> Changed {
        let mut touched = BTreeMap::new();
        for index in indices {
            let mtu = seen.databases.policy(index).and_then(|policy| seen.mtu(&policy.config));
            let Some(of) = self.policies.get_mut(&index) else { continue };
            if mtu.is_none() || of.mtu == mtu {
                continue;
            }
            let (dst, old) = (of.dst, std::mem::replace(&mut of.mtu, mtu));
            touched.entry(dst).or_insert_with(|| self.mtu(dst));
            self.note_mtu(index, dst, old, mtu);
        }
        self.changed_since(touched)
    }

    fn note_mtu(&mut self, index: u32, dst: Prefix, old: Option<u32>, new: Option<u32>) {
        let of = self.by_dst.entry(dst).or_default();
        if let Some(mtu) = old {
            of.remove(&(mtu, index));
        }
        of.extend(new.map(|mtu| (mtu, index)));
        if of.is_empty() {
            self.by_dst.remove(&dst);
        }
    }

    fn mtu(&self, dst: Prefix) -> Option<u32> {
        self.by_dst.get(&dst)?.first().map(|(mtu, _)| *mtu)
    }

    fn changed_since(&self, before: Changed) -> Changed {
        let now = before.into_iter().map(|(dst, old)| (dst, old, self.mtu(dst)));
        now.filter(|(_, old, new)| old != new).map(|(dst, _, new)| (dst, new)).collect()
    }
}

/// True if Linux's packets are led to culvert for a policy.
fn is_protecting(config: &PolicyConfig) -> bool {
    config.direction == Direction::Out
        && config.action == Action::Allow
        && config.if_id == 0
        && !config.templates.is_empty()
}

impl Seen<'_> {
    /// The longest packet that fits all SAs of a policy, if they are there, in bytes.
    fn mtu(self, config: &PolicyConfig) -> Option<u32> {
        let sas = self.databases.protecting(config)?;
        let path = (self.path)(&sas.last()?.esp)?;
        let inner = sas.iter().rev().fold(path, |mtu, sa| sa.esp.max_inner_len(mtu));
        // What IPv6 needs at least (RFC 8200 §5), and what Linux takes for IPv4.
        let least = if config.selector.dst.addr.is_ipv6() { 1280 } else { 552 };
        (inner > 0).then(|| (inner as u32).max(least))
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use crypto::{AesKey, Cipher, Integrity, Keys, Provider, Suite};
    use engine_openssl::OpensslProvider;
    use esp::{LiveNumbers, Mode, Protocol};
    use policy::{SaConfig, Selector, Template};

    use super::*;
    use crate::sources::testing::{self, HERE, THERE, config, keys};

    fn prefix(text: &str) -> Prefix {
        let (addr, len) = text.split_once('/').unwrap();
        Prefix { addr: addr.parse().unwrap(), len: len.parse().unwrap() }
    }

    fn policy(index: u32, dst: &str, reqid: u32) -> PolicyConfig {
        let Prefix { addr, len } = prefix(dst);
        let all = policy::Prefix { addr: IpAddr::from([0; 4]), len: 0 };
        let selector = Selector::between(all, policy::Prefix { addr, len });
        PolicyConfig { selector, ..testing::policy(index, Direction::Out, (HERE, THERE), &[reqid]) }
    }

    fn sa(config: SaConfig, keys: &Keys) -> (SaConfig, Sa) {
        let provider = OpensslProvider::new().unwrap();
        let session = provider.session(config.params.suite, keys).unwrap();
        let sa = Sa::new(config.params.clone(), session, LiveNumbers::on_heap(32)).unwrap();
        (config, sa)
    }

    struct World {
        mtus: InnerMtus,
        databases: Databases<Sa>,
        path: usize,
    }

    impl World {
        fn new() -> World {
            World { mtus: InnerMtus::default(), databases: Databases::new(), path: 1500 }
        }

        fn put(&mut self, config: PolicyConfig) -> Changed {
            self.databases.put_policy(config.clone());
            self.follow(config.index, Some(&config))
        }

        fn follow(&mut self, index: u32, new: Option<&PolicyConfig>) -> Changed {
            let path = |_: &Sa| Some(self.path);
            let seen = Seen { databases: &self.databases, path: &path };
            self.mtus.policies_changed([(index, new)].into_iter(), seen)
        }

        fn add(&mut self, (config, sa): (SaConfig, Sa)) -> Changed {
            let key = OutboundKey::of_sa(&config);
            self.databases.replace_sa(config, sa);
            self.sas_changed(key)
        }

        fn sas_changed(&mut self, key: OutboundKey) -> Changed {
            let path = |_: &Sa| Some(self.path);
            let seen = Seen { databases: &self.databases, path: &path };
            self.mtus.sas_changed(BTreeSet::from([key]), seen)
        }
    }

    fn changed(dst: &str, mtu: Option<u32>) -> Changed {
        Changed::from([(prefix(dst), mtu)])
    }

    const NET: &str = "10.2.0.0/16";

    fn gcm(spi: u32, reqid: u32) -> (SaConfig, Sa) {
        sa(config(spi, (HERE, THERE), reqid), &keys())
    }

    /// Another overhead than that of AES-GCM.
    fn cbc(spi: u32, reqid: u32) -> (SaConfig, Sa) {
        let mut config = config(spi, (HERE, THERE), reqid);
        config.params.suite = Suite::Separate {
            cipher: Cipher::AesCbc(AesKey::Aes128),
            integrity: Integrity::Sha256_128,
        };
        sa(config, &Keys { cipher: vec![1; 16], salt: vec![], auth: vec![2; 32] })
    }

    #[test]
    fn a_destination_has_what_fits_its_sa() {
        let mut world = World::new();
        assert_eq!(world.add(gcm(1, 1)), Changed::new());
        assert_eq!(world.put(policy(1, NET, 1)), changed(NET, Some(1446)));
        // A rekey with the same cipher changes nothing, one with another does.
        assert_eq!(world.add(gcm(2, 1)), Changed::new());
        assert_eq!(world.add(cbc(3, 1)), changed(NET, Some(1438)));
        // Until there are new ones, what was known is kept.
        let mut keys = BTreeSet::new();
        for config in world.databases.sas().map(|sa| sa.config.clone()).collect::<Vec<_>>() {
            keys.insert(OutboundKey::of_sa(&config));
            world.databases.remove_sa(&config.id());
        }
        assert_eq!(world.sas_changed(keys.pop_first().unwrap()), Changed::new());
        assert_eq!(world.add(gcm(4, 1)), changed(NET, Some(1446)));
        world.databases.remove_policy(1);
        assert_eq!(world.follow(1, None), changed(NET, None));
        assert!(world.mtus.policies.is_empty() && world.mtus.by_key.is_empty());
        assert!(world.mtus.by_dst.is_empty());
    }

    #[test]
    fn the_smallest_of_several_policies_counts() {
        let mut world = World::new();
        world.add(gcm(1, 1));
        world.add(cbc(2, 2));
        world.put(policy(1, NET, 1));
        assert_eq!(world.put(policy(2, NET, 2)), changed(NET, Some(1438)));
        assert_eq!(world.follow(2, None), changed(NET, Some(1446)));
        // Those that are not Linux's way, or have no SA.
        let others = [
            PolicyConfig { direction: Direction::In, ..policy(3, NET, 2) },
            PolicyConfig { if_id: 7, ..policy(4, NET, 2) },
            PolicyConfig { templates: vec![], ..policy(5, NET, 2) },
            policy(6, NET, 9),
        ];
        for config in others {
            assert_eq!(world.put(config), Changed::new());
        }
    }

    #[test]
    fn all_sas_of_a_packet_count() {
        let mut world = World::new();
        let mut ah = config(2, (HERE, THERE), 1);
        (ah.params.protocol, ah.params.mode) = (Protocol::Ah, Mode::Transport);
        ah.params.suite = Suite::integrity_only(Integrity::Sha256_128);
        world.add(gcm(1, 1));
        world.add(sa(ah, &Keys { cipher: vec![], salt: vec![], auth: vec![2; 32] }));
        let mut config = policy(1, NET, 1);
        let template = config.templates[0];
        let any = IpAddr::from([0; 4]);
        let outer =
            Template { src: any, dst: any, protocol: 51, mode: Mode::Transport, ..template };
        config.templates.push(outer);
        // 32 bytes of AH, in front of what ends at a multiple of four.
        let mtu = *world.put(config).values().next().unwrap();
        assert_eq!(mtu, Some(1414));
    }

    #[test]
    fn a_path_that_changes_is_followed_soon() {
        let mut world = World::new();
        world.add(gcm(1, 1));
        world.put(policy(1, NET, 1));
        world.path = 1400;
        let now = Now::read();
        world.mtus.paths_changed(now);
        let path = |_: &Sa| Some(1400);
        let seen = Seen { databases: &world.databases, path: &path };
        let early = now.after(GATHERED_FOR / 2);
        assert_eq!(world.mtus.follow_paths(early, seen), Changed::new(), "others may follow");
        let now = now.after(GATHERED_FOR);
        assert_eq!(world.mtus.follow_paths(now, seen), changed(NET, Some(1346)));
        assert_eq!(world.mtus.follow_paths(now, seen), Changed::new());
        // Never less than Linux takes.
        let path = |_: &Sa| Some(300);
        let seen = Seen { databases: &world.databases, path: &path };
        world.mtus.paths_changed(now);
        let now = now.after(GATHERED_FOR);
        assert_eq!(world.mtus.follow_paths(now, seen), changed(NET, Some(552)));
        // The more policies there are, the more rarely it is done.
        for index in 2..=20_000 {
            world.put(policy(index, NET, 9));
        }
        world.mtus.paths_changed(now);
        let early = now.after(EACH * 19_999);
        assert_eq!(world.mtus.redo_at, Some(now.at + EACH * 20_000));
        let path = |_: &Sa| Some(1400);
        let seen = Seen { databases: &world.databases, path: &path };
        assert_eq!(world.mtus.follow_paths(early, seen), Changed::new());
    }
}
