//! Tunnel interfaces of marks, as `ip tunnel add mode vti` makes them.

use dataplane::{Binding, Vti};
use io::MemoryHandle;
use outcome::DropReason;
use policy::{Direction, Mark, SaConfig};

use crate::route_based::{add_sa, carry, everything, flow, gateway_with};
use crate::support::{Gateway, Side, Spec, ip, policy, sa_config, template};

const IKEY: u32 = 42;
const OKEY: u32 = 1337;

const fn exactly(value: u32) -> Mark {
    Mark { value, mask: !0 }
}

/// A gateway's tunnel to the other one.
pub fn vti(side: Side) -> Vti {
    let (local, remote) = (Some(side.wan(false)), Some(side.other().wan(false)));
    Vti { local, remote, ikey: IKEY, okey: OKEY }
}

/// A gateway with the tunnel, policies with its marks for everything, and both SAs. Inbound SAs have this mark.
fn with_vti(side: Side, vti: Vti, sa_mark: Mark) -> (Gateway, MemoryHandle) {
    let (mut gateway, port) = gateway_with(side, Binding::Vti(vti));
    let spec = Spec::default();
    for (index, direction, key) in
        [(1, Direction::Out, OKEY), (2, Direction::In, IKEY), (3, Direction::Forward, IKEY)]
    {
        let from = if direction == Direction::Out { side } else { side.other() };
        let mut config = policy(index, direction, everything(), vec![template(&spec, from)]);
        config.mark = exactly(key);
        gateway.db.put_policy(config);
    }
    for from in [Side::A, Side::B] {
        let mark = if from == side { exactly(OKEY) } else { sa_mark };
        add_sa(&mut gateway, SaConfig { mark, ..sa_config(&spec, from) });
    }
    (gateway, port)
}

#[test]
fn marks_of_a_vti_choose_policies_and_sas_in_both_directions() {
    // As charon installs inbound SAs, and as it does with mark_in_sa.
    for sa_mark in [Mark::default(), exactly(IKEY)] {
        let [(mut a, a_tunnel), (mut b, b_tunnel)] =
            [Side::A, Side::B].map(|side| with_vti(side, vti(side), sa_mark));
        // From Linux by the interface, and from a port by the route to it; twice, the second time planned.
        for round in 0..2 {
            a.put(&a_tunnel, &flow(10));
            a.run();
            a.put_lan(&flow(10));
            a.run();
            assert_eq!(carry(&mut a, &mut b), 2, "round {round}");
            assert_eq!(b.lan_out().len(), 2, "forwarded");
            a.put(&a_tunnel, &flow(1));
            a.run();
            assert_eq!(carry(&mut a, &mut b), 1);
            assert_eq!((b.take(&b_tunnel), b.linux_out().len()), (vec![flow(1)], 0));
        }
        assert_eq!((a.drops(), b.drops()), (vec![], vec![]));
        assert_eq!(a.counters.work.flow_hits.value(), 3);
    }
}

#[test]
fn a_shared_vti_has_any_other_end() {
    let any = |side| Vti { remote: None, ..vti(side) };
    let [(mut a, a_tunnel), (mut b, b_tunnel)] =
        [Side::A, Side::B].map(|side| with_vti(side, any(side), exactly(IKEY)));
    a.put(&a_tunnel, &flow(1));
    a.run();
    assert_eq!(carry(&mut a, &mut b), 1);
    assert_eq!(b.take(&b_tunnel), vec![flow(1)]);
}

#[test]
fn an_sa_to_somewhere_else_carries_nothing_of_a_vti() {
    let elsewhere = Vti { remote: Some(ip("192.0.2.77")), ..vti(Side::A) };
    let (mut a, tunnel) = with_vti(Side::A, elsewhere, Mark::default());
    a.put(&tunnel, &flow(10));
    a.put_lan(&flow(10));
    a.run();
    assert_eq!(a.drops(), [(DropReason::OutNoTunnel, 2)]);
    assert!(a.wan_out().is_empty());
}

#[test]
fn what_comes_from_elsewhere_is_not_of_a_vti() {
    for (sa_mark, reason) in [
        // The SA decrypts it; no policy without its mark allows it.
        (Mark::default(), DropReason::InPolicy),
        // The SA is not even found.
        (exactly(IKEY), DropReason::InNoState),
    ] {
        let elsewhere = Vti { remote: Some(ip("192.0.2.77")), ..vti(Side::B) };
        let (mut a, a_tunnel) = with_vti(Side::A, vti(Side::A), Mark::default());
        let (mut b, b_tunnel) = with_vti(Side::B, elsewhere, sa_mark);
        for _ in 0..2 {
            a.put(&a_tunnel, &flow(1));
            a.run();
            assert_eq!(carry(&mut a, &mut b), 1);
        }
        assert_eq!(b.drops(), [(reason, 2)]);
        assert!(b.take(&b_tunnel).is_empty() && b.linux_out().is_empty());
    }
}

#[test]
fn policies_of_another_mark_are_not_a_vti_s() {
    let (mut a, a_tunnel) = with_vti(Side::A, vti(Side::A), Mark::default());
    let other = Vti { ikey: 43, ..vti(Side::B) };
    let (mut b, _) = with_vti(Side::B, other, Mark::default());
    a.put(&a_tunnel, &flow(1));
    a.run();
    carry(&mut a, &mut b);
    assert_eq!(b.drops(), [(DropReason::InPolicy, 1)]);
    let other = Vti { okey: 43, ..vti(Side::A) };
    let (mut a, a_tunnel) = with_vti(Side::A, other, Mark::default());
    a.put(&a_tunnel, &flow(1));
    a.run();
    assert_eq!(a.drops(), [(DropReason::OutNoTunnel, 1)]);
}
