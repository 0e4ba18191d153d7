//! Which system calls are forbidden to whom, as lists of their numbers.

/// To look into other processes or change them, to put another kernel in this one's place, to end the machine, to
/// open files past the directories that lead to them: no code of culvert's, of a library or of `nft` does any of
/// it, so whatever does is not theirs.
pub const HOSTILE: &[i64] = &[
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_pidfd_getfd,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_reboot,
    libc::SYS_open_by_handle_at,
    libc::SYS_pivot_root,
];

/// System calls for which neither the daemon nor a program that it starts has a use.
pub const REFUSED: &[i64] = &[
    // Mounts.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_chroot,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_mount_setattr,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_name_to_handle_at,
    // Namespaces; those of clone(2) are told by its flags.
    libc::SYS_setns,
    libc::SYS_unshare,
    // Modules. Those that a socket needs the kernel loads by itself.
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    // Keys of the kernel's.
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    // Ways into the kernel that have been of use to attackers.
    libc::SYS_userfaultfd,
    libc::SYS_perf_event_open,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_personality,
    libc::SYS_kcmp,
    libc::SYS_process_madvise,
    libc::SYS_fanotify_init,
    libc::SYS_nfsservctl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_modify_ldt,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_uselib,
    // What is the machine's: its clock, its names, its log.
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_syslog,
];

/// To become another program.
pub const PROGRAMS: &[i64] = &[libc::SYS_execve, libc::SYS_execveat];

/// System calls for moving packets: descriptors that are open already, memory, sleep, and the end
/// of a thread. No file is opened, no socket made, no thread and no program started.
pub const PACKETS: &[i64] = &[
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_readv,
    libc::SYS_writev,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    libc::SYS_sendmmsg,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_recvmmsg,
    libc::SYS_getsockopt,
    libc::SYS_setsockopt,
    libc::SYS_ioctl,
    libc::SYS_fcntl,
    libc::SYS_fstat,
    libc::SYS_close,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_poll,
    libc::SYS_ppoll,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_epoll_wait,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    // Memory.
    libc::SYS_brk,
    libc::SYS_mmap,
    libc::SYS_mremap,
    libc::SYS_munmap,
    libc::SYS_mprotect,
    libc::SYS_madvise,
    libc::SYS_membarrier,
    // Time, where no page of the kernel's tells it, and sleep.
    libc::SYS_clock_gettime,
    libc::SYS_gettimeofday,
    libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep,
    libc::SYS_futex,
    libc::SYS_restart_syscall,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_setaffinity,
    libc::SYS_getcpu,
    libc::SYS_getrandom,
    // A thread's own affairs: its name, its signals, its end; and a panic's.
    libc::SYS_prctl,
    libc::SYS_rseq,
    libc::SYS_set_robust_list,
    libc::SYS_sigaltstack,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_tgkill,
    libc::SYS_exit,
    libc::SYS_exit_group,
];

/// System calls for serving by HTTP beside [`PACKETS`]: connections to accept, and to the daemon.
/// The rules of [`ASKING`], and of a thread for each connection, are apart.
pub const SERVING: &[i64] = &[
    libc::SYS_accept4,
    libc::SYS_connect,
    libc::SYS_shutdown,
    libc::SYS_getsockname,
    libc::SYS_getpeername,
    libc::SYS_geteuid,
];

/// To make a socket: for one who only serves, one of the family `AF_UNIX`.
pub const ASKING: i64 = libc::SYS_socket;

/// Flags of clone(2) that make a namespace. One of users, in which everybody is root, needs no privilege.
pub const NAMESPACES: &[i32] = &[
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWNS,
    libc::CLONE_NEWNET,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWCGROUP,
];

/// The number of clone3(2), whose flags a filter cannot see.
pub const CLONE3: i64 = libc::SYS_clone3;

/// The numbers by which a call is reached. x86-64 has a second way to most calls, of programs with short pointers
/// (x32), where the kernel is built with it: the same number with a bit, and another number for a few.
pub fn numbers(call: i64) -> impl Iterator<Item = i64> {
    const X32: i64 = 0x4000_0000;
    let of_x32 = match call {
        _ if !cfg!(target_arch = "x86_64") => None,
        libc::SYS_execve => Some(520),
        libc::SYS_ptrace => Some(521),
        libc::SYS_kexec_load => Some(528),
        libc::SYS_process_vm_readv => Some(539),
        libc::SYS_process_vm_writev => Some(540),
        libc::SYS_execveat => Some(545),
        same => Some(same),
    };
    [Some(call), of_x32.map(|number| number | X32)].into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_call_is_allowed_in_one_list_and_forbidden_in_another() {
        let forbidden = [HOSTILE, REFUSED, PROGRAMS].concat();
        let mut numbers: Vec<i64> = forbidden.iter().flat_map(|call| numbers(*call)).collect();
        let count = numbers.len();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), count, "one is there twice");
        assert!(PACKETS.iter().chain(SERVING).all(|call| !forbidden.contains(call)));
        assert!(!PACKETS.contains(&libc::SYS_clone) && !PACKETS.contains(&CLONE3));
    }
}
