//! Translates `iptables` rules that match IPsec into matches on the private interface.
//!
//! strongSwan's script `_updown`, and firewalls that were made for it, match by `-m policy --pol ipsec`
//! whether a packet came out of a tunnel, or goes into one. The kernel cannot tell, as culvert does the
//! ESP. Packets out of culvert's tunnels come in by the private interface, and packets into them leave
//! by it:
//!
//! ```text
//! -i eth0 -m policy --dir in --pol ipsec --reqid 1 --proto esp    -i culvert0
//! -o eth0 -m policy --dir out --pol ipsec --reqid 1 --proto esp   -o culvert0
//! -m policy --dir in --pol none                                   ! -i culvert0
//! ```
//!
//! The match on the SA is lost; the rule's addresses, which culvert's policies have too, stand for it.
//! Everything else stays as it is, in its order. A rule that cannot be translated exactly (an inverted
//! part, a policy match without direction) is left alone altogether.
//!
//! All this happens between `fork` (or `vfork`) and `exec`: nothing is allocated.

use std::ffi::CStr;

/// The most arguments that are looked at.
pub(crate) const MAX_ARGS: usize = 256;

/// The most arguments that come out: a policy match of two words can become three.
pub(crate) const MAX_WORDS: usize = MAX_ARGS + MAX_MATCHES;

/// Policy matches of one rule.
const MAX_MATCHES: usize = 4;

/// An argument of the new command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Word {
    /// The argument at this place of the old one.
    Old(usize),
    /// A word of ours.
    New(&'static CStr),
    /// The private interface's name.
    Private,
}

/// A command line without an allocator.
pub(crate) struct Words {
    words: [Word; MAX_WORDS],
    len: usize,
}

impl Words {
    pub(crate) const fn new() -> Self {
        Self { words: [Word::Private; MAX_WORDS], len: 0 }
    }

    pub(crate) fn as_slice(&self) -> &[Word] {
        self.words.get(..self.len).unwrap_or(&[])
    }

    fn push(&mut self, word: Word) -> Option<()> {
        *self.words.get_mut(self.len)? = word;
        self.len += 1;
        Some(())
    }
}

/// The direction of a policy match or an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    In,
    Out,
}

/// An interface option: where it is, and of how many words.
#[derive(Clone, Copy)]
struct Interface {
    at: usize,
    len: usize,
    inverted: bool,
}

/// A policy match.
#[derive(Clone, Copy, Default)]
struct Match {
    /// Where its first word is.
    at: usize,
    way: Option<Way>,
    /// `--pol`: IPsec or none.
    ipsec: Option<bool>,
    /// True if it matches on more than that.
    asks_more: bool,
}

/// A rule of iptables, as far as it matters here.
struct Rule {
    matches: [Match; MAX_MATCHES],
    count: usize,
    /// Which match each word belongs to, from 1; 0 is none.
    belongs: [u8; MAX_ARGS],
    input: Option<Interface>,
    output: Option<Interface>,
}

/// Index of the argument at which rules begin, if the program at this path takes rules on its
/// command line.
pub(crate) fn rules_begin(path: &[u8], args: &[&[u8]]) -> Option<usize> {
    let name =
        |path: &'_ [u8]| -> usize { path.iter().rposition(|b| *b == b'/').map_or(0, |at| at + 1) };
    let base = path.get(name(path)..)?;
    if is_iptables(base) {
        return Some(1);
    }
    let multi: [&[u8]; 3] = [b"xtables-nft-multi", b"xtables-legacy-multi", b"xtables-multi"];
    if multi.contains(&base) {
        // Called by its own name, or by one that it stands for.
        let called = args.first()?;
        if is_iptables(called.get(name(called)..)?) {
            return Some(1);
        }
        return args.get(1).filter(|word| is_iptables(word)).map(|_| 2);
    }
    None
}

