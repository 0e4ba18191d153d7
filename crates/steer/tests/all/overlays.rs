//! Packets of overlays to this host, by trial frames.

use steer::{UdpPorts, Verdict};

use crate::common::in_namespace;
use crate::verdicts::{ALL, LOCAL4, assert_verdicts, local6, steer, udp, v4, v6};

/// Where overlays are carried out; the kernel puts fragments together.
#[test]
fn packets_of_overlays_are_taken() {
    in_namespace(|| {
        for which in ALL {
            let mut steer = steer(true, which);
            let limit =
                [47, 0, 4, 1, 4, 1, 1, 0].iter().chain(&[0; 24]).copied().collect::<Vec<_>>();
            for (is_on, taken) in [(false, Verdict::PassLocal), (true, Verdict::TakeLocal)] {
                let overlays = if is_on { vec![4789, 500] } else { Vec::new() };
                steer.set_udp_ports(&UdpPorts { overlays, ..UdpPorts::default() }).expect("set");
                steer.set_take_gre(is_on).expect("set");
                steer.set_take_l2tp(is_on).expect("set");
                let cases = [
                    ("VXLAN", v4(LOCAL4, 17, 0, &udp(4789, &[8; 40])), taken),
                    ("VXLAN over IPv6", v6(local6(), 17, &udp(4789, &[8; 40])), taken),
                    (
                        "GENEVE, which nobody has",
                        v4(LOCAL4, 17, 0, &udp(6081, &[0; 40])),
                        Verdict::PassLocal,
                    ),
                    (
                        "VXLAN in fragments",
                        v4(LOCAL4, 17, 0x2000, &udp(4789, &[8; 40])),
                        Verdict::PassLocal,
                    ),
                    ("GRE", v4(LOCAL4, 47, 0, &[0; 24]), taken),
                    ("L2TPv3", v4(LOCAL4, 115, 0, &[0; 24]), taken),
                    ("L2TPv3 over IPv6", v6(local6(), 115, &[0; 24]), taken),
                    ("L2TPv3 in fragments", v4(LOCAL4, 115, 0x2000, &[0; 24]), Verdict::PassLocal),
                    ("GRE over IPv6", v6(local6(), 47, &[0; 24]), taken),
                    ("GRE with a limit", v6(local6(), 60, &limit), taken),
                    ("GRE in fragments", v4(LOCAL4, 47, 0x2000, &[0; 24]), Verdict::PassLocal),
                    ("GRE of others", v4([10, 9, 9, 9], 47, 0, &[0; 24]), Verdict::PassTransit),
                    ("a port of IKE's", v4(LOCAL4, 17, 0, &udp(500, &[0; 40])), Verdict::PassIke),
                ];
                assert_verdicts(&mut steer, &cases);
            }
        }
    });
}
