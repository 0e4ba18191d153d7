//! The start: a preamble that only a start has, and then the [plan](super::plan) of the way from nothing.
//!
//! The preamble makes what a running daemon never changes: rights, the vault, buffers, the guard, the private interface, the
//! sockets of clients. The rest is the configuration's, and is carried out as a reload's is.
//!
//! Ready means that packets pass. Steering programs are loaded meanwhile, on threads of their own: that takes as long as all
//! the rest.

use std::cell::RefCell;
use std::io::Write as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use config::{Config, ConfigError, Firewall, IptfsRates, SourceChoice};
use dataplane::{Polling, Tables};
use guard::Guard;
use io::{ChunkSize, Tun, Umem, UmemConfig};
use mirror::Observer;
use report::paths;
use rustix::mm::MlockAllFlags;
use rustix::process::DumpableBehavior;
use sd_notify::NotifyState;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::low_level::pipe;
use tracing::{info, warn};
use vault::{Record, Vault, VaultError};
use xfrm::{KernelSad, ServerLimits};

use super::by_sender::BySender;
use super::clock::Now;
use super::confinement::Confinement;
use super::control::Control;
use super::detour::PastDaemon;
use super::devices::Devices;
use super::early::Early;
use super::engines::providers;
use super::error::{StartError, system};
use super::esp_sockets::EspSockets;
use super::life::Life;
use super::limits;
use super::linux::Linux;
use super::linux::edge::{self, OwnInterfaces};
use super::linux::tun_devices::{TunDevices, tun_config};
use super::nat::{Nat, TakenFlows};
use super::offload::Offload;
use super::plan::Plan;
use super::plan::examine::plan_file;
use super::plan::failure::{Failure, Lost, StepError};
use super::plan::machine::Looker;
use super::plan::running::Running;
use super::ports::opening::Devices as DevicePorts;
use super::ports::{Ports, Programs};
use super::private::Private;
use super::privileges;
use super::sa::Sas;
use super::shows::Shows;
use super::sources::builtin::Restored;
use super::sources::kernel::{FirewallWatch, KernelParts, KernelSource, OwnMarks};
use super::sources::{SaRules, Source};
use super::vici::Vici;
use super::wants::Wants;
use super::watchdog::Watchdog;
use super::workers::{Crew, Kit};
use super::{Daemon, End, own, reader, unprivileged};
use crate::files;

/// How long a start waits for a daemon of the same name to be gone.
const RELEASE_WAIT: Duration = Duration::from_secs(3);

/// Options of a start, as the command line has them.
#[derive(Debug)]
pub struct RunOptions {
    /// Path of the configuration file (TOML).
    pub config: PathBuf,
    /// Workers never sleep, as with `poll = "always"` in `[worker]`.
    pub poll: bool,
    /// Without ports, BPF and rights over the machine: ESP in UDP alone.
    pub unprivileged: bool,
    /// Logs JSON objects, one a line.
    pub log_json: bool,
}

/// Runs the daemon of a name until it is told to stop.
///
/// # Errors
/// [`StartError`]: what is wrong, and what would be right. Nothing is left half set up: sockets,
/// interfaces and programs go with the process.
pub fn run(options: &RunOptions, name: &str) -> Result<(), StartError> {
    let path = &options.config;
    let looker = Looker::new(options.unprivileged);
    let mut planned = plan_file(path, &Running::nothing(), &looker);
    planned.examined = planned.examined.named(name);
    let (plan, warnings) = planned.accept(path)?;
    let config = &plan.config;
    init_log(config, options.log_json)?;
    for warning in warnings {
        warn!("{warning}");
    }
    unprivileged::check_rights(options.unprivileged)?;
    // No core dump holds keys, whatever the limits say.
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)
        .map_err(|e| system("forbidding core dumps")(e.into()))?;
    privileges::drop_all_but_needed(!options.unprivileged)
        .map_err(system("dropping capabilities"))?;
    let confinement = Confinement::begin(config.security.seccomp);
    if let Some(warning) = confinement.warning() {
        warn!("{warning}");
    }
    lock_memory(options.unprivileged);
    limits::raise_descriptors();
    if config.crypto.allow_weak {
        warn!("crypto.allow_weak = true: SAs with DES, 3DES and MD5 are taken");
    }
    let mut daemon = Daemon::start(plan, options, confinement, looker)?;
    // The line that start-up scripts and tests wait for.
    // A program that waits for the line reads it. Where none can, the daemon runs all the same.
    let _ = writeln!(std::io::stdout(), "culvert: ready");
    // What is ordered behind the unit starts now. Without systemd there is nobody to tell.
    if let Err(error) = sd_notify::notify(&[NotifyState::Ready]) {
        warn!(%error, "systemd was not told that the daemon is ready");
    }
    info!(name = daemon.config.name, engine = %daemon.shows.providers, "ready");
    let end = daemon.serve();
    match end {
        End::Told => {
            daemon.shut_down();
            Ok(())
        }
        // The guard stands, and the vault holds everything for the next start.
        End::WorkerDied(death) => {
            daemon.give_up();
            Err(death.into())
        }
        End::WorkersLost(error) => {
            daemon.give_up();
            Err(StartError::WorkersLost(error))
        }
        End::InterfaceGone => Err(StartError::InterfaceGone),
    }
}

