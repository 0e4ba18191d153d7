//! A whole control plane in memory: its tables, its guard and its clients, without root, namespaces or ports.
//!
//! Random histories of what happens to it are held against a model: what must be published, guarded and steered, and that
//! nothing is open which a policy protects.
//!
//! | in memory | by |
//! | --- | --- |
//! | Linux's tables, and what it is told | [`world`] |
//! | interfaces, ports, their programs, engines | [`hardware`] |
//! | the kernel's policies of the guard | [`guard::memory`] |
//! | a kernel that owns SAs and policies, in bytes of netlink | [`xfrm_kernel`] |
//! | connections that Linux tracks, likewise | [`connections`] |
//!
//! | histories | of |
//! | --- | --- |
//! | [`histories`] | interfaces, VLANs, routes, policies, reloads, faults of each edge |
//! | [`lives`] | time: lifetimes, retries, clients that ask and command at their socket |
//! | [`beside_kernel`] | SAs that cross between a kernel and the fast path |
//! | [`nat`] | connections that Linux translates |
//!
//! An IKE daemon talks to the server of the daemon itself, and clients to its control socket. Workers are real threads; their
//! ports are in memory.

mod applications;
mod beside_kernel;
mod connections;
mod hardware;
mod histories;
mod lives;
mod memifs;
mod nat;
mod world;
mod xfrm_kernel;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use config::{Config, EngineChoice, SourceChoice};
use crypto::Providers;
use dataplane::{EventSender, Polling};
use guard::memory::Memory;
use io::{ChunkSize, Umem, UmemConfig};
use mirror::{Change, Link};
use tempfile::TempDir;
use vault::Vault;
use xfrm::ServerLimits;

use self::connections::Connections;
use self::hardware::Hardware;
use self::world::{Ike, Linux, Mirror};
use self::xfrm_kernel::XfrmKernel;
use super::by_sender::BySender;
use super::clock::Now;
use super::confinement::Confinement;
use super::control::Control;
use super::detour::PastDaemon;
use super::esp_sockets::EspSockets;
use super::life::Life;
use super::linux::Linux as OfLinux;
use super::linux::edge::Tables;
use super::nat::{Nat, TakenFlows};
use super::offload::Offload;
use super::offload::devices::Devices;
use super::plan::machine::Look as _;
use super::plan::plan;
use super::plan::running::Running;
use super::plan::testing::PORTS;
use super::ports::Ports;
use super::private::Private;
use super::sa::Sas;
use super::shows::Shows;
use super::sources::builtin::Restored;
use super::sources::kernel::{KernelParts, KernelSource, OwnMarks};
use super::sources::testing::xfrm_interface;
use super::sources::{SaRules, Source};
use super::vici::{Asking, Vici};
use super::way_back::WayBack;
use super::workers::{Crew, Kit};
use super::{Daemon, Wants, own};

/// Index of the private interface.
const PRIVATE: u32 = 9;

/// The daemon, and what surrounds it.
struct Plane {
    daemon: Daemon,
    /// The daemon's time, which goes on with each round.
    now: Now,
    linux: Linux,
    hardware: Hardware,
    kernel: Memory,
    /// Connections that Linux tracks, which `[nat]` learns.
    connections: Connections,
    /// The kernel that owns SAs and policies, where one does.
    xfrm: Option<XfrmKernel>,
    ike: Option<Rc<Ike>>,
    /// Keeps the channel of workers' events open, and tells of what they would.
    events: EventSender,
    config: PathBuf,
    _directory: TempDir,
}

/// An Ethernet interface.
pub(crate) fn link(index: u32, name: &str, up: bool) -> Link {
    Link {
        name: name.into(),
        kind: None,
        mac: Some([2, 0, 0, 0, 0, index as u8]),
        mtu: 1500,
        lower: None,
        xfrm: None,
        up,
        running: up,
        ..xfrm_interface(index, 0)
    }
}

