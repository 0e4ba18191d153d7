//! Inbound verification, row by row of Linux's `__xfrm_policy_check`.

use std::sync::Arc;

use crate::common::{UDP, everything, headers, hosts, policy, sa, template, v4};
use esp::{Mode, Protocol};
use outcome::DropReason::{self, InCleartext, InPolicy, InPolicyBlock, InSelector};
use policy::{Action, Databases, Direction, Flow, PolicyConfig, SaConfig, SaEntry, Template};

/// How the packet came.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Via {
    Cleartext,
    Tunnel,
    Transport,
}

fn entry(config: SaConfig) -> Arc<SaEntry<()>> {
    Databases::new().add_sa(config, ()).unwrap()
}

fn via(how: Via) -> Option<Arc<SaEntry<()>>> {
    let mut config = sa(v4(9), 77);
    match how {
        Via::Cleartext => return None,
        Via::Tunnel => {}
        Via::Transport => config.params.mode = Mode::Transport,
    }
    Some(entry(config))
}

/// Verifies a packet under the policy, if any; `None` for accepted.
fn verdict(
    policy: Option<PolicyConfig>,
    default: Action,
    via: Option<&SaEntry<()>>,
) -> Option<DropReason> {
    let mut databases = Databases::new();
    let direction = policy.as_ref().map_or(Direction::Forward, |p| p.direction);
    databases.set_default(direction, default);
    let index = policy.as_ref().map(|p| p.index);
    if let Some(policy) = policy {
        databases.put_policy(policy);
    }
    let reader = databases.reader();
    let h = headers(v4(1), v4(2), UDP, 1, 2);
    match reader.verify(direction, &Flow::new(&h, 3), via.as_slice()) {
        Ok(decided) => {
            assert_eq!(decided.map(|p| p.config.index), index);
            None
        }
        Err(reason) => Some(reason),
    }
}

fn protect(templates: &[Template]) -> Option<PolicyConfig> {
    Some(PolicyConfig { templates: templates.to_vec(), ..policy(1, Direction::In, 5) })
}

fn meant() -> Template {
    template(v4(9))
}

fn transport() -> Template {
    Template { mode: Mode::Transport, ..meant() }
}

fn optional(template: Template) -> Template {
    Template { optional: true, ..template }
}

#[test]
fn without_policy() {
    for (default, how, expected) in [
        (Action::Allow, Via::Cleartext, None),
        (Action::Allow, Via::Transport, None),
        (Action::Allow, Via::Tunnel, Some(InPolicy)),
        (Action::Block, Via::Cleartext, Some(InPolicyBlock)),
        (Action::Block, Via::Transport, Some(InPolicyBlock)),
        (Action::Block, Via::Tunnel, Some(InPolicy)),
    ] {
        assert_eq!(verdict(None, default, via(how).as_deref()), expected, "{default:?} {how:?}");
    }
}

#[test]
fn block_blocks_everything_even_with_templates() {
    for how in [Via::Cleartext, Via::Transport, Via::Tunnel] {
        for templates in [vec![], vec![meant()]] {
            let block =
                PolicyConfig { action: Action::Block, templates, ..policy(1, Direction::In, 5) };
            let got = verdict(Some(block), Action::Allow, via(how).as_deref());
            assert_eq!(got, Some(InPolicyBlock), "{how:?}");
        }
    }
}

#[test]
fn what_is_left_to_linux_comes_in_clear_or_not_at_all() {
    for (how, expected) in
        [(Via::Cleartext, None), (Via::Transport, Some(InPolicy)), (Via::Tunnel, Some(InPolicy))]
    {
        for templates in [vec![], vec![meant()]] {
            let leave =
                PolicyConfig { action: Action::Leave, templates, ..policy(1, Direction::In, 5) };
            let got = verdict(Some(leave), Action::Allow, via(how).as_deref());
            assert_eq!(got, expected, "{how:?}");
        }
    }
}