/// Keeps keys out of swap space: every page stays in memory from its first use on.
fn lock_memory(is_unprivileged: bool) {
    if is_unprivileged && !unprivileged::may_lock_memory() {
        return warn!("memory is not locked (ulimit -l): keys may be written to swap space");
    }
    let all = MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT;
    if let Err(error) = rustix::mm::mlockall(all) {
        warn!(%error, "memory cannot be locked: keys may be written to swap space, if there is any");
    }
}

fn init_log(config: &Config, json: bool) -> Result<(), StartError> {
    let level = &config.log.level;
    super::log::init(level, json)
        .map_err(|e| StartError::LogLevel { level: level.clone(), reason: e.to_string() })
}

impl Daemon {
    /// Starts in five steps.
    ///
    /// 1. Directory, lock and saved state.
    /// 2. Crypto, the guard, and SAs and policies taken up again.
    /// 3. Buffers, private interface, Linux's tables.
    /// 4. Sockets. A client that connects is answered when the daemon is ready.
    /// 5. The configuration: workers, ports and all the rest.
    fn start(
        plan: Plan,
        options: &RunOptions,
        confinement: Confinement,
        looker: Looker,
    ) -> Result<Daemon, StartError> {
        let config = &plan.config;
        let now = Now::read();
        // 1.
        let directory = paths::runtime_dir(&config.name);
        files::runtime_directory(&directory)?;
        // First: loading takes as long as all that follows.
        let programs = Programs::load(&config.ports, config.nat.taken_flows(), config.source)
            .map_err(system("a thread"))?;
        let (vault, records) = open_vault(&paths::vault_dir(&config.name))?;

        // 2.
        let providers = providers(config.crypto.engine)?;
        let devices = Rc::new(RefCell::new(Devices::new(&config.devices)));
        devices.borrow_mut().set_time(now);
        let rules = SaRules {
            allow_weak: config.crypto.allow_weak,
            tunnel_headers: config.tunnel_headers.into(),
            iptfs: IptfsRates::new(&config.iptfs),
            only_in_udp: options.unprivileged,
        };
        let kernel_sad = KernelSad::open().map_err(system("asking for the kernel's SAs"))?;
        let is_beside_kernel = match config.source {
            SourceChoice::Builtin => false,
            SourceChoice::Auto if options.unprivileged => false,
            SourceChoice::Kernel if !records.is_empty() => {
                return Err(StartError::VaultInUse(config.name.clone()));
            }
            SourceChoice::Kernel => true,
            SourceChoice::Auto => kernel_sad.count() > 0 && records.is_empty(),
        };
        let found = if is_beside_kernel { config.problems_beside_kernel() } else { Vec::new() };
        if !found.is_empty() {
            return Err(ConfigError { path: options.config.clone(), problems: found }.into());
        }
        let guard = Guard::open(&config.name, &config.tun.interface, &directory)?;

        // 3.
        let umem = packet_buffers(config)?;
        let mut tuns = Tun::open_queues(&tun_config(config), 1)?;
        let tun_ifindex = tuns.first().map_or(0, Tun::ifindex);
        let by_sender = BySender::new(&config.tun.interface, tuns.first());
        let send_marks = unprivileged::send_marks(options.unprivileged, &config.tun);
        let has_marks = send_marks.is_some();
        let private = Private::set_up(&config.tun, tun_ifindex, has_marks, is_beside_kernel)?;
        let observer = Observer::new()?;
        let source = match is_beside_kernel {
            true => {
                let local = observer.snapshot().addresses().map(|a| a.addr).collect();
                let providers = providers.clone();
                let marks = OwnMarks { past: config.tun.mark, judged: config.tun.judged_mark };
                let firewall = match config.kernel.firewall {
                    Firewall::Respect => Some(FirewallWatch::new(config.port_names())),
                    Firewall::Bypass => None,
                };
                let parts = KernelParts { vault, providers, rules, marks, local, firewall };
                let source = KernelSource::open(parts, now);
                Prepared::Kernel(Box::new(source.map_err(system("the kernel's XFRM"))?))
            }
            false => {
                let crypto = (providers.clone(), Rc::clone(&devices));
                let restored = Restored::new(vault, &records, crypto, rules, now)?;
                Prepared::Builtin(Box::new(restored), kernel_sad)
            }
        };
        drop(records);
        let judged = if is_beside_kernel { config.tun.judged_mark } else { 0 };
        let way_back = unprivileged::way_back(options.unprivileged, &config.tun, judged);
        let path = paths::interface_file(&config.name);
        files::write(&path, &config.tun.interface)?;
        let path = paths::offload_file(&config.name);
        let offloading = match is_beside_kernel {
            true => String::new(),
            false => devices.borrow().port_lines(),
        };
        files::write(&path, &offloading)?;
        let nat = match config.nat.is_on() {
            true => Some(Nat::begin().map_err(system("connection tracking (nat.learn)"))?),
            false => None,
        };
        let bindings = nat.as_ref().map(|nat| Arc::clone(nat.bindings()));
        let flows = TakenFlows::new(bindings.clone(), config.nat.taken_flows());
        let ports = DevicePorts::new(programs, &umem);
        let mut ports = Ports::none(Box::new(ports), config.tun.mark, flows);
        if is_beside_kernel {
            ports.set_beside_kernel();
        }
        let (events_in, events) = dataplane::channel().map_err(system("eventfd"))?;
        let kit = Kit {
            tables: Arc::new(Tables { nat: bindings, ..Tables::default() }),
            providers: providers.clone(),
            devices: Rc::clone(&devices),
            umem,
            events: events_in,
            flows: config.worker.flows as usize,
            polling: match options.poll {
                true => Polling::Always,
                false => config.worker.poll.into(),
            },
            confinement: confinement.clone(),
        };

        // 4.
        let signals = signals()?;
        let mut source = source.serve(&config.name)?;
        if options.unprivileged
            && let Some(builtin) = source.builtin_mut()
        {
            builtin.want_sockets();
        }
        let path = paths::control_socket(&config.name);
        let control = Control::listen(&path, confinement.clone())
            .map_err(system(path.display().to_string()))?;
        let reader = reader::listen(config, &control, confinement.clone());
        let early = match config.tun.early_acquire && !is_beside_kernel {
            true => Early::set_up(config).map(Some),
            // The kernel asks by itself.
            false => Ok(None),
        };
        let past_daemon = PastDaemon::new(&config.tun);
        let watch = (Watchdog::of_environment(now.at), past_daemon);
        let edges = (
            Box::new(observer) as Box<dyn edge::Tables>,
            Box::new(TunDevices { first: tuns.pop() }) as Box<dyn OwnInterfaces>,
        );
        let own = own(config, tun_ifindex);
        let mut daemon = Daemon {
            config: config.before_start(),
            wants: Wants::all(),
            linux: Linux::new(edges, own, private, (way_back, send_marks), nat),
            sa: Sas::new(source, guard, by_sender, now),
            offload: Offload::new(devices, now),
            crew: Crew::new(kit, events, ports, EspSockets::new(options.unprivileged)),
            shows: Shows::new((control, reader), Vici::default(), providers, early, now),
            life: Life::new(&options.config, Box::new(looker), confinement, signals, watch, now),
        };
        daemon.begin(now, plan)?;
        Ok(daemon)
    }

