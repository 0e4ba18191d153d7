//! The start: everything that can be wrong with a machine is found here, and said.
//!
//! Readiness means that packets pass. So nothing takes a packet from Linux before the worker can send
//! it on: guard and saved SAs first, then routes and neighbours, then the ports' sockets, and only
//! then do the XDP programs decide and the routes lead to the private interface. The programs are
//! loaded meanwhile, on threads of their own: that takes as long as all the rest.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use crypto::{EngineError, Provider, Providers};
use dataplane::{Command, Counters, CryptoParts, Polling, Tables, Team, Waker, WorkerParts};
use esp::IvSource;
use guard::{Guard, GuardError};
use io::{ChunkSize, Tun, TunConfig, Umem, UmemConfig};
use mirror::Observer;
use rustix::process::DumpableBehavior;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::low_level::pipe;
use thiserror::Error;
use tracing::{error, info, warn};
use vault::{Record, Vault, VaultError};
use xfrm::{Database, KernelSad, Server, ServerLimits, Settings};

use super::backend::DataPath;
use super::control::Control;
use super::journal::Journal;
use super::limits;
use super::numbers::Numbers;
use super::ports::{FRAMES_PER_QUEUE, Ports, Programs};
use super::private::Private;
use super::privileges;
use super::topology::{Own, Reflection};
use super::way_back::WayBack;
use super::worker::{CryptoThread, WorkerHandle};
use super::{Daemon, End, now};
use crate::cli::{EngineChoice, RunArgs};
use crate::config::{Config, ConfigError};
use crate::paths;

/// Frames beyond those in rings: bursts, held packets, packets under way.
pub const FRAMES_SPARE: u32 = 2048;

/// How long a start waits for a daemon of the same name to be gone.
const RELEASE_WAIT: Duration = Duration::from_secs(3);

