//! Linux's network state as it is mirrored here, and what culvert has there: interfaces, routes, rules, marks.

pub mod memifs;
pub mod nat;
pub mod nfnetlink;
pub mod private;
pub mod segments;
pub mod services;
pub mod topology;
pub mod tunnels;
pub mod vlan_entries;
pub mod vlan_priorities;
pub mod vlans;
pub mod vrfs;
pub mod way_back;
pub mod xfrm_interfaces;