    /// Begins with a configuration, 5. If that cannot be, what outlives the process stays as it is: routes of tunnel
    /// interfaces stop their traffic.
    pub(super) fn begin(&mut self, now: Now, plan: Plan) -> Result<(), StartError> {
        // These are no news.
        drop(self.sa.source.changes().take_history());
        self.shows.event_log.begin(self.sa.source.databases().sas().map(|sa| sa.config.clone()));
        self.carry_out_plan(now, plan).map_err(|stopped| match stopped.failure {
            Failure::Refused(why) => StartError::Step(why),
            Failure::Lost(Lost::NotStarted(error)) => StartError::Step(StepError::Workers(error)),
            Failure::Lost(Lost::Died(death)) => StartError::WorkerDied(death),
        })?;
        // Ports are attached by now.
        self.carry_out(now);
        Ok(())
    }
}

/// Buffers for packets.
fn packet_buffers(config: &Config) -> Result<Umem, StartError> {
    let chunk_size = match config.worker.frame_bytes {
        4096 => ChunkSize::Bytes4096,
        _ => ChunkSize::Bytes2048,
    };
    let umem = UmemConfig { chunks: config.worker.frames, chunk_size, populate: true };
    let mib = config.worker.frames / 1024 * config.worker.frame_bytes / 1024;
    let (umem, _) =
        Umem::new(umem).map_err(|e| StartError::Memory(e, config.worker.frames, mib))?;
    Ok(umem)
}

/// The source of SAs and policies, before anybody can reach it.
enum Prepared {
    Builtin(Box<Restored>, KernelSad),
    Kernel(Box<KernelSource>),
}

impl Prepared {
    /// Lets programs connect, where they are served here.
    fn serve(self, name: &str) -> Result<Source, StartError> {
        match self {
            Prepared::Builtin(restored, kernel_sad) => {
                let path = paths::xfrm_socket(name);
                let named = system(path.display().to_string());
                let limits = ServerLimits::default();
                let builtin = restored.serve_at(&path, Some(kernel_sad), limits).map_err(named)?;
                Ok(Source::Builtin(Box::new(builtin)))
            }
            Prepared::Kernel(source) => Ok(Source::Kernel(source)),
        }
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
