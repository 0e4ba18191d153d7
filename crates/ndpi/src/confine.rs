//! Confinement of the child, before it looks at a packet.

use std::collections::BTreeMap;
use std::env::consts::ARCH;

use rustix::process::{
    Resource, Rlimit, Signal, set_parent_process_death_signal, setpriority_process, setrlimit,
};
use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities, set_name, set_no_new_privs};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, apply_filter,
};

/// Memory of the process, in bytes: several times what it needs with all flows that it keeps.
const MEMORY: u64 = 512 << 20;

/// Memory, time, and an end: what the library may ask of the kernel beside its queue.
const HARMLESS: &[i64] = &[
    libc::SYS_brk,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_futex,
    libc::SYS_clock_gettime,
    libc::SYS_gettimeofday,
    libc::SYS_getrandom,
    // A crash: its signal's handler gives the signal back to the kernel, which ends the process.
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_exit,
    libc::SYS_exit_group,
];

/// The queue's descriptor.
const QUEUE: u64 = 0;

/// Ends with who has started it, is behind all others in the processor's queue, and writes no core with packets in it. Bounds its
/// memory, and closes what it has inherited.
pub(crate) fn begin() -> std::io::Result<()> {
    // A name for ps(1); without it the process works as well.
    let _ = set_name(c"culvert-ndpi");
    // SAFETY: nothing here has made a descriptor so far. A kernel that does not know the call leaves them open; then the filter
    // allows nothing with them.
    unsafe { libc::syscall(libc::SYS_close_range, 3u32, u32::MAX, 0u32) };
    set_parent_process_death_signal(Some(Signal::KILL))?;
    // Packets are more urgent, wherever it runs.
    let _ = setpriority_process(None, 19);
    for (resource, most) in [(Resource::As, MEMORY), (Resource::Core, 0)] {
        setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) })?;
    }
    Ok(())
}

/// Leaves the process nothing but the queue: no capability, no file, no memory that can be executed.
pub(crate) fn finish() -> Result<(), String> {
    let none = CapabilitySet::empty();
    let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
    set_capabilities(None, sets).map_err(|error| format!("capabilities: {error}"))?;
    set_no_new_privs(true).map_err(|error| format!("no_new_privs: {error}"))?;
    for (resource, name) in [(Resource::Nofile, "files"), (Resource::Nproc, "processes")] {
        let none = Rlimit { current: Some(0), maximum: Some(0) };
        setrlimit(resource, none).map_err(|error| format!("limit of {name}: {error}"))?;
    }
    let installed = filter().and_then(|filter| apply_filter(&filter));
    installed.map_err(|error| match error {
        seccompiler::Error::Seccomp(e) if matches!(e.raw_os_error(), Some(libc::ENOSYS | libc::EINVAL)) => {
            "without a filter of system calls it is not begun, and this kernel has none (CONFIG_SECCOMP_FILTER)".into()
        }
        other => format!("seccomp: {other}"),
    })
}

fn filter() -> Result<BpfProgram, seccompiler::Error> {
    let is = |argument, operator, value| {
        let condition = SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value)?;
        Ok::<_, seccompiler::Error>(vec![SeccompRule::new(vec![condition])?])
    };
    let mut allowed: BTreeMap<i64, Vec<SeccompRule>> =
        HARMLESS.iter().map(|call| (*call, Vec::new())).collect();
    for call in [libc::SYS_read, libc::SYS_write] {
        allowed.insert(call, is(0, SeccompCmpOp::Eq, QUEUE)?);
    }
    let executable = libc::PROT_EXEC as u64;
    allowed.insert(libc::SYS_mmap, is(2, SeccompCmpOp::MaskedEq(executable), 0)?);
    // ENOSYS, and no end: a library that logs an error goes on without its log.
    let missing = SeccompAction::Errno(libc::ENOSYS as u32);
    let filter = SeccompFilter::new(allowed, missing, SeccompAction::Allow, ARCH.try_into()?)?;
    Ok(filter.try_into()?)
}
