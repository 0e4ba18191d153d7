//! Checks of forwarding, reverse path filters, routing rules and culvert's routing table.

use config::{PathConfig, TunConfig};
use mirror::{Family, Rule, RuleAction};
use report::rule_text::{describe, title};
use xfrm::shim_protocol::ROUTE_PROTOCOL;

use super::facts::{Facts, Network};
use super::finding::Finding;
use super::mend::Mend;

/// All of them.
pub fn check(facts: &Facts) -> Vec<Finding> {
    let (network, tun) = (&facts.network, facts.tun());
    let mut findings = forwarding(network);
    let paths = facts.config().map_or(&[][..], |config| &config.paths);
    findings.extend(reverse_path(network, &tun, paths));
    findings.extend(advertised_routes(network, paths));
    if let Some(trouble) = &network.trouble {
        findings.push(Finding::problem(
            "rules",
            trouble,
            "culvert follows links, routes and rules by rtnetlink; the daemon does not start",
            "ip rule; a sandbox (RestrictAddressFamilies=) may forbid AF_NETLINK",
        ));
        return findings;
    }
    findings.extend(rules(network, &tun, facts.is_beside_kernel()));
    findings.extend(table(network, &tun));
    findings
}

fn forwarding(network: &Network) -> Vec<Finding> {
    let check = "forwarding";
    let mut on = Vec::new();
    let mut findings = Vec::new();
    for (family, value) in network.forwarding {
        let (name, setting) = match family {
            Family::V4 => ("IPv4", "net.ipv4.ip_forward"),
            Family::V6 => ("IPv6", "net.ipv6.conf.all.forwarding"),
        };
        match value {
            Some(0) => findings.push(
                Finding::warning(
                    check,
                    format!("{setting} = 0"),
                    format!(
                        "decrypted {name} packets that leave by an interface that is no port go \
                     through Linux, which drops them"
                    ),
                    format!("sysctl -w {setting}=1; on a host that forwards nothing leave it"),
                )
                .mended_by(Mend::new(format!("sysctl -w {setting}=1"))),
            ),
            Some(_) => on.push(name),
            // A kernel without the protocol: nothing to forward.
            None => {}
        }
    }
    if findings.is_empty() {
        findings.push(Finding::ok(
            check,
            match on[..] {
                [] => "neither IPv4 nor IPv6 is there".to_owned(),
                _ => format!("on for {}", on.join(" and ")),
            },
        ));
    }
    findings
}

/// Default routes by router advertisements out of uplinks: all traffic follows them, and not that of rules alone.
fn advertised_routes(network: &Network, paths: &[PathConfig]) -> Vec<Finding> {
    let uplinks = |name: &str| paths.iter().find(|path| path.uplink.as_deref() == Some(name));
    let found = network.advertised.iter().filter_map(|name| Some((name, uplinks(name)?)));
    let findings = found.map(|(name, path)| {
        Finding::warning(
            "accept_ra",
            format!("{name} takes default routes from router advertisements"),
            format!(
                "path {} leads out of it in clear. Such a route is one of all traffic, so what no \
                 policy protects may leave there in place of by the tunnel that your routes lead to",
                path.name
            ),
            format!(
                "sysctl -w net.ipv6.conf.{}.accept_ra_defrtr=0, and a default route of the path's \
                 mark (ip -6 route add default via ROUTER dev {name} table TABLE); [guard] \
                 prefixes keep what must never leave in clear",
                name.replace('.', "/")
            ),
        )
    });
    findings.collect()
}

/// `rp_filter`: only what came in by the best route back to its source.
const STRICT: i64 = 1;