/// Why the daemon did not start, or ended.
#[derive(Debug, Error)]
pub enum StartError {
    /// The configuration is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Not root.
    #[error(
        "the daemon needs root: it opens AF_XDP sockets, loads a BPF program and sets routes\n  \
         start it by systemd or sudo"
    )]
    NotRoot,
    /// Root, but not allowed what root usually is: a container.
    #[error(
        "missing {0}: a container or unit that limits capabilities must grant CAP_NET_ADMIN, \
         CAP_NET_RAW, CAP_BPF and CAP_PERFMON"
    )]
    Capabilities(String),
    /// The log filter is wrong.
    #[error("log.level = {level:?}: {reason}\n  write error, warn, info, debug or trace")]
    LogLevel {
        /// What it says.
        level: String,
        /// Why.
        reason: String,
    },
    /// The runtime directory cannot be used.
    #[error("{path}: {source}")]
    Directory {
        /// The directory.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Another daemon has the instance, or its saved state cannot be used.
    #[error("{0}\n  {hint}", hint = vault_hint(.0))]
    Vault(#[from] VaultError),
    /// No crypto.
    #[error("crypto.engine: {0}")]
    Engine(#[from] EngineError),
    /// No memory for packets.
    #[error("{0}\n  worker.frames = {frames} needs {mib} MiB", frames = .1, mib = .2)]
    Memory(io::UmemError, u32, u32),
    /// Too many ports or too few buffers, or a machine that is too small.
    #[error("{0}")]
    Size(String),
    /// The private interface.
    #[error("{0}")]
    Tun(#[from] io::TunError),
    /// Linux's tables.
    #[error("{0}")]
    Mirror(#[from] mirror::Error),
    /// The guard.
    #[error("{0}")]
    Guard(#[from] GuardError),
    /// A socket, a thread, a descriptor.
    #[error("{what}: {source}{hint}", hint = system_hint(source))]
    System {
        /// What was tried.
        what: String,
        /// Why it failed.
        source: std::io::Error,
    },
    /// It ran, and had to end.
    #[error("the worker thread has ended by itself: this is a defect; its message stands above")]
    WorkerDied,
    /// It ran, and lost its interface.
    #[error("somebody deleted the private interface (tun.interface): a new start makes it again")]
    InterfaceGone,
}

/// What the system has no room for, where its own words do not say it.
fn system_hint(error: &std::io::Error) -> &'static str {
    match error.kind() {
        std::io::ErrorKind::OutOfMemory | std::io::ErrorKind::WouldBlock => {
            "\n  memory or threads are short: see `ulimit -v` and `ulimit -u`, and the control \
             group's memory.max and pids.max"
        }
        _ => "",
    }
}

/// What to do about it.
fn vault_hint(error: &VaultError) -> &'static str {
    match error {
        VaultError::InUse { .. } => "another daemon runs under this name",
        VaultError::DamagedJournal { .. } | VaultError::DamagedCells { .. } => {
            "what an earlier run saved cannot be read; `culvert guard clear` forgets it. That takes \
             the guard down too: until tunnels are negotiated anew, traffic leaves in clear unless \
             [guard] prefixes name it"
        }
        VaultError::Io { source, .. } => match source.kind() {
            std::io::ErrorKind::OutOfMemory => {
                "no memory for it: see `ulimit -v` (RLIMIT_AS) and the control group's memory.max"
            }
            std::io::ErrorKind::StorageFull => {
                "the file system is full: the vault of this instance needs some MiB there"
            }
            _ => "the state of this instance has to be kept there",
        },
        VaultError::NotPrivate { .. } | VaultError::TooLong { .. } => {
            "the state of this instance, keys among it, has to be kept there"
        }
    }
}

/// Runs the daemon until it is told to stop.
///
/// # Errors
/// [`StartError`]: what is wrong, and what would be right. Nothing is left half set up: sockets,
/// interfaces and programs go with the process.
pub fn run(args: &RunArgs) -> Result<(), StartError> {
    let config = Config::load(&args.config.config)?;
    init_log(&config, args.log_json)?;
    if !rustix::process::geteuid().is_root() {
        return Err(StartError::NotRoot);
    }
    let missing = privileges::missing();
    if !missing.is_empty() {
        return Err(StartError::Capabilities(missing.join(", ")));
    }
    // No core dump holds keys, whatever the limits say.
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)
        .map_err(|e| system("forbidding core dumps")(e.into()))?;
    privileges::drop_all_but_needed().map_err(system("dropping capabilities"))?;
    limits::check(&config).map_err(StartError::Size)?;
    let mut daemon = Daemon::start(config, args)?;
    // The line that start-up scripts and tests wait for.
    println!("culvert: ready");
    info!(name = daemon.config.name, engine = daemon.engine, "ready");
    let end = daemon.serve();
    match end {
        End::Told => {
            daemon.shut_down();
            Ok(())
        }
        // The guard stands, and the vault holds everything for the next start.
        End::WorkerDied => Err(StartError::WorkerDied),
        End::InterfaceGone => Err(StartError::InterfaceGone),
    }
}

fn init_log(config: &Config, json: bool) -> Result<(), StartError> {
    let level = &config.log.level;
    super::log::init(level, json)
        .map_err(|e| StartError::LogLevel { level: level.clone(), reason: e.to_string() })
}

fn system(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> StartError {
    let what = what.into();
    move |source| StartError::System { what, source }
}

impl Daemon {
    /// 1. Directory, lock and saved state; 2. crypto, and SAs and policies taken up again;
    ///    3. guard; 4. buffers, worker, private interface; 5. Linux's tables and ports; 6. sockets,
    ///    last: whoever can connect finds everything there; 7. traffic.
    fn start(config: Config, args: &RunArgs) -> Result<Daemon, StartError> {
        // 1.
        let directory = paths::runtime_dir(&config.name);
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&directory)
            .map_err(|source| StartError::Directory { path: directory.clone(), source })?;
        // First: it takes as long as all that follows, or as a daemon that is just dying.
        let programs = Programs::load(&config.ports).map_err(system("a thread"))?;
        let (vault, records) = open_vault(&paths::vault_dir(&config.name))?;
        let vault = Rc::new(RefCell::new(vault));

        // 2.
        let providers = providers(config.crypto.engine)?;
        let engine = providers.to_string();
        let numbers = Numbers::new(Rc::clone(&vault), &records);
        let data_path = DataPath::new(providers.clone(), Rc::clone(&vault), numbers);
        let reader = data_path.databases().reader();
        let cpus = config.worker.crypto_cpus.iter();
        let readers: Vec<_> = cpus.map(|_| data_path.databases().reader()).collect();
        let mut database = Database::new(data_path, Settings::default());
        let mut restored = 0;
        for record in records.iter().filter(|r| !Numbers::is_ours(r)) {
            match database.restore(&record.value, now()) {
                Ok(()) => restored += 1,
                Err(error) => {
                    error!(%error, "a saved SA or policy was not taken up");
                    // What is not taken up must not be found again half-known the next time.
                    vault.borrow_mut().remove(&record.key)?;
                }
            }
        }
        drop(records);
        let orphans = database.backend_mut().sweep();
        if restored + orphans > 0 {
            info!(restored, orphans, "taken up from the run before");
        }

        // 3.
        let guard = Guard::open(&config.name, &config.tun.interface, &directory)?;

        // 4.
        let queues: u32 = config.ports.iter().map(|p| p.queues.unwrap_or(1)).sum();
        let needed = queues * FRAMES_PER_QUEUE;
        if config.worker.frames < needed || config.ports.len() > Ports::MAX {
            return Err(StartError::Size(format!(
                "worker.frames = {}: {} ports need at least {needed} (and there can be at most \
                 {} ports)",
                config.worker.frames,
                config.ports.len(),
                Ports::MAX
            )));
        }
        let chunk_size = match config.worker.frame_bytes {
            4096 => ChunkSize::Bytes4096,
            _ => ChunkSize::Bytes2048,
        };
        let umem_config = UmemConfig { chunks: config.worker.frames, chunk_size, populate: true };
        let mib = config.worker.frames / 1024 * config.worker.frame_bytes / 1024;
        let (umem, pool) =
            Umem::new(umem_config).map_err(|e| StartError::Memory(e, config.worker.frames, mib))?;
        let tun =
            Tun::open(&TunConfig { name: config.tun.interface.clone(), mtu: config.tun.mtu })?;
        let tun_ifindex = tun.ifindex();
        let tun_counters = io::Port::counters(&tun);
        let private = Private::set_up(&config.tun, tun_ifindex)?;
        let way_back = WayBack::set_up(&config.tun);
        let path = paths::interface_file(&config.name);
        fs::write(&path, &config.tun.interface)
            .map_err(|source| StartError::Directory { path, source })?;
        let tables = Arc::new(Tables::default());
        let (events_in, events) = dataplane::channel().map_err(system("eventfd"))?;
        let (commands, commands_out) = channel();
        let waker = Waker::new().map_err(system("eventfd"))?;
        let new_ivs = || {
            IvSource::new()
                .map_err(|e| StartError::Size(format!("no random numbers from the kernel: {e}")))
        };
        let ivs = new_ivs()?;
        let crypto = config.worker.crypto_cpus.iter().zip(readers).map(|(cpu, reader)| {
            let parts = CryptoParts { engine: providers.engine()?, ivs: new_ivs()?, reader };
            Ok(CryptoThread { cpu: *cpu, parts })
        });
        let crypto = crypto.collect::<Result<Vec<_>, StartError>>()?;
        let polling = match args.poll {
            true => Polling::Always,
            false => config.worker.poll.into(),
        };
        let parts = WorkerParts {
            team: Team::alone(),
            tables: Arc::clone(&tables),
            reader,
            engine: providers.engine()?,
            ivs,
            pool,
            counters: Arc::new(Counters::default()),
            events: events_in,
            commands: commands_out,
            waker,
            flows: config.worker.flows as usize,
        };
        let worker = WorkerHandle::start(parts, commands, config.worker.cpu, polling, crypto)
            .map_err(system("starting the worker"))?;
        worker.send_and_wait(|done| Command::AddPort {
            slot: 0,
            ifindex: tun_ifindex,
            port: Box::new(tun),
            is_linux: true,
            done,
        });

        // 5.
        let observer = Observer::new()?;
        let own = Own { table: config.tun.table, ifindex: tun_ifindex };
        let reflection = Reflection::new(observer.snapshot(), own);
        let ports = Ports::new(&config.ports, &umem);
        let kernel_sad = KernelSad::open().map_err(system("asking for the kernel's SAs"))?;

        // 6.
        let (terminate, reload) = signals()?;
        let server = Server::new(&paths::xfrm_socket(&config.name), ServerLimits::default())
            .map_err(system(paths::xfrm_socket(&config.name).display().to_string()))?;
        let control = Control::listen(&paths::control_socket(&config.name))
            .map_err(system(paths::control_socket(&config.name).display().to_string()))?;
        let mut daemon = Daemon {
            config,
            config_path: args.config.config.clone(),
            engine,
            started: Instant::now(),
            restored,
            journal: Journal::new(Rc::clone(&vault)),
            vault,
            database,
            server,
            control,
            observer,
            reflection,
            events,
            tables,
            worker,
            tun_counters,
            umem,
            polling,
            ports,
            private,
            way_back,
            guard,
            kernel_sad,
            terminate,
            reload,
            followed: HashMap::new(),
            guard_anew: true,
            paths_anew: true,
            is_interface_gone: false,
            retry_at: Instant::now(),
            check_at: Instant::now(),
            guard_trouble: None,
            shortfalls: super::shortfall::Shortfalls::default(),
            sas_followed: 0,
        };
        daemon.begin(programs);
        Ok(daemon)
    }
}

/// Opens the vault. A daemon that was killed a moment ago may not have let go of it yet.
fn open_vault(path: &Path) -> Result<(Vault, Vec<Record>), VaultError> {
    let deadline = Instant::now() + RELEASE_WAIT;
    loop {
        match Vault::open(path) {
            Err(VaultError::InUse { .. }) if Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(5));
            }
            result => return result,
        }
    }
}

