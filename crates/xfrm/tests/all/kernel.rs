//! The same requests to the running kernel's XFRM, in a network namespace of its own, and to the
//! database: the answers must be the same, byte for byte, but for times.
//!
//! The kernel needs no ESP for this: policies, reservations of SPIs, default actions and every
//! refusal work without. Where the process may not make a network namespace, or the kernel has no
//! XFRM, the test says so and passes.
#![allow(unsafe_code, reason = "netlink sockets and namespaces need system calls")]

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use crate::common::*;
use xfrm::codec::{
    AeventId, EsnReplay, Expire, Field, Header, MarkAttribute, Message, MessageWriter, Messages,
    PolicyDefault, PolicyExpire, PolicyInfo, ReplayState, SaInfo, SelectorInfo, SpiInfo, Template,
    attr, flag, kind,
};
use xfrm::{Database, Group, Output, Settings};

/// The kernel's own socket, subscribed to SAs, policies and expiries.
struct Kernel(OwnedFd, u32);

impl Kernel {
    /// In a fresh network namespace of this thread.
    fn open() -> io::Result<Kernel> {
        // SAFETY: the call only affects this thread, which the test ends with.
        if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
            return Err(io::Error::last_os_error());
        }
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
        // SAFETY: no pointers are involved.
        let fd = unsafe { libc::socket(libc::AF_NETLINK, kind, libc::NETLINK_XFRM) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor was just made.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        // SAFETY: all zero is a valid sockaddr_nl.
        let mut address: libc::sockaddr_nl = unsafe { core::mem::zeroed() };
        address.nl_family = libc::AF_NETLINK as u16;
        address.nl_groups = 1 << 1 | 1 << 2 | 1 << 3;
        let mut len = size_of::<libc::sockaddr_nl>() as u32;
        // SAFETY: the address lives through the call and has this length.
        if unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), len) } != 0 {
            return Err(io::Error::last_os_error());
        }
        let to = (&raw mut address).cast();
        // SAFETY: address and length live through the call.
        unsafe { libc::getsockname(fd.as_raw_fd(), to, &raw mut len) };
        let on = 1i32;
        // SAFETY: the option's value lives through the call and has this length.
        unsafe { libc::setsockopt(fd.as_raw_fd(), 270, 11, (&raw const on).cast(), 4) };
        Ok(Kernel(fd, address.nl_pid))
    }

    /// Sends a datagram and takes everything that comes back: notifications and answers.
    fn ask(&self, request: &[u8]) -> Vec<Vec<u8>> {
        let fd = self.0.as_raw_fd();
        // SAFETY: the bytes are valid for reads of their length.
        let n = unsafe { libc::send(fd, request.as_ptr().cast(), request.len(), 0) };
        assert_eq!(n, request.len() as isize);
        let mut messages = Vec::new();
        let mut buffer = vec![0u8; 65536];
        loop {
            let flags = libc::MSG_DONTWAIT;
            // SAFETY: the buffer is valid for writes of its length.
            let n = unsafe { libc::recv(fd, buffer.as_mut_ptr().cast(), buffer.len(), flags) };
            let Ok(n) = usize::try_from(n) else { break };
            messages.extend(Messages::new(&buffer[..n]).map(|(_, m)| m.to_vec()));
        }
        messages
    }
}

/// The database's side of the same.
fn ask(lab: &mut Lab, request: &[u8]) -> Vec<Vec<u8>> {
    let mut messages = Vec::new();
    for output in lab.send(request) {
        match output {
            Output::Reply(m) => messages.push(m.to_vec()),
            Output::Event { group: Group::Sa | Group::Policy | Group::Expire, message } => {
                messages.push(message.to_vec());
            }
            Output::Dump(mut dump) => {
                for chunk in lab.drain(&mut dump) {
                    messages.extend(Messages::new(&chunk).map(|(_, m)| m.to_vec()));
                }
            }
            Output::Event { .. } | Output::Change(_) => {}
            Output::Flush(_) => panic!("no test here has so many SAs"),
        }
    }
    messages
}