fn is_iptables(name: &[u8]) -> bool {
    let names: [&[u8]; 6] = [
        b"iptables",
        b"ip6tables",
        b"iptables-nft",
        b"ip6tables-nft",
        b"iptables-legacy",
        b"ip6tables-legacy",
    ];
    names.contains(&name)
}

/// Translates a command line whose rule begins at `from`. False if it stays as it is; then `out` means
/// nothing.
pub(crate) fn translate(args: &[&[u8]], from: usize, out: &mut Words) -> bool {
    read(args, from).is_some_and(|rule| write(args, &rule, out).is_some())
}

/// Reads a rule; none if there is no policy match, or one that has to stay.
fn read(args: &[&[u8]], from: usize) -> Option<Rule> {
    if args.len() > MAX_ARGS {
        return None;
    }
    let mut rule = Rule {
        matches: [Match::default(); MAX_MATCHES],
        count: 0,
        belongs: [0; MAX_ARGS],
        input: None,
        output: None,
    };
    // A match that was named later has a `--mode` of its own.
    let mut mode_is_ours = true;
    let mut at = from;
    while let Some(&arg) = args.get(at) {
        let inverted = at > from && args.get(at - 1).is_some_and(|before| **before == *b"!");
        if let Some((module, len)) = option(args, at, b"-m", b"--match") {
            mode_is_ours = module != b"statistic";
            if module == b"policy" {
                if inverted {
                    return None;
                }
                let next = rule.matches.get_mut(rule.count)?;
                *next = Match { at, ..Match::default() };
                rule.count += 1;
                rule.mark(at, len);
            }
            at += len;
        } else if let Some((_, len)) = option(args, at, b"-i", b"--in-interface") {
            if rule.input.replace(Interface { at, len, inverted }).is_some() {
                return None;
            }
            at += len;
        } else if let Some((_, len)) = option(args, at, b"-o", b"--out-interface") {
            if rule.output.replace(Interface { at, len, inverted }).is_some() {
                return None;
            }
            at += len;
        } else if TEXT_OPTIONS.contains(&arg) {
            at += 2;
        } else if rule.count > 0
            && let Some((name, value, len)) = policy_option(args, at)
            && (mode_is_ours || name != b"mode")
        {
            if inverted {
                return None;
            }
            rule.take(name, value)?;
            rule.mark(at, len);
            at += len;
        } else {
            at += 1;
        }
    }
    (rule.count > 0).then_some(rule)
}

impl Rule {
    /// Assigns these words to the policy match that was named last.
    fn mark(&mut self, at: usize, len: usize) {
        for word in self.belongs.iter_mut().skip(at).take(len) {
            *word = self.count as u8;
        }
    }

    /// An option of that match; none if it has no such value.
    fn take(&mut self, name: &[u8], value: &[u8]) -> Option<()> {
        let current = self.matches.get_mut(self.count - 1)?;
        match (name, value) {
            (b"dir", b"in") => current.way = Some(Way::In),
            (b"dir", b"out") => current.way = Some(Way::Out),
            (b"pol", b"ipsec") => current.ipsec = Some(true),
            (b"pol", b"none") => current.ipsec = Some(false),
            (b"dir" | b"pol", _) => return None,
            _ => current.asks_more = true,
        }
        Some(())
    }

    fn interface(&self, way: Way) -> Option<Interface> {
        match way {
            Way::In => self.input,
            Way::Out => self.output,
        }
    }
}

