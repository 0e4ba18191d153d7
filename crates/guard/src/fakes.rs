//! A kernel's XFRM and an nf_tables in memory, which refuse what they are told to, and say what becomes of packets.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard};

use policy::Selector;
use xfrm::codec::Field as _;

use crate::barrier::{Barrier, Effect};
use crate::kernel::{Found, Listing, Policies, Tag, attributes, policy_info};
use crate::nft::{Nft, NftError};
use crate::threshold::{FRESH, Threshold};

/// A packet, as both the policies and the rules see it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packet {
    /// `XFRM_POLICY_IN`, `OUT` or `FWD`.
    pub direction: u8,
    pub src: IpAddr,
    pub dst: IpAddr,
    pub protocol: u8,
    pub ports: (u16, u16),
    pub ifindex: u32,
    pub mark: u32,
}

/// Refusals of the fake kernel.
#[derive(Clone, Debug, Default)]
pub(crate) struct Moods {
    /// Kernel policies whose selector has this in its protocol are refused.
    pub protocols: HashSet<u8>,
    /// Every policy of this priority is refused.
    pub priorities: HashSet<u32>,
    /// Words that no ruleset may have.
    pub words: BTreeSet<String>,
    pub has_nft: bool,
    /// nft answers nothing but an error.
    pub nft_fails: bool,
}

/// The kernel, which outlives guards.
#[derive(Clone, Debug)]
pub(crate) struct World(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    moods: Moods,
    /// In order of their coming; replaced in their place.
    policies: Vec<Policy>,
    next_index: u32,
    tables: BTreeMap<String, Table>,
    transactions: usize,
}

#[derive(Clone, Debug)]
struct Policy {
    index: u32,
    identity: Barrier,
    barrier: Barrier,
    tag: Option<Tag>,
}