/// The engines that the configuration asks for; `auto` takes all that are there, the fastest first.
pub fn providers(choice: EngineChoice) -> Result<Providers, EngineError> {
    let shared = |provider| Arc::new(provider) as Arc<dyn Provider>;
    let openssl = || engine_openssl::OpensslProvider::new().map(|p| Arc::new(p) as _);
    let ipsec_mb = || ipsec_mb::IpsecMbProvider::new().map(shared);
    match choice {
        EngineChoice::Openssl => Ok(Providers::new(openssl()?)),
        EngineChoice::IpsecMb => Ok(Providers::new(ipsec_mb()?)),
        EngineChoice::Auto => match (ipsec_mb(), openssl()) {
            (Ok(fast), other) => {
                let mut providers = Providers::new(fast);
                match other {
                    Ok(other) => providers.push(other),
                    Err(error) => warn!(%error, "only ipsec-mb does the crypto"),
                }
                Ok(providers)
            }
            (Err(error), openssl) => {
                warn!(%error, "OpenSSL does the crypto instead: slower, above all on short packets");
                openssl.map(Providers::new)
            }
        },
    }
}

fn signals() -> Result<(UnixStream, UnixStream), StartError> {
    let make = |numbers: &[i32]| {
        let (read, write) = UnixStream::pair()?;
        read.set_nonblocking(true)?;
        for number in numbers {
            pipe::register(*number, write.try_clone()?)?;
        }
        Ok(read)
    };
    let terminate = make(&[SIGTERM, SIGINT]).map_err(system("signals"))?;
    let reload = make(&[SIGHUP]).map_err(system("signals"))?;
    Ok((terminate, reload))
}
