//! Configurations at random, for tests.

use std::fmt::Write as _;

use proptest::prelude::*;

/// Interfaces that may be ports, none of which is like another by a slip of the pen.
pub const PORTS: [&str; 4] = ["wan", "eth1", "dsl0", "lte"];

/// Texts of valid configurations: any part may be there or not, with one of several values.
pub fn text() -> impl Strategy<Value = String> {
    let port = (any::<bool>(), 0..3_u8, prop::option::of(1..5_u32));
    let tunnel = (any::<bool>(), any::<bool>(), 0..2_u8);
    let memif = (any::<bool>(), 0..2_u8);
    let values = prop::array::uniform16(0..3_u8);
    let workers = (prop::option::of(1..4_u32), 0..3_usize);
    let lists =
        (prop::array::uniform4(port), prop::array::uniform3(tunnel), prop::array::uniform2(memif));
    (lists, workers, values, any::<bool>()).prop_map(|((ports, tunnels, memifs), workers, v, is_turned)| {
        let mut text = String::new();
        for (name, (_, kind, queues)) in PORTS.iter().zip(ports).filter(|(_, port)| port.0) {
            let kind = ["auto", "xdp", "packet"][usize::from(kind)];
            let _ = writeln!(text, "[[port]]\ninterface = \"{name}\"\nkind = \"{kind}\"");
            if let Some(queues) = queues {
                let _ = writeln!(text, "queues = {queues}");
            }
        }
        for (n, (_, _, mtu)) in tunnels.iter().enumerate().filter(|(_, tunnel)| tunnel.0) {
            // Two that change their numbers, too.
            let if_id = if is_turned { 3 - n } else { n + 1 };
            let mtu = 1400 + u32::from(*mtu);
            let _ = writeln!(text, "[[tunnel]]\ninterface = \"ipsec{n}\"\nif_id = {if_id}\nmtu = {mtu}");
        }
        for (n, (_, size)) in memifs.iter().enumerate().filter(|(_, memif)| memif.0) {
            let size = 1024 << size;
            let _ = writeln!(
                text,
                "[[port]]\ninterface = \"app{n}\"\nkind = \"memif\"\nsocket = \"/nonexistent/app{n}.sock\"\nring_size = {size}"
            );
        }
        for n in 0..v[0] {
            let _ = writeln!(text, "[[limit]]\nname = \"l{n}\"\nrate = \"{}Mbit\"\nall = true", v[1] + 1);
        }
        for n in 0..v[2] {
            let _ = writeln!(text, "[[mark]]\ndscp = {n}\nmark = {}", n + 20);
        }
        if v[3] > 0 {
            let prefix = ["10.0.0.0/22", "10.9.0.0/16"][usize::from(v[3] - 1)];
            let _ = writeln!(text, "[guard]\nprefixes = [\"{prefix}\"]");
        }
        if v[4] > 0 {
            let _ = writeln!(text, "[path_mtu]\nlifetime_s = {}", 100 * u32::from(v[4]));
        }
        if v[5] > 0 {
            let _ = writeln!(text, "[vici]\nsocket = \"/nonexistent/vici{}\"", v[5]);
        }
        if v[1] > 0 {
            let _ = writeln!(text, "[bfd]\ndataplane = \"unix:/nonexistent/bfdd{}\"", v[1]);
        }
        if v[6] > 0 {
            let _ = writeln!(text, "[srv6]\nsource = \"2001:db8::{}\"", v[6]);
        }
        for n in 0..v[8] {
            let _ = writeln!(text, "[[vlan]]\ninterface = \"{}.{n}\"\npcp_to_dscp = {{ 5 = {} }}", PORTS[0], v[9] + 40);
        }
        // Of an application whose memif port may be there or not.
        if v[10] > 0 && memifs[0].0 {
            let teid = ["", "teid = \"0x10-0x1f\"\n"][usize::from(v[10] - 1)];
            let _ = writeln!(text, "[[gtpu]]\naddress = \"10.45.0.1\"\nport = \"app0\"\n{teid}");
        }
        for n in 0..v[11] {
            let action = ["End", "End.DT46 table 100", "End.DT46 table 101"][usize::from(v[12])];
            let _ = writeln!(text, "[[sid]]\nprefix = \"fc00:1::{n}/128\"\naction = \"{action}\"");
        }
        if v[13] > 0 {
            let _ = writeln!(text, "[applications]\nenabled = true");
        }
        if v[13] > 1 {
            let _ = writeln!(text, "[[application]]\nname = \"erp\"\ndomains = [\"erp{}.example\"]", v[14]);
        }
        if v[15] > 0 {
            let _ = writeln!(text, "[overlay]\ninterfaces = [\"gre{}\"]", v[15]);
        }
        // A key that waits for a restart.
        let _ = writeln!(text, "[tun]\nmtu = {}", 1500 - u32::from(v[7]));
        let _ = writeln!(text, "[worker]\ncrypto_cpus = {:?}", (0..workers.1).collect::<Vec<_>>());
        if let Some(cpus) = workers.0 {
            let _ = writeln!(text, "cpus = {cpus}");
        }
        text
    })
}
