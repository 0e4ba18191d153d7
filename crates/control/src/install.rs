//! How fast SAs and policies can be installed: the whole way of a request, without a network.
//!
//! A client speaks netlink over the socket as a program under `culvert exec` does, with a few
//! requests under way at a time. At the other end is what the daemon has there: server, database,
//! data path with the engine's sessions, vault with journal and live numbers. A worker takes over
//! changes as it does between two bursts, all the time. Guard, routes and steering are not there:
//! they are the kernel's work.

use std::cell::RefCell;
use std::error::Error;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crypto::Providers;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use serde::Serialize;
use vault::Vault;
use xfrm::codec::{
    Address, Be32, Field, Header, Id, LifetimeConfig, Message, MessageWriter, Messages, PolicyInfo,
    SaFlush, SaId, SaInfo, SelectorInfo, Template, attr, flag, kind,
};
use xfrm::shim_protocol::Record;
use xfrm::{Database, Now, Server, ServerLimits, Settings};

use super::sources::SaRules;
use super::sources::builtin::{DataPath, Journal, Numbers};

/// Parameters of the measurement.
pub struct InstallOptions {
    /// Make the sessions.
    pub providers: Providers,
    /// Where the vault and the socket are made, in a directory of their own that is removed: a
    /// tmpfs, as the vault has in use.
    pub directory: PathBuf,
    /// SAs in all, half of them outbound; at least 2, at most 200 000. With each two come three
    /// policies.
    pub sas: u32,
    /// Requests under way at a time, at least 1. IKE daemons have about as many as threads.
    pub window: u32,
}

/// Results of the measurement.
#[derive(Clone, Debug, Default, Serialize)]
pub struct InstallReport {
    /// SAs that were installed.
    pub sas: u32,
    /// Policies that were installed.
    pub policies: u32,
    /// Requests under way at a time.
    pub window: u32,
    /// SAs installed a second.
    pub sas_per_s: f64,
    /// SAs a second at the end, over the last tenth.
    pub last_sas_per_s: f64,
    /// Policies installed a second.
    pub policies_per_s: f64,
    /// Seconds that a dump of all SAs takes.
    pub sa_dump_s: f64,
    /// Seconds that a dump of all policies takes.
    pub policy_dump_s: f64,
    /// SAs deleted a second, one by one, a tenth of them.
    pub sa_deletions_per_s: f64,
    /// Seconds that it takes to flush the rest of the SAs.
    pub sa_flush_s: f64,
    /// Seconds that it takes to flush all policies.
    pub policy_flush_s: f64,
    /// The longest that the control thread was busy without a look at anything else, in
    /// milliseconds.
    pub longest_turn_ms: f64,
    /// The longest that a worker took to take over changes, in microseconds.
    pub longest_refresh_us: f64,
    /// Memory of the process for each SA, in bytes: database, data path, session, live
    /// numbers.
    pub bytes_per_sa: f64,
    /// Memory of the process for each policy, in bytes.
    pub bytes_per_policy: f64,
}

/// Installs, reads and removes SAs and policies by requests over the socket.
///
/// # Errors
/// The directory cannot be used, or a request is refused.
pub fn bench_install(options: &InstallOptions) -> Result<InstallReport, Box<dyn Error>> {
    let directory = options.directory.join(format!("culvert-install-{}", std::process::id()));
    std::fs::create_dir(&directory)?;
    let result = run(options, &directory);
    std::fs::remove_dir_all(&directory)?;
    result
}

