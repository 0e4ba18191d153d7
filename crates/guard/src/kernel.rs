//! Barriers as policies of the kernel's own XFRM.

use core::fmt;
use std::collections::HashSet;
use std::io;

use netlink::{Be16, Connection, Field as _, Header, MessageWriter, Protocol};
use policy::Prefix;
use xfrm::codec::{
    Address, Attributes, LifetimeConfig, LifetimeCurrent, MarkAttribute, PolicyId, PolicyInfo,
    SelectorInfo, SpdAttributes, SpdInfo, SpdThreshold, attr, family_of, kind,
};

use crate::barrier::{Barrier, Effect};
use crate::threshold::Threshold;

/// Requests of the guard to the kernel's XFRM.
pub(crate) trait Policies: fmt::Debug + Send {
    /// Adds policies, or replaces those with the same selector, direction, mark and if_id; in
    /// order. One answer for each.
    fn put(&mut self, barriers: &[Barrier]) -> Vec<io::Result<()>>;

    /// Removes policies; one answer for each.
    fn remove(&mut self, barriers: &[Barrier]) -> Vec<io::Result<()>>;

    /// Removes policies that a listing has found; one answer for each.
    fn remove_found(&mut self, found: &[Found]) -> Vec<io::Result<()>>;

    /// All of the kernel's policies, ours or not, by one dump.
    fn listing(&mut self) -> io::Result<Listing>;

    /// How many policies the kernel has, ours or not: in, out, forward.
    fn counts(&mut self) -> io::Result<[u32; 3]>;

    /// The prefix lengths from which on the kernel hashes IPv4 policies.
    fn threshold(&mut self) -> io::Result<Threshold>;

    /// Sets those lengths. The kernel rehashes its policies in the background; which policy a packet
    /// matches does not change.
    fn set_threshold(&mut self, threshold: Threshold) -> io::Result<()>;
}

/// Requests to the kernel's XFRM.
pub(crate) struct KernelPolicies {
    connection: Connection,
    tag: Tag,
}

/// Mark of one instance's policies: a soft limit of packets, unique to it. Linux keeps and tells
/// the limit, and counts no policy's packets. So the policies of an instance are known by a dump
/// of the kernel, also when the list is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tag(u64);

impl Tag {
    /// The tag of an instance: FNV-1a of its name behind a word of ours.
    pub(crate) fn of(instance: &str) -> Tag {
        let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        let bytes = b"culvert-guard ".iter().copied().chain(instance.bytes());
        // Below what `ip` and others take for no limit.
        Tag(bytes.fold(0xcbf2_9ce4_8422_2325, step) >> 1 | 1)
    }
}

impl fmt::Debug for KernelPolicies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KernelPolicies")
    }
}

impl KernelPolicies {
    pub(crate) fn open(tag: Tag) -> io::Result<KernelPolicies> {
        Ok(KernelPolicies { connection: Connection::open(Protocol::Xfrm)?, tag })
    }

    /// The attributes of the kernel's `NEWSPDINFO`.
    fn spd_info(&mut self) -> io::Result<Vec<u8>> {
        let mut request = MessageWriter::request(kind::GETSPDINFO, 0);
        request.fixed(&0u32);
        let answer = self.connection.ask(request)?.ok_or(io::ErrorKind::InvalidData)?;
        // Flags stand before the attributes.
        Ok(answer.get(u32::LEN..).unwrap_or_default().to_vec())
    }

    /// Sends a request for each subject, many at a time, and returns each one's answer. A request
    /// without an answer failed.
    fn requests<T>(
        &mut self,
        subjects: &[T],
        request: impl Fn(&T) -> (u16, Vec<u8>),
    ) -> Vec<io::Result<()>> {
        let requests = subjects.iter().map(|subject| {
            let (kind, body) = request(subject);
            let mut writer = MessageWriter::request(kind, 0);
            writer.raw(&body);
            writer
        });
        let results = self.connection.commands(requests).into_iter();
        results.map(|result| result.map_err(io::Error::from)).collect()
    }
}

