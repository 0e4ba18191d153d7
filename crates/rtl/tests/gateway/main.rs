//! The gateway in hardware against the software path, packet by packet.
//!
//! `cosim.rs` sends random packets both ways through the gateway as an [`offload::Device`] and holds what comes
//! out, and what is counted, against what `culvert-esp` and `culvert-policy` make of the same packets;
//! `changes.rs` changes the tables meanwhile. `CULVERT_COSIM_PACKETS` and `CULVERT_COSIM_SEED` choose a
//! longer run or another one; `CULVERT_COSIM=quick` builds a smaller gateway and sends fewer packets.

mod changes;
mod cosim;
mod coverage;
mod offloaded;
mod packets;
mod resets;
mod software;
mod world;

/// The gateway keeps the contract of every device; in a quick run with packets of one suite.
#[test]
fn the_gateway_keeps_the_contract() {
    let gateway = std::sync::Arc::new(std::sync::Mutex::new(rtl::Simulation::new()));
    let mut device = rtl::GatewayDevice::new(gateway, |_| false).unwrap();
    let mut suites = world::suites();
    if std::env::var("CULVERT_COSIM").is_ok_and(|value| value == "quick") {
        suites.truncate(1);
    }
    offload::contract::check_suites(&mut device, &suites);
}