fn run(options: &InstallOptions, directory: &Path) -> Result<InstallReport, Box<dyn Error>> {
    let (vault, records) = Vault::open(directory.join("vault"))?;
    let vault = Rc::new(RefCell::new(vault));
    let numbers = Numbers::new(Rc::clone(&vault), &records);
    let data_path =
        DataPath::new(options.providers.clone(), Rc::clone(&vault), numbers, SaRules::default());
    let mut reader = data_path.databases().reader();
    let mut database = Database::new(data_path, Settings::default());
    let mut journal = Journal::new(vault);
    let socket = directory.join("xfrm.sock");
    let uid = rustix::process::getuid().as_raw();
    let mut server = Server::new(&socket, ServerLimits { uid, ..ServerLimits::default() })?;

    let started = Instant::now();
    let is_over = AtomicBool::new(false);
    let mut longest_turn = Duration::ZERO;
    let (report, longest_refresh) = thread::scope(|scope| {
        let worker = scope.spawn(|| {
            let mut longest = Duration::ZERO;
            while !is_over.load(Relaxed) {
                let begin = Instant::now();
                reader.refresh();
                longest = longest.max(begin.elapsed());
                // About the time of a burst.
                while begin.elapsed() < Duration::from_micros(10) {
                    core::hint::spin_loop();
                }
            }
            longest
        });
        let client = scope.spawn(|| {
            let result = Client::connect(&socket, options.window)
                .and_then(|mut client| client.run(options.sas));
            is_over.store(true, Relaxed);
            result
        });
        while !is_over.load(Relaxed) {
            let tv_nsec = if server.is_busy() { 0 } else { 10_000_000 };
            let timeout = Timespec { tv_sec: 0, tv_nsec };
            let _ = poll(
                &mut [PollFd::from_borrowed_fd(server.poll_fd(), PollFlags::IN)],
                Some(&timeout),
            );
            let begin = Instant::now();
            // As the daemon's loop does it, and in its order.
            server.receive(&mut database, clock(started), &mut |change| journal.record(change))?;
            let mut outputs = Vec::new();
            database.tick(clock(started), &mut outputs);
            server.enqueue(outputs, &mut |change| journal.record(change));
            database.backend_mut().changes().take_policies();
            server.send(&database);
            longest_turn = longest_turn.max(begin.elapsed());
        }
        let report = client.join().map_err(|_| "the client panicked")?;
        let refresh = worker.join().map_err(|_| "the worker panicked")?;
        Ok::<_, Box<dyn Error>>((report.map_err(|e| e.to_string())?, refresh))
    })?;
    Ok(InstallReport {
        longest_turn_ms: longest_turn.as_secs_f64() * 1e3,
        longest_refresh_us: longest_refresh.as_secs_f64() * 1e6,
        ..report
    })
}

/// The time for the database; its monotonic clock may begin anywhere.
fn clock(started: Instant) -> Now {
    let wall_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |t| t.as_secs());
    let mono_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    Now { wall_s, mono_ms }
}

/// Fatal error of the client, which threads can hand on.
type Failed = Box<dyn Error + Send + Sync>;

/// A program that installs.
struct Client {
    fd: OwnedFd,
    window: u32,
    buffer: Vec<u8>,
}

