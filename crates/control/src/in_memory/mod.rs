//! A whole control plane in memory: its tables, its guard and its clients, without root, namespaces or ports.
//!
//! Random histories of what happens to it are held against a model: what must be published, guarded and steered, and that
//! nothing is open which a policy protects. In memory are Linux's tables ([`world`]), the kernel's policies
//! ([`guard::memory`]) and an IKE daemon, which talks to the server of the daemon itself. The worker is a real thread; it
//! has no ports.

mod applications;
mod hardware;
mod histories;
mod lives;
mod memifs;
mod world;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use config::{Config, EngineChoice};
use crypto::Providers;
use dataplane::{EventSender, Polling};
use guard::memory::Memory;
use io::{ChunkSize, Umem, UmemConfig};
use mirror::{Change, Link};
use tempfile::TempDir;
use vault::Vault;
use xfrm::ServerLimits;

use self::hardware::Hardware;
use self::world::{Ike, Linux, Mirror};
use super::by_sender::BySender;
use super::clock::Now;
use super::confinement::Confinement;
use super::control::Control;
use super::detour::PastDaemon;
use super::esp_sockets::EspSockets;
use super::life::Life;
use super::linux::Linux as OfLinux;
use super::linux::edge::Tables;
use super::nat::TakenFlows;
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
        let restored = Restored::new(vault, &records, crypto, SaRules::default(), now).unwrap();
        let limits =
            ServerLimits { uid: rustix::process::getuid().as_raw(), ..ServerLimits::default() };
        let source = restored.serve_at(&at("xfrm.sock"), None, limits).unwrap();
        let ike = Rc::new(Ike::new(&at("xfrm.sock")));
        linux.come_before(&ike);

        let chunks = UmemConfig { chunks: 1024, chunk_size: ChunkSize::Bytes2048, populate: false };
        let umem = Umem::new(chunks).unwrap().0;
        let (events_in, events) = dataplane::channel().unwrap();
        let kit = Kit {
            tables: Arc::default(),
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
        let private =
            Private::begin(&config.tun, PRIVATE, Box::new(linux.clone()), true, false).unwrap();
        let ports = Ports::none(Box::new(hardware.clone()), config.tun.mark, TakenFlows::default());
        let control = Control::listen(&at("control.sock"), Confinement::Off).unwrap();
        let past_daemon = PastDaemon::new(&config.tun);
        let source = Source::Builtin(Box::new(source));
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
            linux: OfLinux::new(edges, own, private, (WayBack::none(), None), None),
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
            ike,
            events: events_in,
            config,
            _directory: directory,
        }
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
