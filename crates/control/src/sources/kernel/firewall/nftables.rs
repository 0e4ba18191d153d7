//! nftables' base chains and their rules, by netlink (`NETLINK_NETFILTER`, subsystem nf_tables).

use std::collections::BTreeSet;
use std::io;
use std::os::fd::BorrowedFd;

use netlink::attribute::{as_be32 as number, as_text as text};
use netlink::netfilter::{self, Nfgenmsg, split};
use netlink::{Attributes, Connection, Heard, Listener, MessageWriter, Protocol};

use super::chains::Chains;

/// Follows changes of tables, chains and rules.
pub struct Events {
    listener: Listener,
}

impl Events {
    /// Subscribes; `None` where the kernel has no netfilter.
    ///
    /// # Errors
    /// The kernel does not let this process ask.
    pub fn open() -> io::Result<Option<Events>> {
        match Listener::subscribe(Protocol::Netfilter, &[GROUP_NFTABLES], None) {
            Err(error) if error.raw_os_error() == Some(PROTOCOL_UNKNOWN) => Ok(None),
            listener => Ok(Some(Events { listener: listener? })),
        }
    }

    /// Readable when there are changes.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.listener.fd()
    }

    /// Reads what was told: whether it could change what [`read`] finds.
    pub fn has_changed(&mut self) -> bool {
        let mut has_changed = false;
        let heard = self.listener.hear(EVENTS_AT_ONCE, |heard| {
            has_changed |= match heard {
                // Sets' elements come and go all the time, and are told too.
                Heard::Message(header, _) => {
                    header.kind >> 8 == NF_TABLES && header.kind & 0xff <= DEL_RULE
                }
                Heard::Lost => true,
            };
        });
        // Most likely some were lost.
        has_changed || heard.is_err()
    }
}

/// Tables of this name's are culvert's own.
const OWN: &str = "culvert-";

/// Most datagrams that one round reads.
const EVENTS_AT_ONCE: usize = 256;

/// The chains that count.
///
/// # Errors
/// The kernel does not tell.
pub fn read(ports: &BTreeSet<String>) -> io::Result<Chains> {
    let mut found = Chains::default();
    let mut tables = Vec::new();
    let mut chains = Vec::new();
    let result = dump(GET_TABLE, 0, &[], |message| {
        tables.extend(dormant(message));
        false
    });
    match result {
        Err(error) if ABSENT.iter().any(|errno| error.raw_os_error() == Some(*errno)) => {
            return Ok(found);
        }
        result => result?,
    };
    dump(GET_CHAIN, 0, &[], |message| {
        chains.extend(Chain::decode(message));
        false
    })?;
    for chain in &chains {
        let (is_v4, is_v6) = chain.families(ports);
        let table = (chain.family, chain.table.clone());
        if found.is_full() || !(is_v4 || is_v6) || tables.contains(&table) {
            continue;
        }
        if chain.drops || chain.has_rules && has_rule_that_counts(chain)? {
            found.note(is_v4, is_v6, || format!("nftables has {chain}"));
        }
    }
    Ok(found)
}

/// True for each family, IPv4 and IPv6, whose packets between two interfaces meet chains of NAT
/// with rules.
///
/// # Errors
/// The kernel does not tell.
pub fn translates() -> io::Result<[bool; 2]> {
    let mut found = [false; 2];
    let result = dump(GET_CHAIN, 0, &[], |message| {
        if let Some(chain) = Chain::decode(message).filter(|c| c.is_nat && c.has_rules) {
            let (is_v4, is_v6) = chain.families(&BTreeSet::new());
            found = [found[0] || is_v4, found[1] || is_v6];
        }
        false
    });
    match result {
        Err(error) if ABSENT.iter().any(|errno| error.raw_os_error() == Some(*errno)) => {
            Ok([false; 2])
        }
        result => result.map(|_| found),
    }
}

/// True if a rule of a chain could do more than let packets pass.
fn has_rule_that_counts(chain: &Chain) -> io::Result<bool> {
    let names = [(RULE_TABLE, &*chain.table), (RULE_CHAIN, &*chain.name)];
    match dump(GET_RULE, chain.family, &names, rule_counts) {
        // Its deletion is told as well.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        result => result,
    }
}

