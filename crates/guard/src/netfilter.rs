//! Barriers for IPv6, as nftables rules.

use core::fmt::Write as _;
use std::collections::HashSet;
use std::time::{Duration, Instant};

use policy::{Direction, PortMask, Selector};

use crate::barrier::{Barrier, DISCOVERY, Effect, ICMPV6, direction_number};
use crate::classes::Classes;
use crate::nft::{Nft, NftError};

/// The table with the barriers for IPv6.
///
/// A barrier of a class that is in the table ([`Classes`]) is added and removed as an element of its
/// set. For a new class the table is replaced as a whole, which takes time in proportion to its
/// size. So where the table is large, a barrier that blocks is first added to a chain that comes
/// before all others, and the table is replaced a little later. Only what lets more pass than before
/// waits for that.
#[derive(Debug)]
pub(crate) struct Netfilter {
    table: String,
    /// Interfaces that no barrier is for.
    spared: Vec<String>,
    /// The sets of the table.
    classes: Classes,
    /// To be added.
    up: Vec<Barrier>,
    /// In the early chains, to be moved to their places.
    early: Vec<Barrier>,
    /// To be removed.
    down: Vec<Barrier>,
    /// When the table may be replaced again.
    quiet_until: Option<Instant>,
    /// Our table is installed and, as far as is known, as we made it.
    is_known: bool,
    /// The table is to be replaced whatever else changes: a transaction has failed.
    is_owed: bool,
    /// A table of ours stands that could not be replaced.
    is_left: bool,
    nft: Box<dyn Nft>,
}

/// Why the table could not be replaced. The one that stood before still does.
#[derive(Debug)]
pub(crate) enum Failure {
    /// These classes are refused, each with nft's answer. Without them the table can be.
    Refused(Vec<(Barrier, String)>),
    /// No table of ours can be.
    Unusable(NftError),
}

impl Netfilter {
    pub fn new(instance: &str, tun: &str, nft: Box<dyn Nft>) -> Netfilter {
        Netfilter {
            table: format!("ip6 culvert-guard-{instance}"),
            spared: vec!["lo".into(), tun.into()],
            classes: Classes::default(),
            up: Vec::new(),
            early: Vec::new(),
            down: Vec::new(),
            quiet_until: None,
            is_known: false,
            is_owed: false,
            is_left: false,
            nft,
        }
    }

    /// Spares these interfaces too, and no others than before these; the next table that is made does.
    pub fn spare(&mut self, interfaces: impl IntoIterator<Item = String>) {
        self.spared.truncate(2);
        self.spared.extend(interfaces);
    }

    /// Queues a barrier to be added.
    pub fn up(&mut self, barrier: Barrier) {
        self.up.push(barrier);
    }

    /// Queues a barrier to be removed.
    pub fn down(&mut self, barrier: Barrier) {
        self.down.push(barrier);
    }

    /// True if changes are pending.
    pub fn owes(&self) -> bool {
        self.is_owed
            || self.is_left
            || !(self.up.is_empty() && self.early.is_empty() && self.down.is_empty())
    }

    /// True if the table is to be replaced at once.
    pub fn is_owed(&self) -> bool {
        self.is_owed
    }

    /// Forgets what is to be added: none of it can be.
    pub fn give_up(&mut self) {
        self.up.clear();
        self.early.clear();
        (self.classes, self.is_known, self.is_owed) = (Classes::default(), false, false);
        self.is_left = self.is_there();
    }

    /// Removes the table.
    pub fn remove_table(&mut self) -> Result<(), NftError> {
        let (table, spared) = (&self.table, &self.spared);
        self.nft.apply(&ruleset(table, spared, &[], &Classes::default()))
    }

    /// When the table should be replaced.
    pub fn due(&self) -> Option<Instant> {
        self.quiet_until.filter(|_| self.owes())
    }

    /// Lets the next [`Netfilter::follow`] put nothing off.
    pub fn hurry(&mut self) {
        self.quiet_until = None;
    }

    /// True if our table is missing. False where the kernel does not tell.
    pub fn is_gone(&mut self) -> bool {
        self.is_known && self.nft.has_table(&self.table).is_ok_and(|there| !there)
    }

