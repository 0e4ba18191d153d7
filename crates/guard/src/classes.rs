//! Barriers for IPv6 that differ in their addresses alone, as sets of nftables.
//!
//! A gateway with many tunnels has many policies and few kinds of them: the same lengths of prefixes,
//! priority, effect. Each kind, a class, is one rule that looks both addresses, cut to the class's
//! lengths, up in a hash set. So a packet meets as many rules as there are classes, and a barrier of
//! a class that is in the table comes and goes as an element, in its final place.

use core::fmt::Write as _;
use std::collections::HashMap;

use crate::barrier::Barrier;

/// The sets of the installed table.
#[derive(Debug, Default)]
pub(crate) struct Classes {
    /// Their numbers, by class.
    numbers: HashMap<Barrier, usize>,
    /// Users of each element: selectors that differ in host bits alone share one.
    elements: HashMap<Barrier, u32>,
    /// The barriers in the sets, by identity.
    inside: HashMap<Barrier, Barrier>,
}

impl Classes {
    /// The classes of these barriers, which are in order.
    pub fn new(barriers: &[&Barrier]) -> Classes {
        let mut classes = Classes::default();
        for barrier in barriers {
            let next = classes.numbers.len();
            classes.numbers.entry(barrier.class()).or_insert(next);
            classes.take_in(barrier);
        }
        classes
    }

    /// True if this barrier's class is there, so that it can come as an element.
    pub fn knows(&self, barrier: &Barrier) -> bool {
        self.numbers.contains_key(&barrier.class())
    }

    /// True if no barrier is in.
    pub fn is_empty(&self) -> bool {
        self.inside.is_empty()
    }

    /// True if exactly this barrier is in.
    pub fn has(&self, barrier: &Barrier) -> bool {
        self.inside.get(&barrier.identity()) == Some(barrier)
    }

    /// True if this barrier can be removed as an element: it is in, and its rule looks addresses
    /// up. A rule for any addresses stands without a set, and is removed with the table alone.
    pub fn can_let_go(&self, barrier: &Barrier) -> bool {
        self.has(barrier) && fields(&barrier.class()).is_some()
    }

    /// Adds barriers of known classes, each in place of the one with its identity, and removes
    /// others. Returns the commands for nft, one transaction.
    pub fn change(&mut self, table: &str, come: &[Barrier], go: &[Barrier]) -> String {
        let mut commands = String::new();
        let mut gone: Vec<Barrier> = Vec::new();
        for barrier in come {
            if self.has(barrier) {
                continue;
            }
            gone.extend(self.inside.remove(&barrier.identity()));
            if self.take_in(barrier) {
                commands.push_str(&self.command("add", table, barrier));
            }
        }
        for barrier in go {
            if self.has(barrier) {
                gone.extend(self.inside.remove(&barrier.identity()));
            }
        }
        for barrier in gone {
            let element = barrier.element();
            if let Some(users) = self.elements.get_mut(&element) {
                *users -= 1;
                if *users == 0 {
                    self.elements.remove(&element);
                    commands.push_str(&self.command("delete", table, &barrier));
                }
            }
        }
        commands
    }

    /// Declares the sets, with all of their elements.
    pub fn declarations(&self) -> String {
        let mut lists: Vec<(Barrier, Vec<String>)> =
            self.numbers.keys().map(|class| (*class, Vec::new())).collect();
        lists.sort_by_key(|(class, _)| self.number(class));
        for element in self.elements.keys() {
            let number = self.number(element);
            if let (Some((_, list)), Some(text)) =
                (number.and_then(|n| lists.get_mut(n)), addresses(element))
            {
                list.push(text);
            }
        }
        let mut text = String::new();
        for (number, (class, list)) in lists.iter().enumerate() {
            let Some(fields) = fields(class) else { continue };
            let _ = write!(text, "  set {} {{ typeof {}", set(number), fields.join(" . "));
            if !list.is_empty() {
                let _ = write!(text, "; elements = {{ {} }}", list.join(", "));
            }
            text.push_str("; }\n");
        }
        text
    }