/// Asks for all of a kind, and shows them to `is_last`, each from `nfgenmsg` on, until that says true; returns
/// whether it did.
fn dump(
    what: u16,
    family: u8,
    names: &[(u16, &str)],
    is_last: impl FnMut(&[u8]) -> bool,
) -> io::Result<bool> {
    let mut request = MessageWriter::request(netfilter::kind(NF_TABLES, what), 0);
    request.fixed(&Nfgenmsg::of(family));
    for (attribute, name) in names {
        request.text(*attribute, name);
    }
    // A change in between is told, and read after.
    Ok(Connection::open(Protocol::Netfilter)?.dump_until(request, is_last)?)
}

/// A table that is switched off: family and name.
fn dormant(message: &[u8]) -> Option<(u8, String)> {
    let (family, attributes) = split(message)?;
    let flags = number(attributes.find(TABLE_FLAGS)?)?;
    (flags & DORMANT != 0).then_some((family, text(attributes.find(TABLE_NAME)?)))
}

/// A base chain.
#[derive(Debug, PartialEq, Eq)]
struct Chain {
    family: u8,
    table: String,
    name: String,
    hook: u32,
    /// Interfaces that it is for; names that end in `*` are prefixes.
    devices: Vec<String>,
    /// True if its policy is not accept.
    drops: bool,
    has_rules: bool,
    is_nat: bool,
}

impl Chain {
    /// By the kernel's message; `None` for one that is no base chain.
    fn decode(message: &[u8]) -> Option<Chain> {
        let (family, attributes) = split(message)?;
        let hook = attributes.find(CHAIN_HOOK)?;
        let is_nat = attributes.find(CHAIN_TYPE).is_some_and(|kind| text(kind) == "nat");
        let policy = attributes.find(CHAIN_POLICY).and_then(number).unwrap_or(ACCEPT);
        let one = find(hook, HOOK_DEV).map(text);
        let several =
            Attributes::new(hook).within(HOOK_DEVS).filter_map(|(kind, name)| match kind {
                DEVICE_NAME => Some(text(name)),
                DEVICE_PREFIX => Some(format!("{}*", text(name))),
                _ => None,
            });
        Some(Chain {
            family,
            table: text(attributes.find(CHAIN_TABLE)?),
            name: text(attributes.find(CHAIN_NAME)?),
            hook: number(find(hook, HOOK_NUM)?)?,
            devices: one.into_iter().chain(several).collect(),
            drops: policy != ACCEPT && !is_nat,
            has_rules: attributes.find(CHAIN_USE).and_then(number) != Some(0),
            is_nat,
        })
    }

    /// True for each family, IPv4 and IPv6, whose packets meet it between two ports.
    fn families(&self, ports: &BTreeSet<String>) -> (bool, bool) {
        let is_ours = self.table.starts_with(OWN);
        let is_transit = matches!(self.hook, PRE_ROUTING | FORWARD | POST_ROUTING);
        let at_port = || {
            let is_port = |name: &String| match name.strip_suffix('*') {
                Some(prefix) => ports.iter().any(|port| port.starts_with(prefix)),
                None => ports.contains(name),
            };
            self.devices.iter().any(is_port)
        };
        match self.family {
            _ if is_ours => (false, false),
            IPV4 => (is_transit, false),
            IPV6 => (false, is_transit),
            INET if self.hook == INET_INGRESS => (at_port(), at_port()),
            INET => (is_transit, is_transit),
            // Ingress and egress.
            NETDEV => (at_port(), at_port()),
            _ => (false, false),
        }
    }
}

impl std::fmt::Display for Chain {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let family = match self.family {
            IPV4 => "ip",
            IPV6 => "ip6",
            NETDEV => "netdev",
            _ => "inet",
        };
        write!(f, "chain {family} {} {}", self.table, self.name)
    }
}