/// Takes out what may differ: times of addition, the text of refusals, and how large the kernel's hash
/// table of policies is, which grows in its own time.
fn comparable(mut m: Vec<u8>) -> Vec<u8> {
    const HASH_MASK: core::ops::Range<usize> = 16 + 4 + 4 + 24 + 4..16 + 4 + 4 + 24 + 8;
    if header(&m).kind == kind::NEWSPDINFO {
        m[HASH_MASK].fill(0);
    }
    let add_time = |at: usize| at + 16..at + 24;
    let ltime = match header(&m).kind {
        kind::NEWSA | kind::UPDSA | kind::EXPIRE => Some(16 + 160),
        kind::DELSA => Some(16 + 24 + 4 + 160),
        kind::NEWPOLICY | kind::UPDPOLICY | kind::POLEXPIRE => Some(16 + 120),
        kind::DELPOLICY => Some(16 + 64 + 4 + 120),
        kind::NEWAE => Some(16 + 48 + 16 + 4),
        _ => None,
    };
    if let Some(at) = ltime {
        m[add_time(at)].fill(0);
    }
    if header(&m).kind == kind::ERROR && header(&m).flags & flag::ACK_TLVS != 0 {
        let echoed = u32::from_ne_bytes(m[20..24].try_into().unwrap()) as usize;
        m.truncate(20 + echoed.next_multiple_of(4));
        let len = m.len() as u32;
        m[..4].copy_from_slice(&len.to_ne_bytes());
    }
    if header(&m).kind == kind::ERROR {
        // Whether a refusal has a text is a matter of taste, too.
        let len = m.len() as u32;
        let h = Header { len, flags: header(&m).flags & !flag::ACK_TLVS, ..header(&m) };
        m[..16].copy_from_slice(&h.to_bytes());
    }
    m
}

fn with(mut w: MessageWriter, kind: u16, value: &impl Field) -> Message {
    w.field(kind, value).take()
}

/// A request for an SA of a direction, without a window unless it is set.
fn directed(dir: u8, change: fn(&mut SaInfo), replay: Option<EsnReplay>) -> Message {
    let mut info = SaInfo { replay_window: 0, ..sa_info(0x100) };
    change(&mut info);
    let mut w = gcm_sa(kind::NEWSA, &info);
    if let Some(replay) = replay {
        w.attribute(attr::REPLAY_ESN_VAL, &replay.to_bytes());
    }
    w.attribute(attr::SA_DIR, &[dir]).take()
}

fn esn(words: usize, [sent, edge]: [u64; 2], window: u32) -> EsnReplay {
    EsnReplay { sent, edge, window, bitmap: vec![0; words] }
}