impl Client {
    fn connect(path: &Path, window: u32) -> Result<Self, Failed> {
        let kind = SocketType::SEQPACKET;
        let fd = rustix::net::socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)?;
        rustix::net::connect(&fd, &SocketAddrUnix::new(path)?)?;
        rustix::io::write(&fd, &Record::Hello { port_id: 1 }.datagram())?;
        Ok(Self { fd, window: window.max(1), buffer: vec![0; 1 << 16] })
    }

    fn run(&mut self, sas: u32) -> Result<InstallReport, Failed> {
        let tunnels = (sas / 2).max(1);
        let (sas, policies) = (2 * tunnels, 3 * tunnels);
        let mut report = InstallReport { sas, policies, window: self.window, ..Default::default() };

        let before = resident_bytes();
        let most = sas - sas / 10;
        let first = self.all(0..most, new_sa)?;
        let last = self.all(most..sas, new_sa)?;
        report.sas_per_s = rate(sas, first + last);
        report.last_sas_per_s = rate(sas - most, last);
        let with_sas = resident_bytes();
        report.bytes_per_sa = with_sas.saturating_sub(before) as f64 / f64::from(sas);

        report.policies_per_s = rate(policies, self.all(0..policies, new_policy)?);
        let grown = resident_bytes().saturating_sub(with_sas);
        report.bytes_per_policy = grown as f64 / f64::from(policies);

        report.sa_dump_s = self.dump(kind::GETSA, sas)?.as_secs_f64();
        report.policy_dump_s = self.dump(kind::GETPOLICY, policies)?.as_secs_f64();
        report.sa_deletions_per_s =
            rate((sas / 10).max(1), self.all(0..(sas / 10).max(1), delete_sa)?);

        let flush = |_| request(kind::FLUSHPOLICY).finish();
        report.policy_flush_s = self.all(0..1, flush)?.as_secs_f64();
        let flush = |_| {
            let mut w = request(kind::FLUSHSA);
            w.fixed(&SaFlush { protocol: ESP, ..SaFlush::default() });
            w.finish()
        };
        report.sa_flush_s = self.all(0..1, flush)?.as_secs_f64();
        Ok(report)
    }

    /// Sends requests, a window of them at a time, and waits for every acknowledgement.
    fn all(
        &mut self,
        numbers: std::ops::Range<u32>,
        make: impl Fn(u32) -> Message,
    ) -> Result<Duration, Failed> {
        // Made before the clock runs, a piece at a time: what counts is the other end.
        let mut spent = Duration::ZERO;
        let mut rest = numbers;
        while !rest.is_empty() {
            let messages: Vec<Message> = rest.by_ref().take(MADE_AHEAD).map(&make).collect();
            let begin = Instant::now();
            let mut waiting = messages.iter();
            let mut under_way = 0;
            loop {
                if under_way < self.window
                    && let Some(message) = waiting.next()
                {
                    rustix::io::write(&self.fd, message)?;
                    under_way += 1;
                    continue;
                }
                if under_way == 0 {
                    break;
                }
                self.acknowledged()?;
                under_way -= 1;
            }
            spent += begin.elapsed();
        }
        Ok(spent)
    }

    /// Waits for an acknowledgement.
    fn acknowledged(&mut self) -> Result<(), Failed> {
        let len = rustix::io::read(&self.fd, &mut self.buffer[..])?;
        let bytes = self.buffer.get(..len).unwrap_or_default();
        let errno = bytes.get(Header::LEN..).and_then(|b| b.first_chunk::<4>());
        match errno.map(|b| i32::from_ne_bytes(*b)) {
            Some(0) => Ok(()),
            Some(errno) => Err(format!("a request was refused, errno {}", -errno).into()),
            None => Err("the server closed the connection".into()),
        }
    }

    /// Reads all SAs or policies, which must be so many.
    fn dump(&mut self, kind: u16, expected: u32) -> Result<Duration, Failed> {
        let begin = Instant::now();
        let mut w = MessageWriter::new(kind, flag::REQUEST | flag::DUMP, 1, 0);
        rustix::io::write(&self.fd, &w.take())?;
        let mut count = 0;
        loop {
            let len = rustix::io::read(&self.fd, &mut self.buffer[..])?;
            for (header, _) in Messages::new(self.buffer.get(..len).unwrap_or_default()) {
                if header.kind == kind::DONE {
                    let spent = begin.elapsed();
                    let text = || format!("{count} in a dump where there are {expected}");
                    return if count == expected { Ok(spent) } else { Err(text().into()) };
                }
                count += 1;
            }
            if len == 0 {
                return Err("the server closed the connection".into());
            }
        }
    }
}

/// Requests that are made before they are sent.
const MADE_AHEAD: usize = 4096;

const ESP: u8 = 50;
const TUNNEL: u8 = 1;
const AF_INET: u16 = 2;

fn request(kind: u16) -> MessageWriter {
    MessageWriter::new(kind, flag::REQUEST | flag::ACK, 1, 0)
}

/// Address of this gateway.
const LOCAL: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));

/// The other end of a tunnel.
fn peer(tunnel: u32) -> IpAddr {
    IpAddr::V4(Ipv4Addr::from_bits(0xc612_0000 + tunnel))
}

/// Source, destination and SPI of an SA: even ones are outbound.
pub(super) fn ends(number: u32) -> (IpAddr, IpAddr, u32) {
    // SPIs as IKE daemons have them: spread over all of the range.
    let spi = (number + 1).wrapping_mul(0x9e37_79b1);
    let other = peer(number / 2);
    if number.is_multiple_of(2) { (LOCAL, other, spi) } else { (other, LOCAL, spi) }
}

/// Lifetimes by time, as IKE daemons set them, and none by volume.
pub(super) fn limits(spread: u32) -> LifetimeConfig {
    LifetimeConfig {
        soft_bytes: u64::MAX,
        hard_bytes: u64::MAX,
        soft_packets: u64::MAX,
        hard_packets: u64::MAX,
        soft_add_s: 3000 + u64::from(spread % 300),
        hard_add_s: 3960,
        ..LifetimeConfig::default()
    }
}

pub(super) fn new_sa(number: u32) -> Message {
    new_sa_within(number, limits(number))
}

/// An SA with these limits.
pub(super) fn new_sa_within(number: u32, limits: LifetimeConfig) -> Message {
    let (src, dst, spi) = ends(number);
    let mut w = request(kind::NEWSA);
    w.fixed(&SaInfo {
        id: Id { dst: dst.into(), spi: Be32(spi), protocol: ESP, ..Id::default() },
        src: src.into(),
        limits,
        reqid: number / 2 + 1,
        family: AF_INET,
        mode: TUNNEL,
        replay_window: 32,
        ..SaInfo::default()
    });
    // Name, bits of key and salt, bits of ICV, key and salt.
    let mut algorithm = b"rfc4106(gcm(aes))".to_vec();
    algorithm.resize(64, 0);
    algorithm.extend([160_u32, 128].iter().flat_map(|n| n.to_ne_bytes()));
    algorithm.extend((0..5).flat_map(|n: u32| (number.wrapping_mul(31) ^ n << 24).to_ne_bytes()));
    w.attribute(attr::ALG_AEAD, &algorithm);
    w.finish()
}