    /// True if the kernel has a table of this instance. False where it does not tell.
    pub fn is_there(&mut self) -> bool {
        self.nft.has_table(&self.table).unwrap_or(false)
    }

    /// Installs what blocks, and replaces the table if that is due or has to be `at_once`. Returns what was
    /// removed.
    ///
    /// # Errors
    /// The table that stands in the way. The next call, without that, replaces the table at once.
    pub fn follow<'a>(
        &mut self,
        wanted: impl Iterator<Item = &'a Barrier>,
        now: Instant,
        at_once: bool,
    ) -> Result<Vec<Barrier>, Failure> {
        if !self.owes() {
            return Ok(Vec::new());
        }
        let mut gone = match !at_once && self.is_known {
            true => self.follow_elements(),
            false => Vec::new(),
        };
        let is_empty = self.classes.is_empty() && self.up.is_empty() && self.early.is_empty();
        // An empty table is deleted.
        let is_left_over = is_empty && self.is_known;
        if !self.owes() && !is_left_over {
            return Ok(gone);
        }
        let waits = !at_once && !is_empty && self.quiet_until.is_some_and(|t| t > now);
        if waits && !self.is_known && self.up.is_empty() {
            return Ok(gone);
        }
        if waits && self.is_known {
            let (blocks, passes): (Vec<_>, Vec<_>) =
                self.up.drain(..).partition(|b| b.effect() == Effect::Block);
            self.up = passes;
            if blocks.is_empty() {
                return Ok(gone);
            }
            if self.nft.apply(&early_rules(&self.table, &blocks)).is_ok() {
                self.early.extend(blocks);
                return Ok(gone);
            }
            // Most likely somebody deleted the table.
            self.up.extend(blocks);
        }
        let mut rules: Vec<&Barrier> = wanted.collect();
        rules.sort_by_cached_key(|b| (b.rank(), b.class().to_string()));
        self.classes = Classes::new(&rules);
        let start = Instant::now();
        let text = ruleset(&self.table, &self.spared, &rules, &self.classes);
        let result = self.nft.apply(&text);
        // Replacing takes a fifth of the time at most.
        self.quiet_until = match rules.len() {
            0..=AT_ONCE => None,
            _ => Some(now + (start.elapsed() * 4).max(QUIET)),
        };
        let was_known = std::mem::replace(&mut self.is_known, false);
        if let Err(error) = result {
            // To be returned once the table was replaced.
            self.down.append(&mut gone);
            (self.quiet_until, self.is_owed) = (None, true);
            if let Some(refused) = self.refused(&rules, was_known, &text, error)? {
                let classes: HashSet<Barrier> = refused.iter().map(|(class, _)| *class).collect();
                self.up.retain(|b| !classes.contains(&b.class()));
                self.early.retain(|b| !classes.contains(&b.class()));
                return Err(Failure::Refused(refused));
            }
        }
        (self.is_known, self.is_owed, self.is_left) = (!rules.is_empty(), false, false);
        self.up.clear();
        self.early.clear();
        gone.append(&mut self.down);
        Ok(gone)
    }

    /// The table with these rules, which come in order; also without any.
    pub(crate) fn frame(&self, rules: &[&Barrier], classes: &Classes) -> String {
        let head = format!("table {0} {{}}\ndelete table {0}\n", self.table);
        head + &content(&self.table, &self.spared, rules, classes)
    }

    /// Barriers that are to be added.
    pub(crate) fn new_ones(&self) -> impl Iterator<Item = Barrier> {
        self.up.iter().copied()
    }

    pub(crate) fn nft(&mut self) -> &mut dyn Nft {
        &mut *self.nft
    }

    /// Applies the changes that elements alone can express; returns what was removed.
    fn follow_elements(&mut self) -> Vec<Barrier> {
        let (come, up) = self.up.drain(..).partition(|b| self.classes.knows(b));
        let (go, down): (Vec<_>, _) = self.down.drain(..).partition(|b| self.classes.can_let_go(b));
        (self.up, self.down) = (up, down);
        let come: Vec<Barrier> = come;
        if come.is_empty() && go.is_empty() {
            return go;
        }
        let commands = self.classes.change(&self.table, &come, &go);
        if commands.is_empty() || self.nft.apply(&commands).is_ok() {
            return go;
        }
        // Most likely somebody deleted the table: it is made anew.
        self.is_known = false;
        self.up.extend(come);
        self.down.extend(go);
        Vec::new()
    }
}