/// Policies, in an order in which each meets those before it.
fn policies() -> Vec<(&'static str, Message)> {
    let p = |kind, info: &PolicyInfo, t: &[Template]| policy(kind, info, t).finish();
    let t = template();
    let sel = |f: fn(&mut SelectorInfo)| {
        let mut info = policy_info(1);
        f(&mut info.selector);
        info
    };
    let out = policy_info(1);
    let dump = MessageWriter::new(kind::GETPOLICY, flag::REQUEST | flag::DUMP, 3, 0).finish();
    let get = |dir, index| request(kind::GETPOLICY, &policy_id(dir, index));
    let del = |dir, index| request(kind::DELPOLICY, &policy_id(dir, index));
    let mark = MarkAttribute { value: 3, mask: 0xff };
    vec![
        ("add", p(kind::NEWPOLICY, &out, &[template()])),
        ("add again", p(kind::NEWPOLICY, &out, &[])),
        ("add in", p(kind::NEWPOLICY, &policy_info(0), &[])),
        ("add fwd", p(kind::NEWPOLICY, &policy_info(2), &[t.clone(), t.clone()])),
        ("interface", with(policy(kind::UPDPOLICY, &out, &[]), attr::IF_ID, &3u32)),
        ("mark", with(policy(kind::NEWPOLICY, &out, &[]), attr::MARK, &mark)),
        ("update", p(kind::UPDPOLICY, &PolicyInfo { priority: 1, flags: 2, ..out.clone() }, &[])),
        ("dir 3", p(kind::NEWPOLICY, &policy_info(3), &[])),
        ("dir 4", p(kind::NEWPOLICY, &policy_info(4), &[])),
        ("family", p(kind::NEWPOLICY, &sel(|s| s.family = 0), &[])),
        ("prefix", p(kind::NEWPOLICY, &sel(|s| s.dst_prefix_len = 33), &[])),
        ("ports", p(kind::NEWPOLICY, &sel(|s| (s.dst_port, s.user) = (be16(9), 5)), &[])),
        ("IPv6", p(kind::NEWPOLICY, &sel(|s| (s.family, s.src_prefix_len) = (10, 128)), &[])),
        (
            "IPv6 prefix",
            p(kind::NEWPOLICY, &sel(|s| (s.family, s.src_prefix_len) = (10, 129)), &[]),
        ),
        ("action", p(kind::NEWPOLICY, &PolicyInfo { action: 2, ..out.clone() }, &[])),
        ("block", p(kind::UPDPOLICY, &PolicyInfo { action: 1, ..out.clone() }, &[])),
        ("share", p(kind::NEWPOLICY, &PolicyInfo { share: 4, ..out.clone() }, &[])),
        ("index of other dir", p(kind::NEWPOLICY, &PolicyInfo { index: 8, ..out.clone() }, &[])),
        (
            "index wanted",
            p(kind::NEWPOLICY, &PolicyInfo { index: 0x801, ..sel(|s| s.user = 1) }, &[]),
        ),
        (
            "index taken",
            p(kind::NEWPOLICY, &PolicyInfo { index: 0x801, ..sel(|s| s.user = 2) }, &[]),
        ),
        (
            "optional out",
            p(kind::NEWPOLICY, &sel(|s| s.user = 3), &[Template { optional: 1, ..t.clone() }]),
        ),
        (
            "optional transport",
            p(
                kind::NEWPOLICY,
                &sel(|s| s.user = 3),
                &[Template { optional: 1, mode: 0, ..t.clone() }],
            ),
        ),
        ("mode 9", p(kind::NEWPOLICY, &sel(|s| s.user = 4), &[Template { mode: 9, ..t.clone() }])),
        (
            "family change",
            p(
                kind::NEWPOLICY,
                &sel(|s| s.user = 4),
                &[Template { mode: 0, family: 10, ..t.clone() }],
            ),
        ),
        (
            "family change in a tunnel",
            p(kind::NEWPOLICY, &sel(|s| s.user = 4), &[Template { family: 10, ..t.clone() }]),
        ),
        (
            "family 0",
            p(kind::NEWPOLICY, &sel(|s| s.user = 6), &[Template { family: 0, ..t.clone() }]),
        ),
        (
            "family 7",
            p(kind::NEWPOLICY, &sel(|s| s.user = 7), &[Template { family: 7, ..t.clone() }]),
        ),
        ("seven", p(kind::NEWPOLICY, &sel(|s| s.user = 7), &vec![t.clone(); 7])),
        ("six", p(kind::NEWPOLICY, &sel(|s| s.user = 7), &vec![t; 6])),
        ("short", request(kind::NEWPOLICY, &sa_id(1)).finish()),
        ("short attribute", {
            let mut w = policy(kind::NEWPOLICY, &out, &[]);
            w.attribute(attr::MARK, &[0; 7]).take()
        }),
        ("type 2", {
            let mut w = policy(kind::NEWPOLICY, &out, &[]);
            w.attribute(attr::POLICY_TYPE, &[2, 0, 0, 0, 0, 0]).take()
        }),
        ("get", get(1, 0).finish()),
        ("get by mark", with(get(1, 0), attr::MARK, &mark)),
        ("get by other mark", with(get(1, 0), attr::MARK, &MarkAttribute { value: 3, mask: 3 })),
        ("get by index", get(1, 1).finish()),
        ("get by index of other dir", get(0, 1).finish()),
        ("get what is not there", get(0, 80).finish()),
        ("get dir 3", get(3, 0).finish()),
        ("dump", dump.clone()),
        (
            "soft",
            request(
                kind::POLEXPIRE,
                &PolicyExpire { policy: out.clone(), ..PolicyExpire::default() },
            )
            .finish(),
        ),
        (
            "hard",
            request(
                kind::POLEXPIRE,
                &PolicyExpire { policy: out.clone(), hard: 1, ..PolicyExpire::default() },
            )
            .finish(),
        ),
        (
            "hard again",
            request(
                kind::POLEXPIRE,
                &PolicyExpire { policy: out, hard: 1, ..PolicyExpire::default() },
            )
            .finish(),
        ),
        ("delete", del(0, 0).finish()),
        ("delete again", del(0, 0).finish()),
        ("delete by index", del(2, 0x12).finish()),
        ("flush", MessageWriter::new(kind::FLUSHPOLICY, 5, 4, 0).finish()),
        ("flush again", MessageWriter::new(kind::FLUSHPOLICY, 5, 4, 0).finish()),
        ("dump nothing", dump),
    ]
}

