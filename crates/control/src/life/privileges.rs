//! The capabilities that the daemon keeps; it drops all others before anything else.
//!
//! Dropped before any thread is made, because capabilities belong to threads; so everything that
//! comes later, ports that come back included, has been tried with no more than these.

use std::io;

use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, capability_is_in_bounding_set,
    remove_capability_from_bounding_set, set_capabilities, set_no_new_privs,
};

/// Interfaces, routes, XDP, AF_XDP, kernel policies; raw sockets; BPF programs and maps, with the
/// stack accesses at variable offsets that the verifier grants only with CAP_PERFMON; memory that
/// is registered with the kernel.
const NEEDED: CapabilitySet = CapabilitySet::NET_ADMIN
    .union(CapabilitySet::NET_RAW)
    .union(CapabilitySet::BPF)
    .union(CapabilitySet::PERFMON)
    .union(CapabilitySet::IPC_LOCK);

/// Without ports: interfaces, routes and policies of the own network namespace. Memory is locked there only where no
/// limit forbids it, which takes no capability.
const NEEDED_WITHOUT_PORTS: CapabilitySet = CapabilitySet::NET_ADMIN;

/// Gives up every capability but those needed, for this process and whatever it starts.
///
/// # Errors
/// When the kernel refuses. A missing capability is no error here; what needs it fails later.
pub fn drop_all_but_needed(has_ports: bool) -> io::Result<()> {
    if !has_ports {
        return keep(NEEDED_WITHOUT_PORTS);
    }
    // Kernels before 5.8 know neither CAP_BPF nor CAP_PERFMON and want CAP_SYS_ADMIN instead.
    let needed = match capability_is_in_bounding_set(CapabilitySet::BPF) {
        Ok(_) => NEEDED,
        Err(_) => NEEDED.union(CapabilitySet::SYS_ADMIN),
    };
    keep(needed)
}

/// Gives up every capability, for a process that only asks the daemon.
///
/// # Errors
/// When the kernel refuses.
pub fn drop_all() -> io::Result<()> {
    keep(CapabilitySet::empty())
}

/// No program that this process becomes or starts can have a capability again. To be called while it is root.
pub fn forgo_all() {
    forgo(CapabilitySet::all());
}

fn forgo(capabilities: CapabilitySet) {
    for capability in capabilities.iter() {
        // An error means that this kernel does not know it, or that it is gone already.
        let _ = remove_capability_from_bounding_set(capability);
    }
}

fn keep(needed: CapabilitySet) -> io::Result<()> {
    forgo(CapabilitySet::all().difference(needed));
    let have = capabilities(None)?;
    let kept = have.permitted.intersection(needed);
    let sets =
        CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() };
    // A sandbox that leaves nothing to give up may forbid to ask for it.
    if sets != have {
        set_capabilities(None, sets)?;
    }
    Ok(set_no_new_privs(true)?)
}

/// Which of the needed capabilities are missing, as their names; for messages.
pub fn missing(has_ports: bool) -> Vec<&'static str> {
    let needed = if has_ports { NEEDED } else { NEEDED_WITHOUT_PORTS };
    let have = capabilities(None).map_or(CapabilitySet::empty(), |sets| sets.effective);
    [
        ("CAP_NET_ADMIN", CapabilitySet::NET_ADMIN),
        ("CAP_NET_RAW", CapabilitySet::NET_RAW),
        ("CAP_BPF", CapabilitySet::BPF),
        ("CAP_PERFMON", CapabilitySet::PERFMON),
    ]
    .into_iter()
    .filter(|(_, capability)| needed.contains(*capability) && !have.contains(*capability))
    .map(|(name, _)| name)
    .collect()
}