impl World {
    pub(crate) fn new() -> World {
        let moods = Moods { has_nft: true, ..Moods::default() };
        World(Arc::new(Mutex::new(State {
            moods,
            policies: Vec::new(),
            next_index: 8,
            tables: BTreeMap::new(),
            transactions: 0,
        })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    pub(crate) fn set_moods(&self, change: impl FnOnce(&mut Moods)) {
        change(&mut self.state().moods);
    }

    /// How often nft was started.
    pub(crate) fn transactions(&self) -> usize {
        self.state().transactions
    }

    pub(crate) fn flush_policies(&self) {
        self.state().policies.clear();
    }

    pub(crate) fn flush_rules(&self) {
        self.state().tables.clear();
    }

    /// A policy that nobody knows of: ours if it has a tag.
    pub(crate) fn plant(&self, barrier: Barrier, tag: Option<Tag>) {
        self.state().put(barrier, tag);
    }

    pub(crate) fn policies(&self) -> Vec<Barrier> {
        self.state().policies.iter().map(|p| p.barrier).collect()
    }

    /// How many rules, elements and policies there are.
    pub(crate) fn is_empty(&self) -> bool {
        let state = self.state();
        state.policies.is_empty() && state.tables.is_empty()
    }

    /// True if a packet passes both.
    pub(crate) fn passes(&self, packet: &Packet) -> bool {
        let state = self.state();
        // Linux: by priority, of the same the older.
        let matching = state.policies.iter().filter(|p| meets(&p.barrier, packet));
        let first = matching.min_by_key(|p| p.barrier.priority());
        if first.is_some_and(|p| p.barrier.effect() == Effect::Block) {
            return false;
        }
        packet.src.is_ipv4() || state.tables.values().all(|table| table.passes(packet))
    }
}

impl State {
    fn put(&mut self, barrier: Barrier, tag: Option<Tag>) {
        let identity = barrier.identity();
        let old = self.policies.iter().position(|p| p.identity == identity);
        match old {
            Some(at) => {
                let new = Policy { index: self.policies[at].index, identity, barrier, tag };
                if self.policies[at].barrier.priority() == barrier.priority() {
                    self.policies[at] = new;
                    return;
                }
                // With another priority it is the youngest of its own.
                self.policies.remove(at);
                self.policies.push(new);
            }
            None => {
                let index = self.next_index + u32::from(barrier.direction());
                self.next_index += 8;
                self.policies.push(Policy { index, identity, barrier, tag });
            }
        }
    }
}

/// True if a packet meets a barrier's policy, as Linux compares it.
pub(crate) fn meets(barrier: &Barrier, packet: &Packet) -> bool {
    let s = barrier.selector();
    let (value, mask) = barrier.mark();
    barrier.direction() == packet.direction
        && s.src.addr.is_ipv4() == packet.src.is_ipv4()
        && packet.mark & mask == value
        && (s.ifindex == 0 || s.ifindex == packet.ifindex)
        && selects(&s, packet)
}

fn selects(s: &Selector, packet: &Packet) -> bool {
    let port = |p: policy::PortMask, port: u16| (port ^ p.value) & p.mask == 0;
    s.src.contains(packet.src)
        && s.dst.contains(packet.dst)
        && (s.protocol == 0 || s.protocol == packet.protocol)
        && port(s.src_port, packet.ports.0)
        && port(s.dst_port, packet.ports.1)
}

/// The kernel's XFRM for one instance.
#[derive(Debug)]
pub(crate) struct FakeKernel(pub World, pub Tag);

impl Policies for FakeKernel {
    fn put(&mut self, barriers: &[Barrier]) -> Vec<io::Result<()>> {
        let mut state = self.0.state();
        let one = |barrier: &Barrier| {
            let s = barrier.selector();
            let moods = &state.moods;
            if moods.protocols.contains(&s.protocol) && s.protocol != 0
                || moods.priorities.contains(&barrier.priority())
            {
                return Err(io::Error::from_raw_os_error(22));
            }
            state.put(*barrier, Some(self.1));
            Ok(())
        };
        barriers.iter().map(one).collect()
    }

    fn remove(&mut self, barriers: &[Barrier]) -> Vec<io::Result<()>> {
        let mut state = self.0.state();
        let one = |barrier: &Barrier| {
            let before = state.policies.len();
            state.policies.retain(|p| p.identity != barrier.identity());
            match state.policies.len() < before {
                true => Ok(()),
                false => Err(io::Error::from_raw_os_error(crate::kernel::NO_ENTRY)),
            }
        };
        barriers.iter().map(one).collect()
    }

    fn remove_found(&mut self, found: &[Found]) -> Vec<io::Result<()>> {
        let mut state = self.0.state();
        let one = |found: &Found| {
            state.policies.retain(|p| p.index != found.index());
            Ok(())
        };
        found.iter().map(one).collect()
    }

    fn listing(&mut self) -> io::Result<Listing> {
        let mut listing = Listing::new(self.1);
        for policy in &self.0.state().policies {
            let mut info =
                policy_info(&policy.barrier, policy.tag.unwrap_or(Tag::of("a stranger")));
            info.index = policy.index;
            listing.note(&[info.to_bytes(), attributes(&policy.barrier)].concat());
        }
        Ok(listing)
    }

    fn counts(&mut self) -> io::Result<[u32; 3]> {
        let mut counts = [0; 3];
        for policy in &self.0.state().policies {
            counts[usize::from(policy.barrier.direction())] += 1;
        }
        Ok(counts)
    }

    fn threshold(&mut self) -> io::Result<Threshold> {
        Ok(FRESH)
    }

    fn set_threshold(&mut self, _: Threshold) -> io::Result<()> {
        Ok(())
    }
}

/// nf_tables, which reads what the guard writes and refuses every word that it does not know.
#[derive(Debug)]
pub(crate) struct FakeNft(pub World);

impl FakeNft {
    fn run(&self, ruleset: &str, commits: bool) -> Result<(), NftError> {
        let mut state = self.0.state();
        state.transactions += 1;
        if !state.moods.has_nft {
            return Err(NftError::Missing(io::ErrorKind::NotFound.into()));
        }
        if state.moods.nft_fails {
            return Err(NftError::Said("cache initialization failed".into()));
        }
        let padded = format!(" {} ", ruleset.replace(['\n', ';'], " "));
        if let Some(word) =
            state.moods.words.iter().find(|word| padded.contains(&format!(" {word} ")))
        {
            return Err(NftError::Said(format!("Error: no {word} today")));
        }
        let mut tables = state.tables.clone();
        read(&mut tables, ruleset).map_err(NftError::Said)?;
        if commits {
            state.tables = tables;
        }
        Ok(())
    }
}

impl Nft for FakeNft {
    fn apply(&mut self, ruleset: &str) -> Result<(), NftError> {
        self.run(ruleset, true)
    }

    fn check(&mut self, ruleset: &str) -> Result<(), NftError> {
        self.run(ruleset, false)
    }

    fn has_table(&mut self, table: &str) -> io::Result<bool> {
        Ok(self.0.state().tables.contains_key(table))
    }
}

/// A table: elements by set, rules by chain.
#[derive(Clone, Debug, Default)]
struct Table {
    sets: HashMap<String, HashSet<Vec<IpAddr>>>,
    chains: BTreeMap<String, Vec<Vec<String>>>,
}

impl Table {
    /// True if a packet, not of this host's loopback or the private interface, passes the chains
    /// of its direction.
    fn passes(&self, packet: &Packet) -> bool {
        let chains: &[&str] = match packet.direction {
            0 => &["arrived"],
            1 => &["local", "forwarded"],
            _ => &["passing"],
        };
        // One table passes if each of its chains does; a packet that leaves meets one of the two, which say the same.
        chains.iter().all(|chain| self.verdict(chain, packet) != Some(false))
    }

    fn verdict(&self, chain: &str, packet: &Packet) -> Option<bool> {
        for rule in self.chains.get(chain)? {
            let words: Vec<&str> = rule.iter().map(String::as_str).collect();
            if let ["jump", other] = words[..] {
                if let Some(verdict) = self.verdict(other, packet) {
                    return Some(verdict);
                }
                continue;
            }
            if let Some(verdict) = self.rule(&words, packet) {
                return Some(verdict);
            }
        }
        None
    }

    /// The verdict of a rule that a packet meets.
    fn rule(&self, words: &[&str], packet: &Packet) -> Option<bool> {
        let mut rest = words;
        loop {
            rest = match rest {
                ["accept"] => return Some(true),
                ["drop"] => return Some(false),
                // By name: never the packets of these tests.
                ["iifname" | "oifname", ..] => return None,
                ["icmpv6", "type", "{", ..] | ["udp", ..] => return self.exempts(words, packet),
                ["oif", index, rest @ ..] => {
                    let index: u32 = index.parse().unwrap();
                    (packet.ifindex == index).then_some(rest)?
                }
                ["meta", "mark", "&", mask, "==", value, rest @ ..] => {
                    (packet.mark & hex(mask) == hex(value)).then_some(rest)?
                }
                ["meta", "l4proto", is_not @ ("{" | "!="), rest @ ..] => {
                    let is_not = *is_not == "!=";
                    let end = rest.iter().position(|word| *word == "}")?;
                    let mut listed = rest[..end].iter().map(|word| word.trim_end_matches(','));
                    let is_one = listed.any(|word| word.parse() == Ok(packet.protocol));
                    (is_one != is_not).then_some(&rest[end + 1..])?
                }
                ["meta", "l4proto", protocol, rest @ ..] => {
                    let protocol: u8 = protocol.parse().unwrap();
                    (packet.protocol == protocol).then_some(rest)?
                }
                ["icmpv6", ..] if packet.protocol != 58 => return None,
                ["th" | "icmpv6", which, "&", mask, "==", value, rest @ ..] => {
                    let port = u32::from(port(which, packet));
                    (port & hex(mask) == hex(value)).then_some(rest)?
                }
                ["th" | "icmpv6", which, value, rest @ ..] => {
                    let value: u16 = value.parse().unwrap();
                    (port(which, packet) == value).then_some(rest)?
                }
                ["ip6", ..] => {
                    let at = rest.iter().position(|word| word.starts_with('@'));
                    match at {
                        Some(at) => {
                            let key = key(&rest[..at], packet);
                            let set = self.sets.get(&rest[at][1..]).unwrap();
                            set.contains(&key).then_some(&rest[at + 1..])?
                        }
                        None => {
                            let ["ip6", side, prefix, after @ ..] = rest else {
                                unreachable!("{rest:?}")
                            };
                            let (addr, len) = prefix.split_once('/').unwrap();
                            let prefix = policy::Prefix {
                                addr: addr.parse().unwrap(),
                                len: len.parse().unwrap(),
                            };
                            prefix.contains(self::side(side, packet)).then_some(after)?
                        }
                    }
                }
                other => unreachable!("{other:?} of {words:?}"),
            };
        }
    }

    /// Neighbour discovery and IKE.
    fn exempts(&self, words: &[&str], packet: &Packet) -> Option<bool> {
        let open = words.iter().position(|word| *word == "{")?;
        let listed =
            words[open..].iter().filter_map(|word| word.trim_end_matches(',').parse::<u16>().ok());
        let (protocol, number) = match words {
            ["icmpv6", ..] => (58, packet.ports.0),
            ["udp", "sport", ..] => (17, packet.ports.0),
            _ => (17, packet.ports.1),
        };
        let is_meant = { listed }.any(|listed| listed == number) && packet.protocol == protocol;
        is_meant.then_some(true)
    }
}

fn side(name: &str, packet: &Packet) -> IpAddr {
    if name == "saddr" { packet.src } else { packet.dst }
}

fn port(name: &str, packet: &Packet) -> u16 {
    if matches!(name, "sport" | "type") { packet.ports.0 } else { packet.ports.1 }
}

fn hex(text: &str) -> u32 {
    u32::from_str_radix(text.trim_start_matches("0x"), 16).unwrap()
}

/// `ip6 saddr & MASK . ip6 daddr` of a packet.
fn key(words: &[&str], packet: &Packet) -> Vec<IpAddr> {
    words
        .split(|word| *word == ".")
        .map(|field| {
            let IpAddr::V6(addr) = side(field[1], packet) else { unreachable!() };
            match field {
                [_, _, "&", mask] => {
                    let mask: std::net::Ipv6Addr = mask.parse().unwrap();
                    IpAddr::V6((addr.to_bits() & mask.to_bits()).into())
                }
                _ => IpAddr::V6(addr),
            }
        })
        .collect()
}

/// Carries out a ruleset, as far as nft 1.0 takes it.
fn read(tables: &mut BTreeMap<String, Table>, ruleset: &str) -> Result<(), String> {
    let (mut table, mut chain) = (String::new(), None::<String>);
    for line in ruleset.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["table", "ip6", name, "{}"] => {
                tables.entry(format!("ip6 {name}")).or_default();
            }
            ["delete", "table", "ip6", name] => {
                tables.remove(&format!("ip6 {name}")).ok_or("Error: No such file")?;
            }
            ["table", "ip6", name, "{"] => {
                table = format!("ip6 {name}");
                tables.entry(table.clone()).or_default();
            }
            ["add", "rule", "ip6", name, chain, ref rule @ ..] => {
                let table = tables.get_mut(&format!("ip6 {name}")).ok_or("Error: No such file")?;
                let chain = table.chains.get_mut(chain).ok_or("Error: No such file")?;
                chain.push(legal(rule)?);
            }
            [
                verb @ ("add" | "delete"),
                "element",
                "ip6",
                name,
                set,
                "{",
                ref addresses @ ..,
                "}",
            ] => {
                let table = tables.get_mut(&format!("ip6 {name}")).ok_or("Error: No such file")?;
                let set = table.sets.get_mut(set).ok_or("Error: No such file")?;
                let element = element(&addresses.join(" "));
                match verb {
                    "add" => set.insert(element),
                    _ => set.remove(&element).then_some(true).ok_or("Error: No such file")?,
                };
            }
            ["set", name, ..] => {
                let elements = line.split_once("elements = {").map(|(_, rest)| rest);
                let elements = elements.map_or("", |rest| rest.split('}').next().unwrap());
                let elements = elements.split(',').filter(|text| !text.trim().is_empty());
                let set = elements.map(element).collect();
                tables.get_mut(&table).unwrap().sets.insert(name.into(), set);
            }
            ["chain", name, "{}"] => {
                tables.get_mut(&table).unwrap().chains.entry(name.into()).or_default();
            }
            ["chain", name, "{"] => {
                chain = Some(name.into());
                tables.get_mut(&table).unwrap().chains.entry(name.into()).or_default();
            }
            ["}"] => chain = None,
            ["type", ..] => {}
            ref rule => {
                let name = chain.clone().ok_or("Error: syntax error")?;
                let rule = legal(rule)?;
                tables.get_mut(&table).unwrap().chains.get_mut(&name).unwrap().push(rule);
            }
        }
    }
    Ok(())
}

fn element(text: &str) -> Vec<IpAddr> {
    text.split(" . ").map(|addr| addr.trim().parse().unwrap()).collect()
}

/// A rule, unless nft would refuse it.
fn legal(words: &[&str]) -> Result<Vec<String>, String> {
    for pair in words.windows(2) {
        if let ["oif", index] = pair
            && index.parse::<i32>().is_err()
        {
            return Err("Error: Interface does not exist".into());
        }
    }
    for three in words.windows(3) {
        if let ["icmpv6", "type" | "code", value] = three
            && value.parse::<u32>().is_ok_and(|value| value > 255)
        {
            return Err(format!("Error: Value {value} exceeds valid range 0-255"));
        }
    }
    for six in words.windows(6) {
        if let ["icmpv6", "type" | "code", "&", mask, "==", value] = six
            && (hex(mask) > 255 || hex(value) > 255)
        {
            return Err(format!("Error: Value {value} exceeds valid range 0-255"));
        }
    }
    Ok(words.iter().map(|word| (*word).to_owned()).collect())
}

/// A listing of the real kernel, as it would be with a mark that it has cut.
#[test]
fn a_found_policy_of_ours_is_told_from_others() {
    use xfrm::codec::{Header, MarkAttribute, MessageWriter, attr, kind};

    let prefix = policy::Prefix { addr: [10, 2, 0, 0].into(), len: 16 };
    let [barrier, other, _] = Barrier::of_prefix(prefix);
    let (ours, theirs) = (Tag::of("default"), Tag::of("another"));
    let mut listing = Listing::new(ours);
    for (barrier, tag) in [(barrier, ours), (other, theirs)] {
        listing.note(&[policy_info(&barrier, tag).to_bytes(), attributes(&barrier)].concat());
    }
    assert!(listing.has(&barrier) && !listing.has(&other));
    assert_eq!(listing.stale([].iter()).len(), 1, "one of another instance is not ours");
    assert!(listing.stale([barrier].iter()).is_empty());
    // With a template it is somebody's own by now.
    let mut w = MessageWriter::new(kind::NEWPOLICY, 0, 0, 0);
    w.raw(&policy_info(&barrier, ours).to_bytes());
    w.attribute(attr::TMPL, &[0; 64]).field(attr::MARK, &MarkAttribute { value: 1, mask: 1 });
    listing.note(w.finish().get(Header::LEN..).unwrap());
    assert_eq!(listing.stale([].iter()).len(), 1);
}
