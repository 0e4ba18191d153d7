//! Whole gateways in memory: frames in, frames out.
//!
//! After every round of every test the counters balance and each frame of the packet memory is
//! accounted for: `Gateway::check`.

mod allocation;
mod atomic;
mod back;
mod bundles;
mod catch_up;
mod clear;
mod device;
mod dpdk;
mod explain;
mod flow_cases;
mod flows;
mod fragments;
mod gtpu;
mod hints;
mod hold;
mod homes;
mod hostile;
mod icmp_errors;
mod ipcomp;
mod iptfs;
mod iptfs_rates;
mod kinds;
mod latency;
mod layers;
mod leave;
mod model;
mod nat;
mod nested;
mod numbers;
mod on_vlans;
mod packets;
mod path_mtu;
mod per_cpu;
mod pool;
mod ports;
mod rates;
mod reasons;
mod resync;
mod route_based;
mod shaping;
mod size;
mod sockets;
mod spec;
mod srv6;
mod srv6_errors;
mod support;
mod taps;
mod transport;
mod tunnel;
mod vlan_priorities;
mod vlans;
mod vti;
mod workers;