    /// The match of this class's rule on a packet's addresses.
    pub fn lookup(&self, class: &Barrier) -> String {
        let (Some(number), Some(_)) = (self.number(class), fields(class)) else {
            return String::new();
        };
        let s = class.selector();
        let sides = [("ip6 saddr", s.src.len), ("ip6 daddr", s.dst.len)];
        let cut = sides.into_iter().filter(|(_, len)| *len > 0).map(|(field, len)| match len {
            128.. => field.to_owned(),
            len => format!("{field} & {}", mask(len)),
        });
        format!(" {} @{}", cut.collect::<Vec<_>>().join(" . "), set(number))
    }

    /// Adds a barrier; true if its element is new.
    fn take_in(&mut self, barrier: &Barrier) -> bool {
        self.inside.insert(barrier.identity(), *barrier);
        let users = self.elements.entry(barrier.element()).or_default();
        *users += 1;
        *users == 1
    }

    fn command(&self, verb: &str, table: &str, barrier: &Barrier) -> String {
        match (self.number(barrier), addresses(barrier)) {
            (Some(number), Some(text)) => {
                format!("{verb} element {table} {} {{ {text} }}\n", set(number))
            }
            _ => String::new(),
        }
    }

    fn number(&self, barrier: &Barrier) -> Option<usize> {
        self.numbers.get(&barrier.class()).copied()
    }
}

fn set(number: usize) -> String {
    format!("class-{number}")
}

/// The fields of a class's set; `None` where addresses do not matter.
fn fields(class: &Barrier) -> Option<Vec<&'static str>> {
    let s = class.selector();
    let sides = [("ip6 saddr", s.src.len), ("ip6 daddr", s.dst.len)];
    let fields: Vec<_> = sides.iter().filter(|(_, len)| *len > 0).map(|(name, _)| *name).collect();
    (!fields.is_empty()).then_some(fields)
}

/// An element as nft reads it.
fn addresses(barrier: &Barrier) -> Option<String> {
    let s = barrier.element().selector();
    let sides = [s.src, s.dst];
    let texts: Vec<String> =
        sides.iter().filter(|side| side.len > 0).map(|side| side.addr.to_string()).collect();
    (!texts.is_empty()).then(|| texts.join(" . "))
}

fn mask(len: u8) -> std::net::Ipv6Addr {
    std::net::Ipv6Addr::from_bits(u128::MAX << (128 - u32::from(len.min(128))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use policy::Prefix;

    fn barrier(addr: &str, len: u8) -> Barrier {
        let [out, ..] = Barrier::of_prefix(Prefix { addr: addr.parse().unwrap(), len });
        out
    }

    #[test]
    fn an_element_goes_with_the_last_barrier_that_is_it() {
        // The same network, written twice.
        let (one, two) = (barrier("fd01::", 32), barrier("fd01::1", 32));
        let mut classes = Classes::new(&[&one]);
        assert!(classes.knows(&two) && !classes.has(&two));
        assert!(!classes.knows(&barrier("fd01::", 48)));
        assert_eq!(classes.change("t", &[two], &[]), "", "it stands already");
        assert_eq!(classes.change("t", &[], &[one]), "", "another one needs it");
        assert_eq!(classes.change("t", &[], &[one]), "", "it went before");
        assert_eq!(classes.change("t", &[], &[two]), "delete element t class-0 { fd01:: }\n");
        assert!(classes.is_empty());
        let again = classes.change("t", &[one], &[]);
        assert_eq!(again, "add element t class-0 { fd01:: }\n");
        assert_eq!(
            classes.declarations(),
            "  set class-0 { typeof ip6 daddr; elements = { fd01:: }; }\n"
        );
        assert_eq!(classes.lookup(&one.class()), " ip6 daddr & ffff:ffff:: @class-0");
    }
}