fn reverse_path(network: &Network, tun: &TunConfig, paths: &[PathConfig]) -> Vec<Finding> {
    let check = "rp_filter";
    let path_by = |name: &str| paths.iter().find(|path| path.uplink.as_deref() == Some(name));
    // The larger of `all` and the interface's own value counts, so `all` cannot be undone below.
    let findings: Vec<Finding> = network
        .rp_filter
        .iter()
        .filter(|(_, value)| *value == STRICT)
        .map(|(name, _)| {
            let why = match name.as_str() {
                "all" => format!(
                    "strict for every interface, {} too: Linux drops what comes out of a tunnel \
                     if its route back leads elsewhere",
                    tun.interface
                ),
                "default" => "interfaces that come later, ports among them, are strict".to_owned(),
                name if name == tun.interface => {
                    "strict: Linux drops what comes out of a tunnel if its route back leads \
                     elsewhere; culvert sets 0, somebody has changed it"
                        .to_owned()
                }
                name if let Some(path) = path_by(name) => format!(
                    "strict: path {} leads flows out of it in clear whose way back Linux's routes \
                     may see elsewhere, so Linux drops their answers before it translates them",
                    path.name
                ),
                _ => format!(
                    "strict: routes to protected destinations lead to {}, so Linux drops what \
                     comes in clear from such an address by this interface, also where a policy \
                     for some ports lets it pass; IKE is not dropped",
                    tun.interface
                ),
            };
            let value = if *name == tun.interface { 0 } else { 2 };
            let mend = Mend::of_interface(name, "rp_filter", value);
            Finding::warning(check, format!("{} = 1", mend.subject()), why, mend.to_string())
                .mended_by(mend)
        })
        .collect();
    if findings.is_empty() {
        return vec![Finding::ok(check, "strict nowhere that matters")];
    }
    findings
}

/// strongSwan's rule and table.
const STRONGSWAN: u32 = 220;

/// Routing rules that interfere with culvert's. Beside a kernel, packets of VRFs are led past these in any case.
fn rules(network: &Network, tun: &TunConfig, is_beside_kernel: bool) -> Vec<Finding> {
    let check = "rules";
    let ours = tun.rule_preference;
    let why = |rule: &Rule| {
        if rule.priority < ours {
            let fate = match is_beside_kernel {
                true => "and the kernel encrypts by SAs that the fast path has",
                false => "in clear unless the guard stops it",
            };
            format!(
                "it comes before culvert's rule {ours}: what it routes goes past culvert, {fate}"
            )
        } else if rule.priority == ours {
            "it has the preference of culvert's rule: which is first depends on the start"
                .to_owned()
        } else {
            format!(
                "it lies between culvert's rule {ours} and strongSwan's {STRONGSWAN}: what culvert \
                 has no route for follows it, and not strongSwan's routes"
            )
        }
    };
    let mut findings: Vec<Finding> = network
        .rules
        .iter()
        // 0 is Linux's own, for addresses of this host.
        .filter(|rule| (1..STRONGSWAN).contains(&rule.priority))
        // Another instance's are judged beside it, and those of one that is gone as orphans.
        .filter(|rule| rule.protocol != ROUTE_PROTOCOL && rule.action != RuleAction::Nop)
        .filter(|rule| !(rule.l3mdev && is_beside_kernel))
        .map(|rule| {
            let flag = if rule.family == Family::V6 { "-6 " } else { "" };
            Finding::warning(
                check,
                title(rule),
                why(rule),
                format!(
                    "ip {flag}rule del pref {}; or move culvert's: tun.rule_preference",
                    rule.priority
                ),
            )
        })
        .collect();
    if findings.is_empty() {
        findings.push(Finding::ok(check, format!("none interferes with preference {ours}")));
    }
    findings
}

