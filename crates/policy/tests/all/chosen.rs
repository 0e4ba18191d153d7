//! Which SAs protect under a policy, as the writer tells.

use esp::{Mode, Protocol};
use policy::{
    Databases, Direction, OutboundKey, PolicyConfig, SaConfig, SaState, Selector, Template,
};

use crate::common::{any4, hosts, policy, sa, template, v4};

fn of(templates: &[Template]) -> PolicyConfig {
    let selector = hosts(v4(1), v4(2));
    PolicyConfig { templates: templates.to_vec(), selector, ..policy(1, Direction::Out, 5) }
}

/// The SPIs of the SAs that protect.
fn spis(databases: &Databases<()>, config: &PolicyConfig) -> Option<Vec<u32>> {
    let sas = databases.protecting(config)?;
    Some(sas.iter().map(|sa| sa.config.params.spi).collect())
}

fn transport(protocol: Protocol, reqid: u32) -> Template {
    Template {
        src: any4(),
        dst: any4(),
        protocol: protocol.number(),
        mode: Mode::Transport,
        reqid,
        ..template(v4(9))
    }
}

fn transport_sa(protocol: Protocol, dst: std::net::IpAddr, spi: u32, reqid: u32) -> SaConfig {
    let mut config = SaConfig { reqid, ..sa(dst, spi) };
    (config.params.protocol, config.params.mode) = (protocol, Mode::Transport);
    config
}

#[test]
fn the_youngest_that_is_valid() {
    let mut databases = Databases::<()>::new();
    let config = of(&[template(v4(9))]);
    assert_eq!(spis(&databases, &config), None);
    for spi in [1, 2, 3] {
        databases.add_sa(SaConfig { generation: spi.into(), ..sa(v4(9), spi) }, ()).unwrap();
    }
    databases.add_sa(sa(v4(8), 4), ()).unwrap();
    assert_eq!(spis(&databases, &config), Some(vec![3]));
    let id = |spi| sa(v4(9), spi).id();
    assert!(databases.sa(&id(3)).unwrap().advance(SaState::Dying));
    assert_eq!(spis(&databases, &config), Some(vec![2]));
    databases.remove_sa(&id(2));
    databases.remove_sa(&id(1));
    assert_eq!(spis(&databases, &config), Some(vec![3]), "a dying one, if there is no other");
    assert!(databases.sa(&id(3)).unwrap().advance(SaState::Expired));
    assert_eq!(spis(&databases, &config), None);
    assert_eq!(spis(&databases, &of(&[])), None);
}

#[test]
fn one_for_each_template() {
    let mut databases = Databases::<()>::new();
    let tunnel = template(v4(9));
    let comp = Template { optional: true, ..transport(Protocol::IpComp, 7) };
    let config = of(&[comp, tunnel, transport(Protocol::Ah, 8)]);
    databases.add_sa(sa(v4(9), 1), ()).unwrap();
    assert_eq!(spis(&databases, &config), None, "AH is missing");
    // Between the tunnel's ends, not the packet's.
    databases.add_sa(transport_sa(Protocol::Ah, v4(2), 2, 8), ()).unwrap();
    assert_eq!(spis(&databases, &config), None);
    databases.add_sa(transport_sa(Protocol::Ah, v4(9), 3, 8), ()).unwrap();
    assert_eq!(spis(&databases, &config), Some(vec![1, 3]), "compression may be missing");
    databases.add_sa(transport_sa(Protocol::IpComp, v4(2), 4, 7), ()).unwrap();
    assert_eq!(spis(&databases, &config), Some(vec![4, 1, 3]));
}

#[test]
fn what_sas_are_looked_for_by() {
    let config = of(&[template(v4(9)), transport(Protocol::Ah, 8)]);
    let key = |dst, reqid| OutboundKey { dst, reqid, if_id: 0 };
    let reqid = template(v4(9)).reqid;
    let keys = Some(vec![key(v4(9), reqid), key(v4(9), 8)]);
    assert_eq!(OutboundKey::of_policy(&config), keys);
    let ah = transport_sa(Protocol::Ah, v4(9), 3, 8);
    assert_eq!(OutboundKey::of_sa(&ah), key(v4(9), 8));
    // Transport mode between networks: each pair of hosts has its own.
    let wide = of(&[transport(Protocol::Ah, 8)]);
    assert_eq!(OutboundKey::of_policy(&wide), Some(vec![key(v4(2), 8)]));
    let mut selector = Selector { ..wide.selector };
    selector.dst.len = 24;
    let wide = PolicyConfig { selector, ..wide };
    assert_eq!(OutboundKey::of_policy(&wide), None);
}
