//! Barriers for IPv6, as nftables rules.

use core::fmt::Write as _;
use std::collections::HashSet;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_NETFILTER};
use policy::{Direction, PortMask};
use xfrm::codec::{Field as _, Header, MessageWriter, flag, kind};

use crate::barrier::{Barrier, Effect};
use crate::classes::Classes;
use crate::direction_number;

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
}

impl Netfilter {
    pub fn new(instance: &str, tun: &str) -> Netfilter {
        Netfilter {
            table: format!("ip6 culvert-guard-{instance}"),
            spared: vec!["lo".into(), tun.into()],
            classes: Classes::default(),
            up: Vec::new(),
            early: Vec::new(),
            down: Vec::new(),
            quiet_until: None,
            is_known: false,
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

    /// Whether changes are pending.
    pub fn owes(&self) -> bool {
        !(self.up.is_empty() && self.early.is_empty() && self.down.is_empty())
    }

    /// When the table should be replaced.
    pub fn due(&self) -> Option<Instant> {
        self.quiet_until.filter(|_| self.owes())
    }

    /// Lets the next [`Netfilter::follow`] put nothing off.
    pub fn hurry(&mut self) {
        self.quiet_until = None;
    }

    /// Whether our table is missing; false where the kernel does not say.
    pub fn is_gone(&self) -> bool {
        self.is_known && has_table(&self.table).is_ok_and(|there| !there)
    }

    /// Whether the kernel has a table of this instance; false where it does not say.
    pub fn is_there(&self) -> bool {
        has_table(&self.table).unwrap_or(false)
    }

    /// Installs what blocks, and replaces the table if that is due or `now`. Returns what was
    /// removed, or after a failure what was not added.
    pub fn follow<'a>(
        &mut self,
        wanted: impl Iterator<Item = &'a Barrier>,
        now: bool,
    ) -> Result<Vec<Barrier>, (String, Vec<Barrier>)> {
        if !self.owes() {
            return Ok(Vec::new());
        }
        let mut gone = match !now && self.is_known {
            true => self.follow_elements(),
            false => Vec::new(),
        };
        let is_empty = self.classes.is_empty() && self.up.is_empty() && self.early.is_empty();
        // An empty table is deleted.
        let is_left_over = is_empty && self.is_known;
        if !self.owes() && !is_left_over {
            return Ok(gone);
        }
        let waits = !now && !is_empty && self.quiet_until.is_some_and(|t| t > Instant::now());
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
            if apply(&early_rules(&self.table, &blocks)).is_ok() {
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
        let result = apply(&ruleset(&self.table, &self.spared, &rules, &self.classes));
        // Replacing takes a fifth of the time at most.
        self.quiet_until = match rules.len() {
            0..=AT_ONCE => None,
            _ => Some(Instant::now() + (start.elapsed() * 4).max(QUIET)),
        };
        self.is_known = result.is_ok() && !rules.is_empty();
        match result {
            Ok(()) => {
                self.up.clear();
                self.early.clear();
                gone.append(&mut self.down);
                Ok(gone)
            }
            Err(error) => {
                self.quiet_until = Some(Instant::now() + crate::RETRY_INTERVAL);
                // To be returned once the table was replaced.
                self.down.append(&mut gone);
                Err((error, std::mem::take(&mut self.up)))
            }
        }
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
        if commands.is_empty() || apply(&commands).is_ok() {
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
    let line = |b: &Barrier| {
        let chain = EARLY.get(usize::from(b.direction())).unwrap_or(&EARLY[0]);
        match rule(b, &literal(b)).trim_start_matches("   ") {
            "" => String::new(),
            rule => format!("add rule {table} {chain}{rule}"),
        }
    };
    barriers.iter().map(line).collect()
}

/// Chains that come before all rules, for what blocks and is not in its place yet: in, out, forward.
const EARLY: [&str; 3] = ["early-in", "early-out", "early-fwd"];

/// The whole table as one transaction: nft replaces it at once, or leaves it as it is.
///
/// A chain for each policy look-up of XFRM: a forwarded packet has to pass the forward and the out
/// policies, and what one chain lets pass the other may still block. IKE of this host is exempt.
/// `barriers` come in order.
fn ruleset(table: &str, spared: &[String], barriers: &[&Barrier], classes: &Classes) -> String {
    // Declared first, so that deleting it does not fail where it is not there.
    let mut text = format!("table {table} {{}}\ndelete table {table}\n");
    if barriers.is_empty() {
        return text;
    }
    let mut seen = HashSet::new();
    let rules: Vec<Barrier> =
        barriers.iter().map(|b| b.class()).filter(|class| seen.insert(*class)).collect();
    let lines = |direction| -> String {
        let of_direction = rules.iter().filter(|b| b.direction() == direction_number(direction));
        of_direction.map(|class| rule(class, &classes.lookup(class))).collect()
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
    text.push_str(&format!("table {table} {{\n{}", classes.declarations()));
    for name in EARLY {
        text.push_str(&format!("  chain {name} {{}}\n"));
    }
    for (name, hook, spared, ike, direction) in chains {
        let early = EARLY[usize::from(direction_number(direction)) % EARLY.len()];
        text.push_str(&format!(
            "  chain {name} {{\n    type filter hook {hook} priority filter; policy accept;\n    \
             {spared}\n    {DISCOVERY}\n    {ike}\n    jump {early}\n{}  }}\n",
            lines(direction)
        ));
    }
    text.push_str("}\n");
    text
}

/// Neighbour discovery (RFC 4861), which no barrier may stop: without it no peer is reached.
const DISCOVERY: &str = "icmpv6 type { 133, 134, 135, 136, 137 } accept";

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

/// The rule of a barrier, given its match on addresses; empty for a barrier that no packet can match.
/// The interface is the one that XFRM compares: that of the packet's route, which is the loopback
/// for inbound packets.
fn rule(barrier: &Barrier, addresses: &str) -> String {
    let s = barrier.selector();
    let mut line = String::from("   ");
    let arrives = barrier.direction() == direction_number(Direction::In);
    match s.ifindex {
        0 => {}
        LOOPBACK if arrives => {}
        _ if arrives => return String::new(),
        ifindex => {
            let _ = write!(line, " oif {ifindex}");
        }
    }
    if let (value, mask @ 1..) = barrier.mark() {
        let _ = write!(line, " meta mark & {mask:#x} == {value:#x}");
    }
    line.push_str(addresses);
    if s.protocol != 0 {
        let _ = write!(line, " meta l4proto {}", s.protocol);
    }
    let (src, dst) = match s.protocol {
        ICMPV6 => ("icmpv6 type", "icmpv6 code"),
        _ => ("th sport", "th dport"),
    };
    for (name, PortMask { value, mask }) in [(src, s.src_port), (dst, s.dst_port)] {
        match mask {
            0 => {}
            u16::MAX => line.push_str(&format!(" {name} {value}")),
            mask => line.push_str(&format!(" {name} & {mask:#x} == {value:#x}")),
        }
    }
    line.push_str(match barrier.effect() {
        Effect::Block => " drop\n",
        Effect::Pass => " accept\n",
    });
    line
}

/// The loopback's index, in every namespace.
const LOOPBACK: u32 = 1;

/// Whether the kernel has a table of this name (`ip6 NAME`): nfnetlink, `NFT_MSG_GETTABLE`.
fn has_table(table: &str) -> std::io::Result<bool> {
    let name = table.trim_start_matches("ip6 ");
    let mut socket = Socket::new(NETLINK_NETFILTER)?;
    socket.bind_auto()?;
    socket.connect(&SocketAddr::new(0, 0))?;
    let mut writer = MessageWriter::new(GET_TABLE, flag::REQUEST, 1, 0);
    // nfgenmsg: family, version, resource.
    writer.fixed(&u32::from_ne_bytes([NFPROTO_IPV6, 0, 0, 0]));
    writer.attribute(TABLE_NAME, &[name.as_bytes(), &[0]].concat());
    socket.send(&writer.finish(), 0)?;
    let (answer, _) = socket.recv_from_full()?;
    let header = Header::decode(&answer).map_err(|_| std::io::ErrorKind::InvalidData)?;
    if header.kind != kind::ERROR {
        return Ok(true);
    }
    match crate::kernel::acknowledged(&answer) {
        Err(error) if error.raw_os_error() == Some(crate::NO_ENTRY) => Ok(false),
        other => other.map(|()| true),
    }
}

/// nf_tables' subsystem and message.
const GET_TABLE: u16 = 10 << 8 | 1;
const TABLE_NAME: u16 = 1;
const NFPROTO_IPV6: u8 = 10;

/// Hands a ruleset to `nft`, which carries out all of it or nothing.
///
/// # Errors
/// What it said, or why it cannot be started.
pub fn apply(ruleset: &str) -> Result<(), String> {
    let mut child = Command::new("nft")
        .args(["-f", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|e| e.to_string())?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(ruleset.as_bytes()).map_err(|e| e.to_string())?;
    }
    let output = child.wait_with_output().map_err(|e| e.to_string())?;
    match output.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
    }
}

const ICMPV6: u8 = 58;