impl Policies for KernelPolicies {
    fn put(&mut self, barriers: &[Barrier]) -> Vec<io::Result<()>> {
        let tag = self.tag;
        self.requests(barriers, |barrier| (kind::UPDPOLICY, encoded(barrier, tag)))
    }

    fn remove(&mut self, barriers: &[Barrier]) -> Vec<io::Result<()>> {
        self.requests(barriers, |barrier| {
            let id = PolicyId {
                selector: selector_info(barrier),
                dir: barrier.direction(),
                ..PolicyId::default()
            };
            (kind::DELPOLICY, [id.to_bytes(), attributes(barrier)].concat())
        })
    }

    fn remove_found(&mut self, found: &[Found]) -> Vec<io::Result<()>> {
        self.requests(found, |found| {
            let id = PolicyId {
                selector: found.info.selector.clone(),
                index: found.info.index,
                dir: found.info.dir,
                ..PolicyId::default()
            };
            (kind::DELPOLICY, [id.to_bytes(), written(&found.mark, found.if_id)].concat())
        })
    }

    fn listing(&mut self) -> io::Result<Listing> {
        let mut request = MessageWriter::request(kind::GETPOLICY, 0);
        // Linux wants the struct there, and reads nothing of it.
        request.fixed(&PolicyId::default());
        let mut listing = Listing::new(self.tag);
        self.connection.dump(request, |header, body| {
            if header.kind == kind::NEWPOLICY {
                listing.note(body);
            }
        })?;
        Ok(listing)
    }

    fn counts(&mut self) -> io::Result<[u32; 3]> {
        let attributes = self.spd_info()?;
        let info = netlink::Attributes::new(&attributes).find(attr::SPD_INFO);
        let info = info.and_then(|info| SpdInfo::decode(info).ok());
        let info = info.ok_or(io::ErrorKind::InvalidData)?;
        Ok([info.input, info.output, info.forward])
    }

    fn threshold(&mut self) -> io::Result<Threshold> {
        let attributes = self.spd_info()?;
        let found = SpdAttributes::parse(&attributes).map_err(|_| io::ErrorKind::InvalidData)?;
        let found = found.ipv4.and_then(|bytes| SpdThreshold::decode(bytes).ok());
        let found = found.ok_or(io::ErrorKind::InvalidData)?;
        Ok(Threshold { local: found.local_bits, remote: found.remote_bits })
    }

    fn set_threshold(&mut self, threshold: Threshold) -> io::Result<()> {
        let value = SpdThreshold { local_bits: threshold.local, remote_bits: threshold.remote };
        let mut request = MessageWriter::request(kind::NEWSPDINFO, 0);
        request.fixed(&0u32).field(attr::SPD_IPV4_HTHRESH, &value);
        Ok(self.connection.command(request)?)
    }
}

/// The kernel's policies.
#[derive(Debug)]
pub(crate) struct Listing {
    /// Policies that a barrier can equal, each encoded without its index and counters.
    all: HashSet<Vec<u8>>,
    ours: Vec<Found>,
    tag: Tag,
}

/// A policy of ours in the kernel.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    info: PolicyInfo,
    mark: MarkAttribute,
    if_id: u32,
    encoded: Vec<u8>,
}

impl Found {
    /// Index of the policy in the kernel.
    pub(crate) fn index(&self) -> u32 {
        self.info.index
    }
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let s = &self.info.selector;
        let side = |address: Address, len: u8| match address.ip(s.family) {
            Some(ip) => format!("{ip}/{len}"),
            None => "?".into(),
        };
        let (src, dst) = (side(s.src, s.src_prefix_len), side(s.dst, s.dst_prefix_len));
        write!(f, "src {src} dst {dst} priority {} index {}", self.info.priority, self.index())
    }
}

impl Listing {
    /// A listing of nothing.
    pub(crate) fn new(tag: Tag) -> Listing {
        Listing { all: HashSet::new(), ours: Vec::new(), tag }
    }