pub(super) fn delete_sa(number: u32) -> Message {
    let (_, dst, spi) = ends(number);
    let mut w = request(kind::DELSA);
    let dst = Address::from(dst);
    w.fixed(&SaId { dst, spi: Be32(spi), family: AF_INET, protocol: ESP, ..SaId::default() });
    w.finish()
}

/// The kernel's number of a policy's direction: out, in, forward in turn.
pub(super) fn direction(number: u32) -> u8 {
    [1, 0, 2][(number % 3) as usize]
}

/// A policy's selector.
fn selector(number: u32) -> SelectorInfo {
    let far = IpAddr::V4(Ipv4Addr::from_bits(0x0a00_0000 + ((number / 3) << 8)));
    let near = IpAddr::V4(Ipv4Addr::new(172, 16, 0, 0));
    let outbound = direction(number) == 1;
    let (src, dst) = if outbound { (near, far) } else { (far, near) };
    let (src_prefix_len, dst_prefix_len) = if outbound { (12, 24) } else { (24, 12) };
    SelectorInfo {
        src: src.into(),
        dst: dst.into(),
        src_prefix_len,
        dst_prefix_len,
        family: AF_INET,
        ..SelectorInfo::default()
    }
}

/// Deletes a policy.
#[cfg(test)]
pub(super) fn delete_policy(number: u32) -> Message {
    delete_policy_of(number, selector(number))
}

/// Deletes a policy for packets of a selector.
#[cfg(test)]
pub(super) fn delete_policy_of(number: u32, selector: SelectorInfo) -> Message {
    let mut w = request(kind::DELPOLICY);
    let dir = direction(number);
    w.fixed(&xfrm::codec::PolicyId { selector, dir, ..Default::default() });
    w.finish()
}

/// Policies of a tunnel: out, in, forward; a network of 256 addresses behind each peer.
pub(super) fn new_policy(number: u32) -> Message {
    new_policy_of(number, selector(number))
}

/// A policy of a tunnel for packets of a selector.
pub(super) fn new_policy_of(number: u32, selector: SelectorInfo) -> Message {
    let (tunnel, dir) = (number / 3, direction(number));
    let (outbound, other) = (dir == 1, peer(tunnel));
    let (outer_src, outer_dst) = if outbound { (LOCAL, other) } else { (other, LOCAL) };
    let mut w = request(kind::NEWPOLICY);
    w.fixed(&PolicyInfo {
        selector,
        limits: LifetimeConfig { soft_add_s: 0, hard_add_s: 0, ..limits(0) },
        priority: 375_423,
        dir,
        ..PolicyInfo::default()
    });
    let template = Template {
        id: Id { dst: outer_dst.into(), protocol: ESP, ..Id::default() },
        src: outer_src.into(),
        family: AF_INET,
        reqid: tunnel + 1,
        mode: TUNNEL,
        aalgos: u32::MAX,
        ealgos: u32::MAX,
        calgos: u32::MAX,
        ..Template::default()
    };
    w.attribute(attr::TMPL, &template.to_bytes());
    w.finish()
}

fn rate(count: u32, spent: Duration) -> f64 {
    f64::from(count) / spent.as_secs_f64().max(1e-9)
}

/// Memory of this process.
fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

#[cfg(test)]
mod tests {
    use config::EngineChoice;

    use super::*;

    #[test]
    fn everything_is_installed_read_and_removed() {
        let directory = tempfile::tempdir().unwrap();
        let providers = super::super::providers(EngineChoice::Openssl).unwrap();
        let directory_of = directory.path().to_owned();
        let options = InstallOptions { providers, directory: directory_of, sas: 300, window: 8 };
        let report = bench_install(&options).unwrap();
        assert_eq!((report.sas, report.policies), (300, 450));
        assert!(report.sas_per_s > 0.0 && report.policies_per_s > 0.0);
        let left = std::fs::read_dir(directory.path()).unwrap().count();
        assert_eq!(left, 0, "nothing is left behind");
    }
}