/// Marks with bits outside their masks, to a kernel that cuts those off: where something is stored, and where it is
/// named by the bits that count. (Named by others it is not found in the kernel, and is here. A reservation of an SPI
/// keeps all bits in the kernel, and no request finds it.)
fn cut_marks() -> Vec<(&'static str, Message)> {
    let mark = |value| MarkAttribute { value, mask: 0x0f };
    let named = |w: MessageWriter, value| with(w, attr::MARK, &mark(value));
    let put = |dir, value| named(policy(kind::NEWPOLICY, &policy_info(dir), &[]), value);
    let id = |kind, dir| named(request(kind, &policy_id(dir, 0)), 0x0f);
    vec![
        ("more than the mask", put(1, 0xff)),
        ("the same mark", put(1, 0x1f)),
        ("another mark", put(1, 0xfe)),
        ("more than the mask, in", put(0, u32::MAX)),
        ("more than the mask, fwd", put(2, 0xff)),
        (
            "a mask of nothing",
            with(
                policy(kind::NEWPOLICY, &policy_info(1), &[]),
                attr::MARK,
                &MarkAttribute { value: 5, mask: 0 },
            ),
        ),
        ("get by what counts", id(kind::GETPOLICY, 1)),
        (
            "dump of marks",
            MessageWriter::new(kind::GETPOLICY, flag::REQUEST | flag::DUMP, 3, 0).finish(),
        ),
        ("delete by what counts", id(kind::DELPOLICY, 1)),
        ("delete in by what counts", id(kind::DELPOLICY, 0)),
    ]
}

/// True if the kernel cuts marks (Linux 6.15, and older ones of which it was mended).
fn kernel_cuts_marks() -> io::Result<bool> {
    let kernel = Kernel::open()?;
    let (_, request) = cut_marks().swap_remove(0);
    let told = kernel.ask(&request);
    let marks = told.iter().filter(|m| header(m).kind == kind::NEWPOLICY);
    let marks = marks.filter_map(|m| attribute::<PolicyInfo>(m, attr::MARK));
    Ok(marks.filter_map(|m| MarkAttribute::decode(&m).ok()).any(|mark| mark.value == 0x0f))
}