/// Largest table, in rules, that is replaced at every change.
const AT_ONCE: usize = 64;

/// Least time between two replacements of a larger table.
const QUIET: Duration = Duration::from_millis(500);

/// Commands that add these barriers to the early chains.
fn early_rules(table: &str, barriers: &[Barrier]) -> String {
    let lines = |b: &Barrier| -> String {
        let chain = EARLY.get(usize::from(b.direction())).unwrap_or(&EARLY[0]);
        let rules = rules(b, &literal(b)).into_iter();
        rules.map(|rule| format!("add rule {table} {chain} {rule}\n")).collect()
    };
    barriers.iter().map(lines).collect()
}

/// Chains that come before all rules, for what blocks and is not in its place yet: in, out, forward.
const EARLY: [&str; 3] = ["early-in", "early-out", "early-fwd"];

/// The whole table as one transaction: nft replaces it at once, or leaves it as it is. None if there are no barriers.
fn ruleset(table: &str, spared: &[String], barriers: &[&Barrier], classes: &Classes) -> String {
    // Declared first, so that deleting it does not fail where it is not there.
    let head = format!("table {table} {{}}\ndelete table {table}\n");
    if barriers.is_empty() {
        return head;
    }
    head + &content(table, spared, barriers, classes)
}

/// The table's chains and rules.
///
/// A chain for each policy look-up of XFRM: a forwarded packet has to pass the forward and the out
/// policies, and what one chain lets pass the other may still block. IKE of this host is exempt.
/// `barriers` come in order.
fn content(table: &str, spared: &[String], barriers: &[&Barrier], classes: &Classes) -> String {
    let mut text = String::new();
    let mut seen = HashSet::new();
    let kinds: Vec<Barrier> =
        barriers.iter().map(|b| b.class()).filter(|class| seen.insert(*class)).collect();
    let lines = |direction| -> String {
        let of_direction = kinds.iter().filter(|b| b.direction() == direction_number(direction));
        let rules = of_direction.flat_map(|class| rules(class, &classes.lookup(class)));
        rules.map(|rule| format!("    {rule}\n")).collect()
    };
    let spared: Vec<String> = spared.iter().map(|name| format!("\"{name}\"")).collect();
    let spared = spared.join(", ");
    let from = format!("iifname {{ {spared} }} accept");
    let to = format!("oifname {{ {spared} }} accept");
    let chains = [
        ("local", "output", &to, "udp sport { 500, 4500 } accept", Direction::Out),
        ("forwarded", "forward", &to, "", Direction::Out),
        ("arrived", "input", &from, "udp dport { 500, 4500 } accept", Direction::In),
        ("passing", "forward", &from, "", Direction::Forward),
    ];
    // Without it no peer is reached.
    let discovery = DISCOVERY.map(|kind| kind.to_string()).join(", ");
    text.push_str(&format!("table {table} {{\n{}", classes.declarations()));
    for name in EARLY {
        text.push_str(&format!("  chain {name} {{}}\n"));
    }
    for (name, hook, spared, ike, direction) in chains {
        let early = EARLY[usize::from(direction_number(direction)) % EARLY.len()];
        text.push_str(&format!(
            "  chain {name} {{\n    type filter hook {hook} priority filter; policy accept;\n    \
             {spared}\n    icmpv6 type {{ {discovery} }} accept\n    {ike}\n    jump {early}\n{}  }}\n",
            lines(direction)
        ));
    }
    text.push_str("}\n");
    text
}

/// The addresses of one barrier.
fn literal(barrier: &Barrier) -> String {
    let s = barrier.selector();
    let mut text = String::new();
    for (name, prefix) in [("saddr", s.src), ("daddr", s.dst)] {
        if prefix.len > 0 {
            let _ = write!(text, " ip6 {name} {}/{}", prefix.addr, prefix.len);
        }
    }
    text
}

