//! The preload library: NETLINK_XFRM sockets of an unmodified program go to culvert.
//!
//! Loaded into charon-systemd, pluto or `ip` by `LD_PRELOAD`, it turns
//! `socket(AF_NETLINK, *, NETLINK_XFRM)` into a connection to the `AF_UNIX` `SOCK_SEQPACKET` socket
//! that the environment variable `CULVERT_XFRM_SOCKET` names, and makes the calls on that
//! descriptor behave as on a netlink socket. On NETLINK_ROUTE sockets it takes culvert's own routes
//! and rules out of what the kernel sends, so that the program sees the machine as if culvert were
//! not there. charon, which goes by the kernel's release, hears one that is as new as the databases,
//! and that interfaces with one of culvert's devices can offload ESP.
//! Without the variable, and for every other descriptor, it hands each call on to the C
//! library unchanged.
//!
//! | Module       | What it knows                                                    | unsafe |
//! |--------------|------------------------------------------------------------------|--------|
//! | `symbols`    | the interposed functions: pointers in, pointers out              | yes    |
//! | `sys`        | system calls, fork handlers                                      | yes    |
//! | `table`      | which descriptors are ours: lock-free, read on every call        | no     |
//! | `state`      | the one lock, and all sockets behind it                          | no     |
//! | `socket`     | one socket: port id, memberships, options, requests in flight    | no     |
//! | `flight`     | which requests still wait for an answer                          | no     |
//! | `netlink`    | message headers, and the answers made up here                    | no     |
//! | `policy_match` | `iptables` rules that match IPsec, as matches on an interface | no     |
//! | `release`    | the kernel's release as charon hears it                          | no     |
//! | `ethtool`    | `esp-hw-offload` of interfaces behind which culvert has a device | no     |
//! | `esp_sockets` | UDP sockets whose ESP goes to a culvert without ports            | no     |
//! | `given`      | one such socket, and whether culvert still has its part          | no     |
//! | `link`       | connection lost, parked, renewed                                 | no     |
//! | `rescue`     | the thread that reconnects while the server is away              | no     |
//! | `calls`      | what each call does on a socket of ours                          | no     |
//! | `route_sockets` | which descriptors are rtnetlink sockets                       | no     |
//! | `hidden`     | culvert's routes and rules in what rtnetlink says                | no     |
//!
//! # When the server goes away
//!
//! The program must neither see an end of file nor spin on it. The descriptor gets a placeholder:
//! one end of a socket pair, put there by `dup3`, so that a program that polls sleeps. A thread,
//! started then and ended when all is well again, tries to connect; once it can, the new
//! connection takes the placeholder's place, with port id, memberships and options renewed.
//!
//! * A request whose answer had not come is sent again, so it may be carried out twice: an addition
//!   that the dead server had still carried out is then answered by EEXIST.
//! * A dump that was half read ends with NLM_F_DUMP_INTR: the program knows that it is incomplete.
//! * A member of multicast groups gets ENOBUFS once: events may have been missed.
//! * A request waits for at most `CULVERT_XFRM_WAIT` seconds (30 by default), then it is answered
//!   by an NLMSG_ERROR with ECONNREFUSED; `socket` and blocking `send` fail with that errno.
//! * A call that must not block returns EAGAIN (receiving) or ECONNREFUSED (sending).
//!
//! # Threads, forks, descriptors
//!
//! Every function may be called from every thread. All state of sockets is behind one lock that is
//! never held across a wait. `fork` takes the lock, so a child finds it free; it shares the
//! connections that its parent had, as it would share netlink sockets. `dup`, `dup2`, `dup3` and
//! `fcntl(F_DUPFD)` are followed, and `epoll` registrations move along to a new connection.
//! Not followed: a descriptor that is passed to another program by `exec` or `SCM_RIGHTS`, and
//! `io_uring`. A descriptor closed behind the library's back is noticed by its inode.

mod calls;
mod config;
mod esp_sockets;
mod ethtool;
mod flight;
mod given;
mod hidden;
mod link;
mod netlink;
mod policy_match;
mod release;
mod rescue;
mod route_sockets;
mod socket;
mod state;
pub mod symbols;
mod sys;
mod table;

#[path = "../../xfrm/src/shim_protocol.rs"]
#[allow(dead_code, reason = "one file for both sides; each uses its part of it")]
mod shim_protocol;