/// Everything else that works without ESP.
fn others() -> Vec<(&'static str, Message)> {
    let bare = |kind, flags| MessageWriter::new(kind, flags, 4, 9).finish();
    let dump = || MessageWriter::new(kind::GETSA, flag::REQUEST | flag::DUMP, 3, 0);
    let ae = |spi| AeventId { sa: sa_id(spi), flags: 9, ..AeventId::default() };
    let default = |input, forward, output| PolicyDefault { input, forward, output };
    let spi = |f: fn(&mut SpiInfo)| {
        let info = SaInfo { replay_window: 0, ..sa_info(0) };
        let mut s = SpiInfo { info, min: 0x300, max: 0x300 };
        f(&mut s);
        request(kind::ALLOCSPI, &s).finish()
    };
    let sa = |f: fn(&mut SaInfo)| {
        let mut info = sa_info(0x100);
        f(&mut info);
        gcm_sa(kind::NEWSA, &info).finish()
    };
    vec![
        ("spdinfo", request(kind::GETSPDINFO, &7u32).finish()),
        ("sadinfo", request(kind::GETSADINFO, &7u32).finish()),
        ("thresholds", {
            let mut w = request(kind::NEWSPDINFO, &0u32);
            w.attribute(attr::SPD_IPV4_HTHRESH, &[24, 16]).take()
        }),
        ("thresholds too long", {
            let mut w = request(kind::NEWSPDINFO, &0u32);
            w.attribute(attr::SPD_IPV6_HTHRESH, &[129, 0]).take()
        }),
        ("thresholds too short", {
            let mut w = request(kind::NEWSPDINFO, &0u32);
            w.attribute(attr::SPD_IPV6_HTHRESH, &[129]).take()
        }),
        ("spdinfo again", request(kind::GETSPDINFO, &7u32).finish()),
        ("default", request(kind::GETDEFAULT, &default(0, 0, 0)).finish()),
        ("set default", request(kind::SETDEFAULT, &default(1, 0, 7)).finish()),
        ("default again", request(kind::GETDEFAULT, &default(0, 0, 0)).finish()),
        ("reserve", alloc_spi(0x100, 0x100).finish()),
        ("reserve with seq", spi(|s| (s.min, s.max, s.info.seq) = (0x200, 0x200, 5))),
        ("reserve transport", spi(|s| (s.info.mode, s.info.reqid) = (0, 9))),
        ("reserve backwards", spi(|s| s.max = 1)),
        ("reserve for UDP", spi(|s| s.info.id.protocol = 17)),
        ("reserve for IPComp", spi(|s| (s.info.id.protocol, s.max) = (108, 0x10000))),
        ("sadinfo then", request(kind::GETSADINFO, &7u32).finish()),
        ("get", request(kind::GETSA, &sa_id(0x100)).finish()),
        ("get none", request(kind::GETSA, &sa_id(0x999)).finish()),
        (
            "get under a mark",
            with(
                request(kind::GETSA, &sa_id(0x100)),
                attr::MARK,
                &MarkAttribute { value: 1, mask: 1 },
            ),
        ),
        (
            "get of UDP",
            request(kind::GETSA, &xfrm::codec::SaId { protocol: 17, ..sa_id(1) }).finish(),
        ),
        ("dump", dump().finish()),
        ("dump AH", dump().field(attr::PROTO, &51u8).take()),
        ("events", request(kind::GETAE, &ae(0x100)).finish()),
        ("events of none", request(kind::GETAE, &ae(0x999)).finish()),
        (
            "expire larval",
            request(kind::EXPIRE, &Expire { sa: sa_info(0x100), hard: 1, ..Expire::default() })
                .finish(),
        ),
        (
            "expire none",
            request(kind::EXPIRE, &Expire { sa: sa_info(0x999), hard: 1, ..Expire::default() })
                .finish(),
        ),
        ("set events without values", request(kind::NEWAE, &ae(0x100)).finish()),
        ("SA family", sa(|i| i.family = 3)),
        ("SA selector family", sa(|i| i.selector.family = 3)),
        ("SA protocol", sa(|i| i.id.protocol = 17)),
        ("SA without algorithm", request(kind::NEWSA, &sa_info(0x100)).finish()),
        ("SA mode", sa(|i| i.mode = 9)),
        ("SA ESN", sa(|i| i.flags = 128)),
        ("SA prefix", sa(|i| (i.selector.family, i.selector.src_prefix_len) = (2, 33))),
        ("SA with a short key", {
            let mut w = request(kind::NEWSA, &sa_info(0x100));
            w.attribute(attr::ALG_AEAD, &algorithm("x", &[161, 128], &[0; 20])).take()
        }),
        ("SA attribute too short", {
            let mut w = gcm_sa(kind::NEWSA, &sa_info(0x100));
            w.attribute(attr::REPLAY_VAL, &[0; 11]).take()
        }),
        ("SA direction", directed(3, |_| {}, None)),
        ("out window", directed(2, |i| i.replay_window = 32, None)),
        ("out decap-dscp", directed(2, |i| i.flags = 2, None)),
        ("out wildrecv", directed(2, |i| i.flags = 8, None)),
        ("out icmp", directed(2, |i| i.flags = 16, None)),
        ("out long window", directed(2, |_| {}, Some(esn(1, [0, 0], 1)))),
        ("out bitmap", directed(2, |i| i.flags = 128, Some(esn(1, [0, 0], 0)))),
        ("out received", directed(2, |i| i.flags = 128, Some(esn(0, [0, 1], 0)))),
        ("out high half", directed(2, |_| {}, Some(esn(0, [1 << 32, 0], 0)))),
        ("out last", directed(2, |_| {}, Some(esn(0, [u64::from(u32::MAX), 0], 0)))),
        ("out last ESN", directed(2, |i| i.flags = 128, Some(esn(0, [u64::MAX, 0], 0)))),
        ("in nopmtudisc", directed(1, |i| i.flags = 4, None)),
        ("in sent", directed(1, |i| i.flags = 128, Some(esn(1, [1, 0], 32)))),
        ("in high half", directed(1, |_| {}, Some(esn(1, [0, 1 << 32], 32)))),
        ("in last", directed(1, |_| {}, Some(esn(1, [0, u64::from(u32::MAX)], 32)))),
        ("in last ESN", directed(1, |i| i.flags = 128, Some(esn(1, [0, u64::MAX], 32)))),
        ("in dont-encap-dscp", {
            let mut w = gcm_sa(kind::NEWSA, &sa_info(0x100));
            w.attribute(attr::SA_DIR, &[1]);
            with(w, attr::SA_EXTRA_FLAGS, &1u32)
        }),
        ("in oseq-may-wrap", {
            let mut w = gcm_sa(kind::NEWSA, &sa_info(0x100));
            w.attribute(attr::SA_DIR, &[1]);
            with(w, attr::SA_EXTRA_FLAGS, &2u32)
        }),
        ("out received, short form", {
            let mut w = gcm_sa(kind::NEWSA, &sa_info(0x100));
            w.attribute(attr::SA_DIR, &[2]);
            with(w, attr::REPLAY_VAL, &ReplayState { oseq: 0, seq: 1, bitmap: 0 })
        }),
        ("CPU without direction", {
            with(gcm_sa(kind::NEWSA, &sa_info(0x100)), attr::SA_PCPU, &0u32)
        }),
        ("reserve for a CPU", {
            let mut w = alloc_spi(0x301, 0x301);
            w.attribute(attr::SA_DIR, &[2]);
            with(w, attr::SA_PCPU, &0u32)
        }),
        ("reserve for a CPU beyond", { with(alloc_spi(0x302, 0x302), attr::SA_PCPU, &u32::MAX) }),
        ("reserve with a direction", {
            let mut w = alloc_spi(0x300, 0x300);
            w.attribute(attr::SA_DIR, &[1]).take()
        }),
        ("delete", request(kind::DELSA, &sa_id(0x100)).finish()),
        ("delete again", request(kind::DELSA, &sa_id(0x100)).finish()),
        ("flush AH", request(kind::FLUSHSA, &51u32).finish()),
        ("flush", request(kind::FLUSHSA, &0u32).finish()),
        ("flush again", request(kind::FLUSHSA, &0u32).finish()),
        ("REPORT", bare(kind::REPORT, 5)),
        ("MAPPING", bare(kind::MAPPING, 5)),
        ("beyond", bare(kind::MAX + 1, 5)),
        ("NOOP", bare(kind::NOOP, 5)),
        ("no request", bare(kind::GETSA, 4)),
        ("no request, no answer", bare(kind::GETSA, 0)),
    ]
}