/// Routes and rules of others in culvert's table.
fn table(network: &Network, tun: &TunConfig) -> Vec<Finding> {
    let (check, table) = ("table", tun.table);
    let mut strangers: Vec<String> = network
        .table_routes
        .iter()
        .filter(|(route, names)| route.table == table && !names.contains(&tun.interface))
        .filter(|(route, _)| route.protocol != ROUTE_PROTOCOL)
        .map(|(route, names)| {
            format!("route to {}/{} dev {}", route.dst.addr, route.dst.len, names.join(" "))
        })
        .collect();
    let rules = network.rules.iter().filter(|r| r.action == RuleAction::Lookup && r.table == table);
    strangers.extend(
        rules
            .filter(|rule| rule.protocol != ROUTE_PROTOCOL)
            .map(|r| format!("rule {}: {}", r.priority, describe(r))),
    );
    if strangers.is_empty() {
        return vec![Finding::ok(check, format!("{table} is culvert's alone"))];
    }
    strangers
        .into_iter()
        .map(|seen| {
            Finding::warning(
                check,
                format!("{table} is used by others: {seen}"),
                "culvert's rule follows this route too, and others follow culvert's routes",
                format!("ip route show table {table}; set tun.table to a number that is free"),
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use config::Config;
    use mirror::{NextHop, Prefix, Route};

    use super::super::facts::{healthy, healthy_daemon};
    use super::super::finding::Outcome;
    use super::*;

    fn rule(priority: u32) -> Rule {
        Rule::new(Family::V4, priority, 100)
    }

    fn our_rule() -> Rule {
        let rule = rule(210);
        Rule { table: 219, iif: Some("culvert0".into()), invert: true, protocol: 219, ..rule }
    }

    fn not_well(findings: Vec<Finding>, check: &str) -> Vec<Finding> {
        findings.into_iter().filter(|f| f.check == check && f.result != Outcome::Ok).collect()
    }

    #[test]
    fn forwarding_by_family() {
        let mut facts = healthy();
        facts.network.forwarding = [(Family::V4, Some(0)), (Family::V6, Some(1))];
        let found = not_well(check(&facts), "forwarding");
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].seen, "net.ipv4.ip_forward = 0");
        facts.network.forwarding = [(Family::V4, Some(1)), (Family::V6, Some(0))];
        let found = not_well(check(&facts), "forwarding");
        assert!(found[0].next.as_ref().unwrap().contains("net.ipv6.conf.all.forwarding=1"));
        facts.network.forwarding = [(Family::V4, Some(1)), (Family::V6, None)];
        assert!(not_well(check(&facts), "forwarding").is_empty(), "no IPv6 is no fault");
    }

    /// Each row: the setting's place, its value, and words of the finding, if there is one.
    #[test]
    fn reverse_path_filters() {
        let rows: &[(&str, i64, Option<&[&str]>)] = &[
            ("all", 0, None),
            ("all", 2, None),
            ("all", 1, Some(&["culvert0", "net.ipv4.conf.all.rp_filter=2"])),
            ("default", 1, Some(&["come later"])),
            ("wan", 1, Some(&["IKE", "net.ipv4.conf.wan.rp_filter=2"])),
            ("culvert0", 1, Some(&["changed", "net.ipv4.conf.culvert0.rp_filter=0"])),
        ];
        for (name, value, words) in rows {
            let mut facts = healthy();
            facts.network.rp_filter = vec![((*name).into(), *value)];
            let found = not_well(check(&facts), "rp_filter");
            assert_eq!(found.len(), usize::from(words.is_some()), "{name} {value}: {found:#?}");
            for word in words.unwrap_or_default() {
                assert!(format!("{found:?}").contains(word), "{name} {value}: {found:#?}");
            }
        }
    }

    #[test]
    fn a_strict_filter_on_an_uplink_names_the_path() {
        let mut facts = healthy();
        facts.network.rp_filter = vec![("wan".into(), 1), ("lan".into(), 1)];
        let text = "[[port]]\ninterface = \"wan\"\n[[port]]\ninterface = \"lan\"\n[[path]]\n\
                    name = \"direct\"\nuplink = \"wan\"\nsource = \"192.0.2.1\"\nto = \"198.51.100.7\"\n";
        let config = Config::parse(text, Path::new("culvert.toml")).expect("valid");
        facts.configuration.loaded = Ok(config);
        let found = not_well(check(&facts), "rp_filter");
        let names_path: Vec<bool> =
            found.iter().map(|one| format!("{one:?}").contains("path direct")).collect();
        assert_eq!(names_path, [true, false], "{found:#?}");
    }

    #[test]
    fn a_default_route_by_advertisement_names_the_path_in_clear() {
        let mut facts = healthy();
        facts.network.advertised = vec!["wan".into(), "lan".into()];
        assert!(not_well(check(&facts), "accept_ra").is_empty(), "no path in clear");
        let text = "[[port]]\ninterface = \"wan\"\n[[port]]\ninterface = \"lan\"\n[[path]]\n\
                    name = \"direct\"\nuplink = \"wan\"\nto = \"2001:db8::1\"\n";
        let config = Config::parse(text, Path::new("culvert.toml")).expect("valid");
        facts.configuration.loaded = Ok(config);
        let found = not_well(check(&facts), "accept_ra");
        assert_eq!(found.len(), 1, "{found:#?}");
        let next = found[0].next.as_ref().expect("a step");
        assert!(next.contains("net.ipv6.conf.wan.accept_ra_defrtr=0"), "{next}");
    }

    #[test]
    fn rules_around_ours() {
        // Preference, and what is said of it.
        let rows: &[(u32, Option<&str>)] = &[
            (0, None),
            (100, Some("past culvert")),
            (210, Some("depends on the start")),
            (215, Some("between")),
            (220, None),
            (32766, None),
        ];
        for (priority, words) in rows {
            let mut facts = healthy();
            facts.network.rules = vec![rule(*priority), our_rule()];
            let found = not_well(check(&facts), "rules");
            assert_eq!(found.len(), usize::from(words.is_some()), "{priority}: {found:#?}");
            for finding in &found {
                assert!(finding.why.as_ref().unwrap().contains(words.unwrap()), "{finding:#?}");
                assert_eq!(finding.seen, format!("IPv4 rule {priority}: from all lookup 100"));
            }
        }
    }

    #[test]
    fn beside_a_kernel_rules_of_vrfs_do_not_matter_and_others_do() {
        let mut facts = healthy();
        facts.instance.daemon = Some(Ok(healthy_daemon()));
        if let Some(Ok(running)) = &mut facts.instance.daemon {
            running.status.source = "kernel".into();
        }
        facts.network.rules = vec![Rule { l3mdev: true, table: 0, ..rule(100) }, our_rule()];
        assert!(not_well(check(&facts), "rules").is_empty());
        facts.network.rules.push(rule(101));
        let found = not_well(check(&facts), "rules");
        assert!(found[0].why.as_ref().unwrap().contains("the kernel encrypts"), "{found:#?}");
        assert!(found[0].next.as_ref().unwrap().contains("ip rule del pref 101"));
    }

    #[test]
    fn rules_are_described() {
        let addr = "10.0.0.0".parse().unwrap();
        let full = Rule {
            family: Family::V6,
            from: Some(Prefix { addr, len: 8 }),
            to: Some(Prefix { addr, len: 9 }),
            iif: Some("lan".into()),
            fwmark: 1,
            fwmask: 0xff,
            invert: true,
            action: RuleAction::Prohibit,
            ..rule(5)
        };
        let text = "not from 10.0.0.0/8 to 10.0.0.0/9 fwmark 0x1/0xff iif lan prohibit";
        assert_eq!(describe(&full), text);
        let mut facts = healthy();
        facts.network.rules = vec![full, Rule { action: RuleAction::Nop, ..rule(6) }];
        let found = not_well(check(&facts), "rules");
        assert_eq!(found.len(), 1, "a rule that does nothing does not count: {found:#?}");
        assert!(found[0].next.as_ref().unwrap().starts_with("ip -6 rule del pref 5"));
    }

    #[test]
    fn strangers_in_the_table() {
        let dst = Prefix { addr: "10.9.0.0".parse().unwrap(), len: 16 };
        let route = Route { table: 219, ..Route::new(dst, NextHop::new(2, None)) };
        let mut facts = healthy();
        facts.network.rules = vec![our_rule()];
        facts.network.table_routes = vec![(route.clone(), vec!["culvert0".into()])];
        assert!(not_well(check(&facts), "table").is_empty(), "ours");
        facts.network.table_routes = vec![(route, vec!["eth1".into()])];
        facts.network.rules.push(Rule { table: 219, ..rule(1000) });
        let found = not_well(check(&facts), "table");
        assert_eq!(found.len(), 2, "{found:#?}");
        assert!(found[0].seen.contains("10.9.0.0/16 dev eth1"));
        assert!(found[1].seen.contains("rule 1000"));
    }

    #[test]
    fn no_netlink_is_a_problem() {
        let mut facts = healthy();
        facts.network.trouble = Some("the netlink socket failed".into());
        assert!(check(&facts).iter().any(|f| f.result == Outcome::Problem && f.check == "rules"));
    }
}