/// Writes the rule anew; none if it has to stay.
fn write(args: &[&[u8]], rule: &Rule, out: &mut Words) -> Option<()> {
    let matches = rule.matches.get(..rule.count)?;
    // Each is removed, replaced by an interface, or kept.
    let mut kept = [false; MAX_MATCHES];
    let mut added: [Option<(Way, bool)>; MAX_MATCHES] = [None; MAX_MATCHES];
    let (mut is_private_in, mut is_private_out) = (false, false);
    for (place, current) in matches.iter().enumerate() {
        let (way, is_ipsec) = (current.way?, current.ipsec?);
        let interface = rule.interface(way);
        let is_private = match way {
            Way::In => &mut is_private_in,
            Way::Out => &mut is_private_out,
        };
        match (is_ipsec, interface) {
            (true, Some(interface)) if interface.inverted => return None,
            (true, None) if !*is_private => *added.get_mut(place)? = Some((way, true)),
            (true, _) => {}
            // A packet of another interface came out of no tunnel: the match is redundant.
            (false, _) if current.asks_more || *is_private || interface.is_some() => {
                *kept.get_mut(place)? = true;
            }
            (false, _) => *added.get_mut(place)? = Some((way, false)),
        }
        *is_private |= is_ipsec;
    }
    if kept.iter().take(rule.count).all(|kept| *kept) {
        return None;
    }
    out.len = 0;
    let mut at = 0;
    while at < args.len() {
        let owner = rule.belongs.get(at).copied().map_or(0, usize::from);
        let replaced = [(Way::In, is_private_in), (Way::Out, is_private_out)];
        let replaced = replaced.into_iter().filter(|(_, is_private)| *is_private);
        let replaced = replaced
            .filter_map(|(way, _)| Some((way, rule.interface(way)?)))
            .find(|(_, interface)| interface.at == at);
        if let Some((way, interface)) = replaced {
            out.push(Word::New(flag(way)))?;
            out.push(Word::Private)?;
            at += interface.len;
            continue;
        }
        match owner.checked_sub(1) {
            Some(place) if !*kept.get(place)? => {
                let is_first = matches.get(place)?.at == at;
                if let Some((way, is_private)) = added.get(place)?.filter(|_| is_first) {
                    if !is_private {
                        out.push(Word::New(c"!"))?;
                    }
                    out.push(Word::New(flag(way)))?;
                    out.push(Word::Private)?;
                }
            }
            _ => out.push(Word::Old(at))?,
        }
        at += 1;
    }
    Some(())
}

fn flag(way: Way) -> &'static CStr {
    match way {
        Way::In => c"-i",
        Way::Out => c"-o",
    }
}

/// The value of an option, and how many words both take: `-i eth0`, `-ieth0`, `--in-interface=eth0`.
fn option<'a>(
    args: &[&'a [u8]],
    at: usize,
    short: &[u8],
    long: &[u8],
) -> Option<(&'a [u8], usize)> {
    let arg = *args.get(at)?;
    if arg == short || arg == long {
        return Some((args.get(at + 1)?, 2));
    }
    if let Some(value) = arg.strip_prefix(long).and_then(|rest| rest.strip_prefix(b"=")) {
        return Some((value, 1));
    }
    arg.strip_prefix(short).filter(|value| !value.is_empty()).map(|value| (value, 1))
}

/// An option of the policy match: its name, its value, and how many words both take.
fn policy_option<'a>(args: &[&'a [u8]], at: usize) -> Option<(&'a [u8], &'a [u8], usize)> {
    let rest = args.get(at)?.strip_prefix(b"--")?;
    let (name, value) = match rest.iter().position(|b| *b == b'=') {
        Some(end) => (rest.get(..end)?, rest.get(end + 1..)),
        None => (rest, None),
    };
    let switches: [&[u8]; 2] = [b"strict", b"next"];
    if switches.contains(&name) {
        return value.is_none().then_some((name, &[], 1));
    }
    let valued: [&[u8]; 8] =
        [b"dir", b"pol", b"reqid", b"spi", b"proto", b"mode", b"tunnel-src", b"tunnel-dst"];
    if !valued.contains(&name) {
        return None;
    }
    match value {
        Some(value) => Some((name, value, 1)),
        None => Some((name, args.get(at + 1)?, 2)),
    }
}

/// Options whose value may look like another option.
const TEXT_OPTIONS: [&[u8]; 6] = [
    b"--comment",
    b"--log-prefix",
    b"--nflog-prefix",
    b"--ulog-prefix",
    b"--string",
    b"--hex-string",
];

#[cfg(test)]
#[path = "policy_match_tests.rs"]
mod tests;