/// True if a rule could do more than let packets pass.
fn rule_counts(message: &[u8]) -> bool {
    let Some((_, attributes)) = split(message) else { return false };
    attributes.within(RULE_EXPRESSIONS).any(|(_, expression)| {
        let name = find(expression, EXPRESSION_NAME).map(text).unwrap_or_default();
        !is_harmless(&name, find(expression, EXPRESSION_DATA).unwrap_or_default())
    })
}

/// True if an expression only looks, counts or accepts.
fn is_harmless(name: &str, data: &[u8]) -> bool {
    match name {
        "cmp" | "bitwise" | "byteorder" | "range" | "counter" | "fib" | "rt" | "xfrm" | "match" => {
            true
        }
        // With a source register they write.
        "meta" => find(data, META_SREG).is_none(),
        "payload" => find(data, PAYLOAD_SREG).is_none(),
        "ct" => find(data, CT_SREG).is_none(),
        // A map may hold verdicts.
        "lookup" => find(data, LOOKUP_DREG).is_none(),
        "immediate" => {
            let data = find(data, IMMEDIATE_DATA).unwrap_or_default();
            let code = find(data, DATA_VERDICT).map(|v| find(v, VERDICT_CODE).and_then(number));
            // Without a verdict it is a value that another expression compares.
            code.is_none_or(|code| {
                code.is_some_and(|code| [ACCEPT, CONTINUE, RETURN].contains(&code))
            })
        }
        _ => false,
    }
}

fn find(bytes: &[u8], kind: u16) -> Option<&[u8]> {
    Attributes::new(bytes).find(kind)
}

/// Errno of an unknown protocol (`EPROTONOSUPPORT`).
const PROTOCOL_UNKNOWN: i32 = 93;
/// Errnos of a kernel without nf_tables: `EINVAL`, `EPROTONOSUPPORT`, `EOPNOTSUPP`.
const ABSENT: [i32; 3] = [22, PROTOCOL_UNKNOWN, 95];

/// Multicast group of changes (`NFNLGRP_NFTABLES`).
const GROUP_NFTABLES: u32 = 7;
/// `NFNL_SUBSYS_NFTABLES` and its messages.
const NF_TABLES: u16 = 10;
const GET_TABLE: u16 = 1;
const GET_CHAIN: u16 = 4;
const GET_RULE: u16 = 7;
const DEL_RULE: u16 = 8;

/// Protocol families (`NFPROTO_*`).
const INET: u8 = 1;
const IPV4: u8 = 2;
const NETDEV: u8 = 5;
const IPV6: u8 = 10;

/// Hooks of a chain (`NF_INET_*`).
const PRE_ROUTING: u32 = 0;
const FORWARD: u32 = 2;
const POST_ROUTING: u32 = 4;
const INET_INGRESS: u32 = 5;

/// `NF_ACCEPT`, `NFT_CONTINUE`, `NFT_RETURN`.
const ACCEPT: u32 = 1;
const CONTINUE: u32 = -1i32 as u32;
const RETURN: u32 = -5i32 as u32;