    /// True if the kernel has exactly this barrier's policy.
    pub(crate) fn has(&self, barrier: &Barrier) -> bool {
        self.all.contains(&encoded(barrier, self.tag))
    }

    /// The policies with our tag that are none of these barriers.
    pub(crate) fn stale<'a>(&self, standing: impl Iterator<Item = &'a Barrier>) -> Vec<Found> {
        let known: HashSet<Vec<u8>> = standing.map(|b| encoded(b, self.tag)).collect();
        self.ours.iter().filter(|found| !known.contains(&found.encoded)).cloned().collect()
    }

    /// Adds a policy, given the body of its message. One that no barrier can equal is left out.
    pub(crate) fn note(&mut self, body: &[u8]) {
        let Ok(mut info) = PolicyInfo::decode(body) else { return };
        let rest = body.get(PolicyInfo::LEN..).unwrap_or_default();
        let Ok(found) = Attributes::parse(rest) else { return };
        let is_main = found.bytes(attr::POLICY_TYPE).is_none_or(|bytes| bytes.first() == Some(&0));
        if !is_main || found.has(attr::TMPL) || found.has(attr::SEC_CTX) {
            return;
        }
        let index = info.index;
        (info.index, info.current) = (0, LifetimeCurrent::default());
        let mark = found.value(attr::MARK).unwrap_or_default();
        let if_id = found.value(attr::IF_ID).unwrap_or_default();
        let encoded = [info.to_bytes(), written(&mark, if_id)].concat();
        if info.limits.soft_packets == self.tag.0 {
            let info = PolicyInfo { index, ..info };
            self.ours.push(Found { info, mark, if_id, encoded: encoded.clone() });
        }
        self.all.insert(encoded);
    }
}

/// A barrier's policy as a listing has it.
fn encoded(barrier: &Barrier, tag: Tag) -> Vec<u8> {
    [policy_info(barrier, tag).to_bytes(), attributes(barrier)].concat()
}

/// The attributes that name a policy.
pub(crate) fn attributes(barrier: &Barrier) -> Vec<u8> {
    let (value, mask) = barrier.mark();
    written(&MarkAttribute { value, mask }, barrier.if_id())
}

fn written(mark: &MarkAttribute, if_id: u32) -> Vec<u8> {
    let mut writer = MessageWriter::new(0, 0, 0, 0);
    if mark.mask != 0 {
        writer.field(attr::MARK, mark);
    }
    if if_id != 0 {
        writer.field(attr::IF_ID, &if_id);
    }
    writer.finish().get(Header::LEN..).unwrap_or_default().to_vec()
}

/// The policy that a barrier is.
pub(crate) fn policy_info(barrier: &Barrier, tag: Tag) -> PolicyInfo {
    PolicyInfo {
        selector: selector_info(barrier),
        limits: LifetimeConfig {
            soft_bytes: u64::MAX,
            hard_bytes: u64::MAX,
            soft_packets: tag.0,
            hard_packets: u64::MAX,
            ..LifetimeConfig::default()
        },
        priority: barrier.priority(),
        dir: barrier.direction(),
        action: match barrier.effect() {
            Effect::Pass => 0,
            Effect::Block => 1,
        },
        ..PolicyInfo::default()
    }
}

/// Errno of a missing policy (`ENOENT`).
pub(crate) const NO_ENTRY: i32 = 2;

fn selector_info(barrier: &Barrier) -> SelectorInfo {
    let s = barrier.selector();
    let family = family_of(s.src.addr);
    SelectorInfo {
        dst: address(s.dst),
        src: address(s.src),
        dst_port: Be16(s.dst_port.value),
        dst_port_mask: Be16(s.dst_port.mask),
        src_port: Be16(s.src_port.value),
        src_port_mask: Be16(s.src_port.mask),
        family,
        dst_prefix_len: s.dst.len,
        src_prefix_len: s.src.len,
        protocol: s.protocol,
        ifindex: s.ifindex.cast_signed(),
        ..SelectorInfo::default()
    }
}

fn address(prefix: Prefix) -> Address {
    Address::from(prefix.addr)
}
