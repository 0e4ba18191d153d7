//! Culvert's rules: what looks into its table, and what bypasses it.

use mirror::{Family, Rule, RuleAction};
use xfrm::shim_protocol::ROUTE_PROTOCOL;

use super::marked::LedMark;

use config::TunConfig;

/// IKE (RFC 7296 §2), and IKE behind NAT (RFC 3948).
const IKE_PORTS: [u16; 2] = [500, 4500];

const UDP: u8 = 17;

/// All of them, in the order in which they are to be added: those that bypass the table come first.
///
/// ```text
/// 211: ipproto udp nop                          IPv6: nop
/// 209: iif lo ipproto udp sport 500 goto 211     also dport, and 4500
/// 209: fwmark MARK goto 211
/// 209: l3mdev goto 211                           beside a kernel, while there are VRFs
/// 210: not iif culvert0 lookup 219
/// 210: fwmark 4 lookup 218                       for each mark that a policy protects
/// ```
///
/// Key exchange of this host goes by Linux's own tables, and so by the interface that firewall rules
/// name. What the peer sends passes a strict reverse path filter: Linux looks the reverse route up
/// with the packet's ports. Depending on the kernel these are swapped or not, so both are named.
/// Linux dissects the ports of received packets only while a rule that is not for `iif lo` names
/// ports or a protocol: that is the only purpose of the protocol in rule 211. ESP in UDP never comes
/// here: culvert sends it past Linux.
///
/// Packets with the mark of a policy find the prefixes that policies with a mark protect, also those that came in by
/// culvert0: what an SA has decrypted and marked may be for another SA. Where there are many marks, all packets with any
/// do (`not fwmark 0`).
///
/// Packets of VRFs find their VRF's table: nothing of these is culvert's.
///
/// Packets with MARK are cleartext that culvert has judged already and returned to its port. Led to the
/// table again, they would leave by another interface.
pub fn all(config: &TunConfig, led: &[LedMark], are_vrfs_passed: bool) -> Vec<Rule> {
    let preference = config.rule_preference;
    let of = |family| {
        let rule = move |priority, table| Rule {
            protocol: ROUTE_PROTOCOL,
            ..Rule::new(family, priority, table)
        };
        let past = preference + 1;
        let ike = |port: u16| Rule {
            iif: Some("lo".into()),
            ip_protocol: Some(UDP),
            action: RuleAction::Goto(past),
            sport: Some((port, port)),
            ..rule(preference - 1, 0)
        };
        // There is no reverse path filter for IPv6 but netfilter's.
        let ip_protocol = (family == Family::V4).then_some(UDP);
        let landing = Rule { action: RuleAction::Nop, ip_protocol, ..rule(past, 0) };
        let ours = IKE_PORTS.map(ike);
        let theirs = IKE_PORTS.map(|port| {
            let rule = ike(port);
            Rule { dport: rule.sport, sport: None, ..rule }
        });
        let marked = (config.mark != 0).then(|| Rule {
            fwmark: config.mark,
            fwmask: config.mark,
            action: RuleAction::Goto(past),
            ..rule(preference - 1, 0)
        });
        let of_vrfs = are_vrfs_passed.then(|| Rule {
            l3mdev: true,
            action: RuleAction::Goto(past),
            ..rule(preference - 1, 0)
        });
        let to_table = Rule {
            iif: Some(config.interface.clone()),
            invert: true,
            ..rule(preference, config.table)
        };
        let of_marked = led.iter().map(move |led| {
            let rule = rule(preference, config.marked_table);
            match *led {
                LedMark::Mark(mark) => Rule { fwmark: mark.value, fwmask: mark.mask, ..rule },
                LedMark::Any => Rule { fwmark: 0, fwmask: u32::MAX, invert: true, ..rule },
            }
        });
        let past = std::iter::once(landing).chain(ours).chain(theirs).chain(marked).chain(of_vrfs);
        past.chain([to_table]).chain(of_marked)
    };
    [Family::V4, Family::V6].into_iter().flat_map(of).collect()
}

/// True if a rule is one of culvert's.
pub fn is_ours(rule: &Rule, config: &TunConfig) -> bool {
    all(config, &[], true).contains(rule) || is_of_marks(rule, config)
}

/// True if it is there only for some policies or VRFs, of this or an earlier run.
pub fn is_passing(rule: &Rule, config: &TunConfig) -> bool {
    let is_of_vrfs = rule.l3mdev && rule.protocol == ROUTE_PROTOCOL;
    is_of_marks(rule, config) || is_of_vrfs && rule.priority == config.rule_preference - 1
}

/// True if it leads packets with a mark, of this or an earlier run.
fn is_of_marks(rule: &Rule, config: &TunConfig) -> bool {
    rule.protocol == ROUTE_PROTOCOL
        && rule.priority == config.rule_preference
        && rule.table == config.marked_table
}