/// Attributes of nf_tables (`NFTA_*`).
const TABLE_NAME: u16 = 1;
const TABLE_FLAGS: u16 = 2;
/// Flag of a table that is off (`NFT_TABLE_F_DORMANT`).
const DORMANT: u32 = 1;
const CHAIN_TABLE: u16 = 1;
const CHAIN_NAME: u16 = 3;
const CHAIN_HOOK: u16 = 4;
const CHAIN_POLICY: u16 = 5;
const CHAIN_USE: u16 = 6;
const CHAIN_TYPE: u16 = 7;
const HOOK_NUM: u16 = 1;
const HOOK_DEV: u16 = 3;
const HOOK_DEVS: u16 = 4;
const DEVICE_NAME: u16 = 1;
const DEVICE_PREFIX: u16 = 2;
const RULE_TABLE: u16 = 1;
const RULE_CHAIN: u16 = 2;
const RULE_EXPRESSIONS: u16 = 4;
const EXPRESSION_NAME: u16 = 1;
const EXPRESSION_DATA: u16 = 2;
const META_SREG: u16 = 3;
const PAYLOAD_SREG: u16 = 5;
const CT_SREG: u16 = 4;
const LOOKUP_DREG: u16 = 3;
const IMMEDIATE_DATA: u16 = 2;
const DATA_VERDICT: u16 = 2;
const VERDICT_CODE: u16 = 1;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let mut bytes = (4 + value.len() as u16).to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(value);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    fn be(kind: u16, value: u32) -> Vec<u8> {
        attribute(kind, &value.to_be_bytes())
    }

    /// A chain's message. `device` makes it one of an interface.
    fn chain(family: u8, hook: u32, policy: u32, uses: u32, kind: &[u8], device: &[u8]) -> Chain {
        let mut place = [be(HOOK_NUM, hook), be(2, 0)].concat();
        if !device.is_empty() {
            place.extend(attribute(HOOK_DEVS, &attribute(DEVICE_NAME, device)));
        }
        let message = [
            vec![family, 0, 0, 0],
            attribute(CHAIN_TABLE, b"filter\0"),
            attribute(CHAIN_NAME, b"fwd\0"),
            attribute(CHAIN_HOOK | 0x8000, &place),
            be(CHAIN_POLICY, policy),
            attribute(CHAIN_TYPE, kind),
            be(CHAIN_USE, uses),
        ];
        Chain::decode(&message.concat()).expect("a base chain")
    }

    #[test]
    fn chains_that_packets_meet_between_ports() {
        let ports = BTreeSet::from(["wan".to_owned(), "lan".to_owned()]);
        let families = |family, hook, device: &[u8]| {
            chain(family, hook, ACCEPT, 0, b"filter\0", device).families(&ports)
        };
        let rows = [
            (INET, FORWARD, "", (true, true)),
            (INET, 1, "", (false, false)),
            (INET, 3, "", (false, false)),
            (IPV4, PRE_ROUTING, "", (true, false)),
            (IPV6, POST_ROUTING, "", (false, true)),
            (NETDEV, 0, "wan\0", (true, true)),
            (NETDEV, 1, "wan\0", (true, true)),
            (NETDEV, 0, "eth7\0", (false, false)),
            (INET, INET_INGRESS, "lan\0", (true, true)),
            (INET, INET_INGRESS, "eth7\0", (false, false)),
            // Of bridges.
            (7, FORWARD, "", (false, false)),
        ];
        for (family, hook, device, expected) in rows {
            let found = families(family, hook, device.as_bytes());
            assert_eq!(found, expected, "{family} {hook} {device}");
        }
        let shown = chain(INET, FORWARD, 0, 0, b"filter\0", b"").to_string();
        assert_eq!(shown, "chain inet filter fwd");
        let mut own = chain(IPV6, FORWARD, 0, 3, b"filter\0", b"");
        own.table = "culvert-guard-default".into();
        assert_eq!(own.families(&ports), (false, false));
        let mut prefix = chain(NETDEV, 0, ACCEPT, 1, b"filter\0", b"");
        prefix.devices = vec!["wa*".into()];
        assert_eq!(prefix.families(&ports), (true, true));
    }

    #[test]
    fn a_policy_counts_and_a_nat_chain_counts_by_its_rules() {
        let of = |policy, uses, kind: &[u8]| {
            let chain = chain(IPV4, FORWARD, policy, uses, kind, b"");
            (chain.drops, chain.has_rules)
        };
        assert_eq!(of(ACCEPT, 0, b"filter\0"), (false, false));
        assert_eq!(of(0, 0, b"filter\0"), (true, false));
        assert_eq!(of(ACCEPT, 2, b"filter\0"), (false, true));
        assert_eq!(of(0, 0, b"nat\0"), (false, false));
        assert_eq!(of(ACCEPT, 1, b"nat\0"), (false, true));
        // Not a base chain: nothing leads there but a rule of one.
        let jumped = [vec![IPV4, 0, 0, 0], attribute(CHAIN_NAME, b"x\0")].concat();
        assert_eq!(Chain::decode(&jumped), None);
    }

    fn rule(expressions: &[(&str, Vec<u8>)]) -> Vec<u8> {
        let expressions = expressions.iter().map(|(name, data)| {
            let name = attribute(EXPRESSION_NAME, &[name.as_bytes(), &[0]].concat());
            attribute(1, &[name, attribute(EXPRESSION_DATA, data)].concat())
        });
        let expressions: Vec<u8> = expressions.flatten().collect();
        [vec![IPV4, 0, 0, 0], attribute(RULE_EXPRESSIONS, &expressions)].concat()
    }

    fn verdict(code: i32) -> Vec<u8> {
        let verdict = attribute(DATA_VERDICT, &be(VERDICT_CODE, code as u32));
        [be(1, 0), attribute(IMMEDIATE_DATA, &verdict)].concat()
    }

    #[test]
    fn rules_that_only_let_pass_do_not_count() {
        let look = || ("meta", [be(1, 1), be(2, 6)].concat());
        let none = Vec::new;
        let accept = || ("immediate", verdict(1));
        let harmless = [
            rule(&[look(), ("cmp", none()), ("counter", none()), accept()]),
            rule(&[("payload", be(1, 1)), ("lookup", be(2, 1)), accept()]),
            rule(&[("match", none()), ("counter", none()), ("immediate", verdict(-5))]),
            rule(&[("immediate", attribute(IMMEDIATE_DATA, &attribute(1, &[7; 4])))]),
            rule(&[]),
        ];
        for rule in &harmless {
            assert!(!rule_counts(rule), "{rule:?}");
        }
        let counts = [
            rule(&[look(), ("immediate", verdict(0))]),
            // A jump.
            rule(&[("immediate", verdict(-3))]),
            rule(&[("masq", none())]),
            rule(&[("log", none()), accept()]),
            rule(&[("meta", be(META_SREG, 1))]),
            rule(&[("payload", be(PAYLOAD_SREG, 1))]),
            rule(&[("ct", be(CT_SREG, 1))]),
            rule(&[("lookup", be(LOOKUP_DREG, 0))]),
            rule(&[("target", none())]),
        ];
        for rule in &counts {
            assert!(rule_counts(rule), "{rule:?}");
        }
    }

    #[test]
    fn dormant_tables_are_known() {
        let table = |flags| {
            let name = attribute(TABLE_NAME, b"old\0");
            dormant(&[vec![INET, 0, 0, 0], name, be(TABLE_FLAGS, flags)].concat())
        };
        assert_eq!(table(DORMANT), Some((INET, "old".into())));
        assert_eq!(table(0), None);
    }

    /// Set in the process that the next test starts in a network namespace of its own.
    const INSIDE: &str = "CULVERT_TEST_OF_NFTABLES";

    const TABLE: &str = "add table ip culvert_test; \
         add chain ip culvert_test stops { type filter hook forward priority 0; policy drop; }";

    #[test]
    fn a_chain_of_this_kernel_is_found_and_who_may_not_ask_hears_it() {
        let found = read(&BTreeSet::new());
        if std::env::var_os(INSIDE).is_some() {
            let found = found.unwrap();
            let name = found.v4.unwrap();
            assert!(name.contains("culvert_test") && name.contains("stops"), "{name}");
            assert_eq!(found.v6, None);
            return;
        }
        if !rustix::process::geteuid().is_root() {
            assert_eq!(found.unwrap_err().kind(), io::ErrorKind::PermissionDenied);
            return;
        }
        let (_, module) = module_path!().split_once("::").unwrap();
        let done = std::process::Command::new("unshare")
            .args(["--net", "sh", "-c", "nft \"$0\" && exec \"$@\"", TABLE])
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", "--nocapture"])
            .arg(format!("{module}::a_chain_of_this_kernel_is_found_and_who_may_not_ask_hears_it"))
            .env(INSIDE, "1")
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&done.stdout);
        let why = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success() && said.contains("1 passed"), "{said}{why}");
    }

    proptest! {
        #[test]
        fn any_bytes_are_borne(bytes: Vec<u8>) {
            let _ = Chain::decode(&bytes);
            let _ = rule_counts(&bytes);
            let _ = dormant(&bytes);
        }
    }
}