#[test]
fn answers_are_the_kernel_s() {
    // A thread of its own: the namespace ends with it.
    let result = std::thread::spawn(|| {
        let marks = match kernel_cuts_marks() {
            Ok(true) => cut_marks(),
            _ => Vec::new(),
        };
        let kernel = match Kernel::open() {
            Ok(kernel) => kernel,
            Err(e) => return Err(e),
        };
        let acquire_timeout_s = std::fs::read_to_string("/proc/sys/net/core/xfrm_acq_expires");
        let acquire_timeout_s = acquire_timeout_s.ok().and_then(|s| s.trim().parse().ok());
        let settings =
            Settings { acquire_timeout_s: acquire_timeout_s.unwrap_or(30), ..Settings::default() };
        let mut lab = Lab::new();
        lab.db = Database::new(Recorder::default(), settings);
        lab.sender.port_id = kernel.1;
        let (mut wrong, mut compared) = (Vec::new(), 0);
        for (name, request) in policies().into_iter().chain(others()).chain(marks) {
            let theirs: Vec<_> = kernel.ask(&request).into_iter().map(comparable).collect();
            let ours: Vec<_> = ask(&mut lab, &request).into_iter().map(comparable).collect();
            compared += theirs.len();
            if theirs != ours {
                wrong.push(format!("{name}\n kernel {theirs:02x?}\n ours   {ours:02x?}\n"));
            }
        }
        assert!(compared > 130, "the kernel gave only {compared} messages");
        assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
        Ok(())
    })
    .join();
    match result {
        Ok(Ok(())) => {}
        Ok(Err(e)) => eprintln!("skipped: no XFRM of the kernel to compare with ({e})"),
        Err(panic) => std::panic::resume_unwind(panic),
    }
}
