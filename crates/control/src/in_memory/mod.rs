//! A whole control plane in memory: its tables, its guard and its clients, without root, namespaces or ports.
//!
//! Random histories of what happens to it are held against a model: what must be published, guarded and steered, and that
//! nothing is open which a policy protects. In memory are Linux's tables ([`world`]), the kernel's policies
//! ([`guard::memory`]) and an IKE daemon, which talks to the server of the daemon itself. The worker is a real thread; it
//! has no ports.

mod applications;
mod histories;
mod lives;
mod world;

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use config::{Config, EngineChoice, SourceChoice};
use dataplane::{EventSender, Polling, Tables};
use forward::path_mtu::PathMtuTable;
use guard::memory::Memory;
use io::{ChunkSize, Umem, UmemConfig};
use mirror::{Change, Link};
use tempfile::TempDir;
use vault::Vault;
use xfrm::ServerLimits;

use self::world::{Ike, Linux, Mirror};
use super::capture::{Slots, Traces};
use super::clock::Now;
use super::confinement::Confinement;
use super::control::Control;
use super::events::{EventLog, Watch};
use super::life::Life;
use super::linux::Linux as OfLinux;
use super::offload::Offload;
use super::offload::devices::Devices;
use super::plan::{self, Plan};
use super::ports::{Ports, Programs};
use super::sa::Sas;
use super::shows::Shows;
use super::sources::builtin::Restored;
use super::sources::testing::xfrm_interface;
use super::sources::{Owner, SaRules, Source};
use super::workers::{Crew, Kit, Workers};
use super::{Daemon, Wants, own};

/// Index of the private interface.
const PRIVATE: u32 = 9;

/// The daemon, and what surrounds it.
struct Plane {
    daemon: Daemon,
    /// The daemon's time, which goes on with each round.
    now: Now,
    linux: Linux,
    kernel: Memory,
    ike: Rc<Ike>,
    /// Keeps the channel of workers' events open, and tells of what they would.
    events: EventSender,
    config: PathBuf,
    _directory: TempDir,
}

/// An Ethernet interface.
fn link(index: u32, name: &str, up: bool) -> Link {
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
        linux.put(Change::Link(link(2, "wan", true)));
        linux.put(Change::Link(link(3, "lan", true)));
        linux.put(Change::Link(link(PRIVATE, &config.tun.interface, true)));
        let observer = Mirror::new(&linux);

        let (guard, kernel) =
            Memory::open(&config.name, &config.tun.interface, directory.path()).unwrap();
        let (vault, records) = Vault::open(at("vault")).unwrap();
        let providers = super::providers(EngineChoice::Openssl).unwrap();
        let devices = Rc::new(RefCell::new(Devices::new(&BTreeMap::new())));
        let crypto = (providers.clone(), Rc::clone(&devices));
        let restored = Restored::new(vault, &records, crypto, SaRules::default(), now).unwrap();
        let limits =
            ServerLimits { uid: rustix::process::getuid().as_raw(), ..ServerLimits::default() };
        let source = restored.serve_at(&at("xfrm.sock"), None, limits).unwrap();
        let ike = Rc::new(Ike::new(&at("xfrm.sock")));
        linux.come_before(&ike);

        let chunks = UmemConfig { chunks: 1024, chunk_size: ChunkSize::Bytes2048, populate: false };
        let umem = Umem::new(chunks).unwrap().0;
        let tables = Arc::new(Tables::default());
        let (events_in, events) = dataplane::channel().unwrap();
        let kit = Kit {
            tables: Arc::clone(&tables),
            providers: providers.clone(),
            devices: Rc::clone(&devices),
            umem: umem.clone(),
            events: events_in.clone(),
            flows: 64,
            polling: Polling::Adaptive,
            confinement: Confinement::Off,
        };
        let cores = plan::cores();
        let plan = Plan::new(&config.worker, 0, &cores).unwrap();
        let databases = Owner::databases(&source);
        let workers = Workers::start(kit, plan, databases).unwrap();
        let ports = Ports::new(&config.ports, &umem, config.tun.mark);
        let private = super::private::Private::begin(
            &config.tun,
            PRIVATE,
            Box::new(linux.clone()),
            true,
            false,
        );
        let reflection = super::topology::Reflection::new(
            super::linux::edge::Tables::snapshot(&observer),
            own(&config, PRIVATE),
            super::segments::SegmentRoutes::default(),
        );
        let programs = Programs::load(&[], 0, SourceChoice::Builtin).unwrap();
        let mut daemon = Daemon {
            wants: Wants::all(),
            linux: OfLinux {
                observer: Box::new(observer),
                reflection,
                vlans: super::vlans::Vlans::default(),
                tunnels: super::tunnels::Tunnels::default(),
                memifs: super::memifs::Memifs::open(&[]).unwrap(),
                private: private.unwrap(),
                way_back: super::way_back::WayBack::none(),
                _send_marks: None,
                nat: None,
                set_marks: Vec::new(),
                brought_by: BTreeMap::new(),
                is_interface_gone: false,
            },
            sa: Sas {
                source: Source::Builtin(Box::new(source)),
                followed: HashMap::new(),
                guard,
                guard_trouble: None,
                check_at: now.at,
                shortfalls: super::shortfall::Shortfalls::default(),
                inner_mtus: super::inner_mtus::InnerMtus::default(),
                path_mtus: PathMtuTable::new(super::path_mtus::lifetime_ns(&config.path_mtu)),
                by_sender: super::by_sender::BySender::new(&config.tun.interface, None),
                sas_followed: 0,
            },
            offload: Offload { devices, read_at: now.at },
            crew: Crew {
                workers,
                events,
                tables,
                ports,
                esp_sockets: super::esp_sockets::EspSockets::new(false),
                private_counters: Vec::new(),
                umem,
                polling: Polling::Adaptive,
                rate_limits: super::rate_limits::RateLimits::default(),
                recognition: Default::default(),
                published: 0,
                cores,
            },
            shows: Shows {
                control: Control::listen(&at("control.sock"), Confinement::Off).unwrap(),
                _reader: None,
                vici: super::vici::Vici::default(),
                event_log: EventLog::new(now),
                watch: Watch::new(now.at),
                tap_slots: Slots::default(),
                traces: Traces::default(),
                providers,
                asked: super::asked::Asked::default(),
                early: None,
                early_trouble: None,
                commands: Vec::new(),
            },
            life: Life {
                config_path: at("culvert.toml"),
                reloads: super::reloads::Reloads::new(&at("culvert.toml"), now),
                ending: None,
                confinement: Confinement::Off,
                terminate: quiet(),
                hang_ups: quiet(),
                watchdog: None,
                past_daemon: super::detour::PastDaemon::new(&config.tun),
                retry_at: now.at,
                started: now.at,
            },
            config,
        };
        daemon.begin(now, programs);
        let config = at("culvert.toml");
        Plane { daemon, now, linux, kernel, ike, events: events_in, config, _directory: directory }
    }

    /// One round, which publishes one topology at most.
    fn round(&mut self) {
        let before = self.daemon.crew.published;
        self.now = self.now.after(Duration::from_millis(1));
        assert!(self.daemon.round(self.now).is_none(), "it ends");
        assert!(self.daemon.crew.published <= before + 1, "two topologies in a round");
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
        self.ike.send(request);
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            self.round();
            if let Some(errno) = self.ike.answer() {
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