/// The rules of a barrier, given its match on addresses; none for a barrier that no packet can match.
/// The interface is the one that XFRM compares: that of the packet's route, which is the loopback
/// for inbound packets.
fn rules(barrier: &Barrier, addresses: &str) -> Vec<String> {
    let s = barrier.selector();
    let mut matches = Vec::new();
    let arrives = barrier.direction() == direction_number(Direction::In);
    match s.ifindex {
        0 => {}
        LOOPBACK if arrives => {}
        _ if arrives => return Vec::new(),
        ifindex => matches.push(format!("oif {ifindex}")),
    }
    if let (value, mask @ 1..) = barrier.mark() {
        matches.push(format!("meta mark & {mask:#x} == {value:#x}"));
    }
    matches.push(addresses.trim().to_owned());
    let verdict = match barrier.effect() {
        Effect::Block => "drop",
        Effect::Pass => "accept",
    };
    let rule = |upper: String| {
        let words = matches.iter().map(String::as_str).chain([upper.as_str(), verdict]);
        words.filter(|words| !words.is_empty()).collect::<Vec<_>>().join(" ")
    };
    uppers(&s).into_iter().map(rule).collect()
}

/// The matches on the upper layer, each a rule's, as XFRM has it: protocols without ports have 0 there, and ICMPv6 its
/// type and code. None if no packet can match.
fn uppers(s: &Selector) -> Vec<String> {
    let asked = [s.src_port, s.dst_port].map(|p| PortMask { value: p.value & p.mask, ..p });
    let protocol = match s.protocol {
        0 => String::new(),
        protocol => format!("meta l4proto {protocol}"),
    };
    let is_zero = asked.iter().all(|p| p.value == 0);
    match s.protocol {
        _ if asked.iter().all(|p| p.mask == 0) => vec![protocol],
        ICMPV6 => vec![format!("{protocol} {}", fields(ICMP_FIELDS, asked))],
        n if WITH_PORTS.contains(&n) => vec![format!("{protocol} {}", fields(PORT_FIELDS, asked))],
        0 => {
            let all = WITH_PORTS.map(|protocol| protocol.to_string()).join(", ");
            let mut uppers =
                vec![format!("meta l4proto {{ {all} }} {}", fields(PORT_FIELDS, asked))];
            // A type has eight bits.
            if asked.iter().all(|p| p.value <= 0xff) {
                let asked = asked.map(|p| PortMask { mask: p.mask & 0xff, ..p });
                let fields = fields(ICMP_FIELDS, asked);
                uppers.push(format!("meta l4proto {ICMPV6} {fields}"));
            }
            if is_zero {
                uppers.push(format!("meta l4proto != {{ {all}, {ICMPV6} }}"));
            }
            uppers
        }
        // The bytes read there would be no port.
        _ if is_zero => vec![protocol],
        _ => Vec::new(),
    }
}

/// Matches on two fields.
fn fields(names: [&str; 2], asked: [PortMask; 2]) -> String {
    let one = |(name, PortMask { value, mask }): (&str, PortMask)| match mask {
        0 => None,
        u16::MAX => Some(format!("{name} {value}")),
        0xff if names == ICMP_FIELDS => Some(format!("{name} {value}")),
        _ => Some(format!("{name} & {mask:#x} == {value:#x}")),
    };
    names.into_iter().zip(asked).filter_map(one).collect::<Vec<_>>().join(" ")
}

const PORT_FIELDS: [&str; 2] = ["th sport", "th dport"];
const ICMP_FIELDS: [&str; 2] = ["icmpv6 type", "icmpv6 code"];

/// Protocols whose ports XFRM compares: TCP, UDP, DCCP, SCTP, UDP-Lite.
const WITH_PORTS: [u8; 5] = [6, 17, 33, 132, 136];

/// Why no rule can be made for a barrier, where that is known beforehand.
pub(crate) fn impossible(barrier: &Barrier) -> Option<String> {
    let ifindex = barrier.selector().ifindex;
    let arrives = barrier.direction() == direction_number(Direction::In);
    let is_beyond = ifindex > i32::MAX.cast_unsigned() && !arrives;
    is_beyond.then(|| format!("no interface can have the index {}", ifindex.cast_signed()))
}

/// The loopback's index, in every namespace.
const LOOPBACK: u32 = 1;