#[test]
fn templates_and_how_the_packet_came() {
    let ipcomp = Template { protocol: 108, ..optional(meant()) };
    let cases: &[(&str, &[Template], Via, Option<DropReason>)] = &[
        ("bypass, cleartext", &[], Via::Cleartext, None),
        ("bypass, transport", &[], Via::Transport, None),
        ("bypass, tunnel", &[], Via::Tunnel, Some(InPolicy)),
        ("required, cleartext", &[meant()], Via::Cleartext, Some(InCleartext)),
        ("required, the SA", &[meant()], Via::Tunnel, None),
        ("required, other mode", &[meant()], Via::Transport, Some(InPolicy)),
        ("required transport, the SA", &[transport()], Via::Transport, None),
        ("required transport, tunnel", &[transport()], Via::Tunnel, Some(InPolicy)),
        ("required transport, cleartext", &[transport()], Via::Cleartext, Some(InCleartext)),
        ("optional, cleartext", &[optional(meant())], Via::Cleartext, None),
        ("optional, the SA", &[optional(meant())], Via::Tunnel, None),
        ("optional tunnel, transport", &[optional(meant())], Via::Transport, None),
        ("optional transport, cleartext", &[optional(transport())], Via::Cleartext, None),
        ("optional transport, the SA", &[optional(transport())], Via::Transport, None),
        ("optional transport, tunnel", &[optional(transport())], Via::Tunnel, Some(InPolicy)),
        ("IPComp left out", &[ipcomp, transport()], Via::Transport, None),
        ("IPComp alone, cleartext", &[ipcomp, transport()], Via::Cleartext, Some(InCleartext)),
        ("two required, one came", &[meant(), transport()], Via::Transport, Some(InPolicy)),
        ("one optional of two", &[optional(meant()), meant()], Via::Tunnel, None),
    ];
    for (name, templates, how, expected) in cases {
        let got = verdict(protect(templates), Action::Allow, via(*how).as_deref());
        assert_eq!(got, *expected, "{name}");
    }
}

#[test]
fn optional_tunnel_does_not_excuse_another_tunnel() {
    let other = optional(Template { reqid: 99, ..meant() });
    let got = verdict(protect(&[other]), Action::Allow, via(Via::Tunnel).as_deref());
    assert_eq!(got, Some(InPolicy));
}

#[test]
fn each_field_of_the_template_is_compared() {
    let cases: &[(&str, Template, bool)] = &[
        ("as is", meant(), true),
        ("SPI named", Template { spi: 77, ..meant() }, true),
        ("other SPI", Template { spi: 78, ..meant() }, false),
        ("any reqid", Template { reqid: 0, ..meant() }, true),
        ("other reqid", Template { reqid: 2, ..meant() }, false),
        ("AH", Template { protocol: 51, ..meant() }, false),
        ("any source", Template { src: crate::common::any4(), ..meant() }, true),
        ("other source", Template { src: v4(7), ..meant() }, false),
        // The SA brought the packet to its destination: Linux does not compare it again.
        ("other destination", Template { dst: v4(7), ..meant() }, true),
    ];
    for (name, template, accepted) in cases {
        let got = verdict(protect(&[*template]), Action::Allow, via(Via::Tunnel).as_deref());
        assert_eq!(got, (!accepted).then_some(InPolicy), "{name}");
    }
    // In transport mode the source is the packet's own and not compared.
    let from_elsewhere = Template { src: v4(7), ..transport() };
    let got = verdict(protect(&[from_elsewhere]), Action::Allow, via(Via::Transport).as_deref());
    assert_eq!(got, None);
}