impl Plane {
    /// A daemon that has started with a configuration.
    fn start(text: &str) -> Plane {
        let (directory, now) = (tempfile::tempdir().unwrap(), Now::read());
        let at = |name: &str| directory.path().join(name);
        std::fs::write(at("culvert.toml"), text).unwrap();
        let config = Config::parse(text, Path::new("culvert.toml")).unwrap();
        let linux = Linux::default();
        linux.put(Change::Link(link(2, PORTS[0], true)));
        linux.put(Change::Link(link(3, PORTS[1], true)));
        linux.put(Change::Link(link(PRIVATE, &config.tun.interface, true)));
        let observer = Mirror::new(&linux);
        let hardware = Hardware::new(&linux);

        let (guard, kernel) =
            Memory::open(&config.name, &config.tun.interface, directory.path()).unwrap();
        let (vault, records) = Vault::open(at("vault")).unwrap();
        let openssl = super::providers(EngineChoice::Openssl).unwrap();
        let providers = Providers::new(hardware.provider(Arc::clone(openssl.first())));
        let devices = Rc::new(RefCell::new(Devices::new(&BTreeMap::new())));
        let crypto = (providers.clone(), Rc::clone(&devices));
        let xfrm = (config.source == SourceChoice::Kernel).then(|| XfrmKernel::new(now.xfrm()));
        let (source, ike) = match &xfrm {
            Some(kernel) => {
                let marks = OwnMarks { past: config.tun.mark, judged: config.tun.judged_mark };
                let local = observer.snapshot().addresses().map(|a| a.addr).collect();
                let (rules, providers) = (SaRules::default(), providers.clone());
                let parts = KernelParts { vault, providers, rules, marks, local, firewall: None };
                let (requests, events) = kernel.connect();
                let source = KernelSource::new(parts, requests, events, now).unwrap();
                (Source::Kernel(Box::new(source)), None)
            }
            None => {
                let rules = SaRules::default();
                let restored = Restored::new(vault, &records, crypto, rules, now).unwrap();
                let uid = rustix::process::getuid().as_raw();
                let limits = ServerLimits { uid, ..ServerLimits::default() };
                let source = restored.serve_at(&at("xfrm.sock"), None, limits).unwrap();
                let ike = Rc::new(Ike::new(&at("xfrm.sock")));
                linux.come_before(&ike);
                (Source::Builtin(Box::new(source)), Some(ike))
            }
        };
        let is_beside_kernel = xfrm.is_some();

        let chunks = UmemConfig { chunks: 1024, chunk_size: ChunkSize::Bytes2048, populate: false };
        let umem = Umem::new(chunks).unwrap().0;
        let (events_in, events) = dataplane::channel().unwrap();
        let connections = Connections::new(now);
        let edges = || (Box::new(connections.clone()), Box::new(connections.clone()));
        let nat = config.nat.is_on().then(edges).map(|(by, rules)| Nat::by(by, rules).unwrap());
        let bindings = nat.as_ref().map(|nat| Arc::clone(nat.bindings()));
        let flows = TakenFlows::new(bindings.clone(), config.nat.taken_flows());
        let kit = Kit {
            tables: Arc::new(dataplane::Tables { nat: bindings, ..dataplane::Tables::default() }),
            providers: providers.clone(),
            devices: Rc::clone(&devices),
            umem,
            events: events_in.clone(),
            flows: 64,
            polling: Polling::Adaptive,
            confinement: Confinement::Off,
        };
        let own = own(&config, PRIVATE);
        let edges = (Box::new(observer) as Box<dyn Tables>, Box::new(hardware.clone()) as Box<_>);
        let changes = Box::new(linux.clone());
        let private =
            Private::begin(&config.tun, PRIVATE, changes, true, is_beside_kernel).unwrap();
        let mut ports = Ports::none(Box::new(hardware.clone()), config.tun.mark, flows);
        if is_beside_kernel {
            ports.set_beside_kernel();
        }
        let control = Control::listen(&at("control.sock"), Confinement::Off).unwrap();
        let past_daemon = PastDaemon::new(&config.tun);
        let by_sender = BySender::new(&config.tun.interface, None);
        let threads = hardware.clone();
        let vici = Vici::by(Box::new(move |_, _| match threads.has_threads() {
            true => Ok(Asking::silent()),
            false => Err(std::io::Error::from_raw_os_error(libc::EAGAIN)),
        }));
        let nothing = Running::nothing();
        let plan = plan(&nothing, &config, &hardware.look(&nothing, &config)).unwrap();
        let mut daemon = Daemon {
            config: config.before_start(),
            wants: Wants::all(),
            linux: OfLinux::new(edges, own, private, (WayBack::none(), None), nat),
            sa: Sas::new(source, guard, by_sender, now),
            offload: Offload::new(devices, now),
            crew: Crew::new(kit, events, ports, EspSockets::new(false)),
            shows: Shows::new((control, None), vici, providers, Ok(None), now),
            life: Life::new(
                &at("culvert.toml"),
                Box::new(hardware.clone()),
                Confinement::Off,
                (quiet(), quiet()),
                (None, past_daemon),
                now,
            ),
        };
        daemon.begin(now, plan).unwrap();
        let config = at("culvert.toml");
        Plane {
            daemon,
            now,
            linux,
            hardware,
            kernel,
            connections,
            xfrm,
            ike,
            events: events_in,
            config,
            _directory: directory,
        }
    }

    /// One round, which publishes one topology at most. A reload in it publishes its own before ports are opened, and once
    /// more where it is taken back.
    fn round(&mut self) {
        let (before, reloads) = (self.daemon.crew.published, self.daemon.life.reloads.number());
        self.now = self.now.after(Duration::from_millis(1));
        assert!(self.daemon.round(self.now).is_none(), "it ends");
        let reloads = self.daemon.life.reloads.number() - reloads;
        let most = before + 1 + 2 * reloads;
        assert!(self.daemon.crew.published <= most, "more topologies in a round than one");
    }

    /// Rounds until nothing is wanted any more.
    fn settle(&mut self) {
        for _ in 0..8 {
            self.round();
            if !self.daemon.wants.is_any() {
                return;
            }
        }
        panic!("each round wants another: {:?}", self.daemon.wants);
    }

    /// The answer to a request of the IKE daemon: an errno.
    fn request(&mut self, request: &[u8]) -> i32 {
        let ike = self.ike.clone().expect("an IKE daemon");
        ike.send(request);
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            self.round();
            if let Some(errno) = ike.answer() {
                return errno;
            }
            assert!(Instant::now() < deadline, "no answer");
        }
    }
}

impl Drop for Plane {
    fn drop(&mut self) {
        self.daemon.crew.workers.stop();
    }
}

/// A pipe of a signal that does not come.
fn quiet() -> UnixStream {
    let (read, write) = UnixStream::pair().unwrap();
    read.set_nonblocking(true).unwrap();
    // Nobody writes, and the other end stays open.
    std::mem::forget(write);
    read
}