/// Of several SAs that a packet came through, the outermost first, each template means one, in its
/// order.
#[test]
fn templates_mean_sas_in_their_order() {
    let sa_of = |protocol, mode, reqid| {
        let mut config = sa(v4(9), 77);
        (config.params.protocol, config.params.mode, config.reqid) = (protocol, mode, reqid);
        entry(config)
    };
    let tunnel = sa_of(Protocol::Esp, Mode::Tunnel, 1);
    let other = sa_of(Protocol::Esp, Mode::Tunnel, 3);
    let ah = sa_of(Protocol::Ah, Mode::Transport, 2);
    let (tunnel, other, ah) = (&*tunnel, &*other, &*ah);
    let wants_ah = Template { protocol: 51, reqid: 2, mode: Mode::Transport, ..meant() };
    let maybe_ah = optional(wants_ah);
    type Case<'c> = (&'c str, &'c [Template], &'c [&'c SaEntry<()>], Option<DropReason>);
    let cases: &[Case<'_>] = &[
        ("both", &[meant(), wants_ah], &[ah, tunnel], None),
        ("in the wrong order", &[meant(), wants_ah], &[tunnel, ah], Some(InPolicy)),
        ("without the outer one", &[meant(), wants_ah], &[tunnel], Some(InPolicy)),
        ("without the inner one", &[meant(), wants_ah], &[ah], Some(InPolicy)),
        ("clear", &[meant(), wants_ah], &[], Some(InCleartext)),
        ("transport that nobody asks for", &[meant()], &[ah, tunnel], None),
        ("the same behind the tunnel", &[meant()], &[tunnel, ah], None),
        ("optional, there", &[meant(), maybe_ah], &[ah, tunnel], None),
        ("optional, not there", &[meant(), maybe_ah], &[tunnel], None),
        ("another tunnel outside", &[meant()], &[other, tunnel], Some(InPolicy)),
        ("another tunnel inside", &[meant()], &[tunnel, other], Some(InPolicy)),
    ];
    for (name, templates, via, expected) in cases {
        let mut databases = Databases::new();
        databases.put_policy(protect(templates).unwrap());
        let mut reader = databases.reader();
        reader.refresh();
        let h = headers(v4(1), v4(2), UDP, 1, 2);
        let got = reader.verify(Direction::In, &Flow::new(&h, 3), via).map(|_| ()).err();
        assert_eq!(got, *expected, "{name}");
    }
}

#[test]
fn the_sas_own_selector_comes_first() {
    let mut config = sa(v4(9), 77);
    config.selector = Some(hosts(v4(1), v4(2)));
    let fits = entry(config.clone());
    config.selector = Some(hosts(v4(1), v4(3)));
    let foreign = entry(config);
    assert_eq!(verdict(protect(&[meant()]), Action::Allow, Some(&fits)), None);
    assert_eq!(verdict(protect(&[meant()]), Action::Allow, Some(&foreign)), Some(InSelector));
    let block = PolicyConfig { action: Action::Block, ..policy(1, Direction::In, 5) };
    assert_eq!(verdict(Some(block), Action::Allow, Some(&foreign)), Some(InSelector));
    assert_eq!(verdict(None, Action::Allow, Some(&foreign)), Some(InSelector));
}

#[test]
fn an_xfrm_interface_takes_only_its_own_sas() {
    let mut databases = Databases::new();
    let mut config = protect(&[meant()]).unwrap();
    config.if_id = 7;
    databases.put_policy(config);
    let reader = databases.reader();
    let h = headers(v4(1), v4(2), UDP, 1, 2);
    let flow = Flow { if_id: 7, ..Flow::new(&h, 3) };
    let mut config = sa(v4(9), 77);
    let foreign = entry(config.clone());
    config.if_id = 7;
    let own = entry(config);
    assert!(reader.verify(Direction::In, &flow, &[&own]).is_ok());
    assert_eq!(reader.verify(Direction::In, &flow, &[&foreign]).unwrap_err(), InPolicy);
}

#[test]
fn directions_are_apart() {
    let mut databases = Databases::<()>::new();
    databases.put_policy(PolicyConfig { action: Action::Block, ..policy(1, Direction::In, 5) });
    databases.set_default(Direction::Out, Action::Block);
    let reader = databases.reader();
    let h = headers(v4(1), v4(2), UDP, 1, 2);
    let flow = Flow::new(&h, 3);
    assert_eq!(reader.verify(Direction::In, &flow, &[]).unwrap_err(), InPolicyBlock);
    assert!(reader.verify(Direction::Forward, &flow, &[]).is_ok());
}

#[test]
fn an_unknown_interface_lets_no_bypass_through() {
    let mut databases = Databases::<()>::new();
    let mut bypass = policy(1, Direction::In, 1);
    bypass.selector = policy::Selector { ifindex: 4, ..everything() };
    databases.put_policy(bypass);
    databases.put_policy(PolicyConfig { index: 2, priority: 9, ..protect(&[meant()]).unwrap() });
    let reader = databases.reader();
    let h = headers(v4(1), v4(2), UDP, 1, 2);
    let verify = |ifindex| reader.verify(Direction::In, &Flow::new(&h, ifindex), &[]).map(|_| ());
    assert_eq!(verify(4), Ok(()));
    assert_eq!(verify(5), Err(InCleartext));
    assert_eq!(verify(0), Err(InCleartext));
}
