//! Linux's XFRM databases in this process: IKE daemons and `ip xfrm` reach them by a socket.
//!
//! | Module      | What it knows                                                     |
//! |-------------|-------------------------------------------------------------------|
//! | this one    | when server, databases and journal are served                     |
//! | `in_udp`    | which SAs can be carried where there are no ports                 |
//! | `data_path` | how SAs and policies of the databases become the data path's      |
//! | `journal`   | how a change gets into the vault                                  |
//! | `leaving`   | which deleted SAs may still have packets under way                |
//! | `numbers`   | which sequence numbers are used up, beyond the life of their SA   |

mod data_path;
mod in_udp;
mod journal;
mod leaving;
mod numbers;
#[cfg(test)]
mod testing;

use std::cell::RefCell;
use std::io;
use std::net::IpAddr;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

use crypto::{Keys, Providers};
use esp::Sa;
use policy::{Action, Databases, Direction, SaId, WorkerIndex};
use report::{Warning, WarningKind};
use tracing::{error, info, warn};
use vault::{Record, Vault, VaultError};
use wire::Headers;
use xfrm::codec::LifetimeConfig;
use xfrm::{
    Acquired, Database, Flow, GivenBack, Group, Handed, KernelSad, Output, Server, ServerLimits,
    Settings,
};

pub use self::data_path::DataPath;
pub use self::journal::Journal;
pub use self::numbers::Numbers;
use super::{Changes, Negotiations, Owner, SaRules};
use crate::clock::Now;
use crate::devices::{SharedDevices, To};

/// The databases before anybody can reach them.
pub struct Restored {
    vault: Rc<RefCell<Vault>>,
    database: Database<DataPath>,
    count: usize,
}

impl Restored {
    /// Restores what the run before left in the vault. What cannot be restored is forgotten. `rules`
    /// hold here and later.
    ///
    /// # Errors
    /// The vault does not take changes.
    pub fn new(
        vault: Vault,
        records: &[Record],
        (providers, devices): (Providers, SharedDevices),
        rules: SaRules,
        now: Now,
    ) -> Result<Restored, VaultError> {
        if vault.has_discarded() {
            warn!("the vault was of another boot: SAs and policies in it were forgotten");
        }
        if let Some(warning) = on_disk(&vault) {
            warn!("{warning}");
        }
        let vault = Rc::new(RefCell::new(vault));
        let numbers = Numbers::new(Rc::clone(&vault), records);
        let data_path =
            DataPath::new(providers, Rc::clone(&vault), numbers, rules).with_devices(devices);
        let mut database = Database::new(data_path, settings());
        let mut count = 0;
        for record in records.iter().filter(|r| !Numbers::is_ours(r)) {
            match database.restore(&record.value, now.xfrm()) {
                Ok(()) => count += 1,
                Err(error) => {
                    error!(%error, "a saved SA or policy was not taken up");
                    // The sweep releases its live numbers, so the record must go too.
                    vault.borrow_mut().remove(&record.key)?;
                }
            }
        }
        let orphans = database.backend_mut().sweep();
        if count + orphans > 0 {
            info!(restored = count, orphans, "taken up from the run before");
        }
        Ok(Restored { vault, database, count })
    }

    /// Lets programs connect at a path.
    ///
    /// # Errors
    /// When the socket cannot be made.
    pub fn serve_at(
        self,
        path: &Path,
        kernel_sad: Option<KernelSad>,
        limits: ServerLimits,
    ) -> io::Result<Builtin> {
        let Restored { vault, database, count } = self;
        let mut builtin = Builtin {
            journal: Journal::new(Rc::clone(&vault)),
            vault,
            database,
            server: Server::new(path, limits)?,
            kernel_sad,
            kernel_has_sas: false,
            restored: count,
            given_up: None,
        };
        builtin.follow_kernel_sad();
        Ok(builtin)
    }
}

/// The databases, and who is connected.
pub struct Builtin {
    vault: Rc<RefCell<Vault>>,
    database: Database<DataPath>,
    server: Server,
    journal: Journal,
    /// SAs of the kernel's own; none where nobody looks for them.
    kernel_sad: Option<KernelSad>,
    /// The kernel had SAs of its own at some time: an IKE daemon uses the kernel's XFRM too, and may
    /// install more at any time.
    kernel_has_sas: bool,
    restored: usize,
    /// SPIs that were given back without an SA, and when the last was.
    given_up: Option<(GivenBack, Instant)>,
}

impl Builtin {
    fn enqueue(&mut self, outputs: Vec<Output>) {
        let mut journal = |change| self.journal.record(change);
        self.server.enqueue(outputs, &mut journal);
    }

    fn follow_kernel_sad(&mut self) {
        let Some(kernel_sad) = &mut self.kernel_sad else { return };
        if let Err(error) = kernel_sad.poll() {
            warn!(%error, "the kernel's own SAs");
        }
        let count = kernel_sad.count();
        if count > 0 && !self.kernel_has_sas {
            self.kernel_has_sas = true;
            warn!(
                count,
                "the kernel has SAs of its own: their ESP, and all whose SPI culvert does not know, \
                 is left to the kernel"
            );
        }
    }
}

/// Result of an acquire, for the log.
const fn word(became: Acquired) -> &'static str {
    match became {
        Acquired::Asked => "asked",
        Acquired::Pending => "asked before",
        Acquired::NobodyListens => "nobody listens",
        Acquired::NoPolicy => "no such policy",
    }
}

/// Warning for the operator where the vault is on a disk.
fn on_disk(vault: &Vault) -> Option<String> {
    let path = vault.path().display();
    vault.is_on_disk().then(|| {
        format!(
            "the vault is on a disk: {path} is no tmpfs, so keys of SAs get there, and may stay there \
             after their SAs; after a reboot none of it is taken up"
        )
    })
}

/// The databases' settings on this host.
fn settings() -> Settings {
    // Workers may be more than the host has processors: each may have SAs of its own.
    let cpus = possible_cpus().max(WorkerIndex::MAX.try_into().unwrap_or(u32::MAX));
    Settings { cpus, ..Settings::default() }
}

/// How many processors the host could have, as Linux counts them where it checks an SA's CPU.
fn possible_cpus() -> u32 {
    let ranges = std::fs::read_to_string("/sys/devices/system/cpu/possible").unwrap_or_default();
    let last = ranges.trim().rsplit(['-', ',']).next().and_then(|last| last.parse::<u32>().ok());
    last.map_or(0, |last| last.saturating_add(1))
}

impl Owner for Builtin {
    fn add_fds<'a>(&'a self, fds: &mut Vec<BorrowedFd<'a>>) {
        fds.push(self.server.poll_fd());
        fds.extend(self.kernel_sad.as_ref().map(KernelSad::fd));
    }

    fn due_in(&self, now: Now) -> Option<Duration> {
        if self.server.is_busy() {
            return Some(Duration::ZERO);
        }
        let timers = self.database.next_deadline_ms();
        let timers = timers.map(|at| Duration::from_millis(at.saturating_sub(now.boot_ms)));
        let server = self.server.due().map(|at| now.until(at));
        let closing = self.database.backend().close_in(now.at);
        timers.into_iter().chain(server).chain(closing).min()
    }

    fn serve(&mut self, now: Now) {
        let mut journal = |change| self.journal.record(change);
        if let Err(error) = self.server.receive(&mut self.database, now.xfrm(), &mut journal) {
            error!(%error, "the XFRM socket");
        }
        let given_back = self.database.given_back();
        if given_back.count > self.given_up.map_or(0, |(known, _)| known.count) {
            self.given_up = Some((given_back, now.at));
        }
        let mut outputs = Vec::new();
        self.database.tick(now.xfrm(), &mut outputs);
        self.enqueue(outputs);
        self.database.backend_mut().close_due(now.at);
        self.follow_kernel_sad();
    }

    fn volume_reached(&mut self, sa: &SaId, hard: bool) {
        let mut outputs = Vec::new();
        self.database.volume_expired(sa, hard, &mut outputs);
        self.enqueue(outputs);
    }

    fn mapping_changed(&mut self, now: Now, sa: &SaId, src: IpAddr, src_port: u16) {
        let mut outputs = Vec::new();
        self.database.mapping_changed(sa, src, src_port, now.xfrm(), &mut outputs);
        self.enqueue(outputs);
    }

    fn databases(&self) -> &Databases<Sa> {
        self.database.backend().databases()
    }

    fn changes(&mut self) -> &mut Changes {
        self.database.backend_mut().changes()
    }

    fn keys_of(&self, sa: &SaId) -> Option<Keys> {
        self.database.keys_of(sa)
    }

    fn limits_of(&self, sa: &SaId) -> Option<LifetimeConfig> {
        self.database.limits_of(sa)
    }

    fn warnings(&self) -> Vec<Warning> {
        let mut warnings = Vec::new();
        let mut warn = |kind, text: String| warnings.push(Warning::new(kind, text));
        if let Some(text) = on_disk(&self.vault.borrow()) {
            warn(WarningKind::VaultOnDisk, text);
        }
        let unsaved = self.journal.unsaved() + self.database.backend().unsaved_numbers();
        if unsaved > 0 {
            let text = format!(
                "{unsaved} changes are not in the vault: a restart would not know of them (see the \
                 log for why); they are written when it takes them"
            );
            warn(WarningKind::VaultBehind, text);
        }
        if let count @ 1.. = self.database.backend().bare() {
            let text = format!(
                "{count} SAs without UDP encapsulation were refused: --unprivileged carries ESP in UDP \
                 alone; set encap = yes in swanctl.conf"
            );
            warn(WarningKind::NotInUdp, text);
        }
        if let Some(text) = self.database.backend().shared_keys() {
            warn(WarningKind::SharedKeys, text);
        }
        if let Some(count @ 1..) = self.kernel_sad.as_ref().map(KernelSad::count) {
            let text = format!("the kernel has {count} SAs of its own: their ESP is left to it");
            warn(WarningKind::KernelSas, text);
        }
        warnings
    }

    fn retry(&mut self) {
        self.journal.retry();
        self.database.backend_mut().retry_numbers();
    }
}

impl Builtin {
    /// Answers the clients' requests: guard, steering and routes have followed.
    pub fn confirm(&mut self) {
        self.server.send(&self.database);
    }

    /// A policy wants protection for this packet, and there is no SA yet; or none of the worker's own, where a `cpu` is
    /// given.
    pub fn acquire(&mut self, now: Now, policy: u32, cpu: Option<u32>, packet: &Headers) {
        let flow = Flow {
            src: packet.src,
            dst: packet.dst,
            protocol: packet.protocol,
            src_port: packet.src_port,
            dst_port: packet.dst_port,
            ifindex: 0,
        };
        let listening = self.server.listening(Group::Acquire);
        let mut outputs = Vec::new();
        let wanted = (0, cpu);
        let database = &mut self.database;
        let became = database.acquire(policy, wanted, &flow, listening, now.xfrm(), &mut outputs);
        info!(policy, cpu, src = %flow.src, dst = %flow.dst, became = word(became), "acquire");
        self.enqueue(outputs);
    }

    /// Destination and SPI of all SAs, once the kernel has SAs too. Which, once it had some, stays so.
    pub fn own_esp(&mut self) -> Option<Vec<(IpAddr, u32)>> {
        self.kernel_has_sas.then(|| self.database.backend_mut().follow_sas().collect())
    }

    /// Has an offload device do an SA's crypto, or software again.
    pub fn move_sa(&mut self, sa: &SaId, to: To) {
        if let Some(keys) = self.database.keys_of(sa) {
            self.database.backend_mut().move_sa(sa, &keys, to);
        }
    }

    /// Removes SAs and policies whose offload device is gone.
    pub fn lose(&mut self, sas: &[SaId], policies: &[u32]) {
        let mut outputs = Vec::new();
        self.database.device_gone(sas, policies, &mut outputs);
        self.enqueue(outputs);
    }

    /// Reads what devices have counted of their SAs.
    pub fn read_devices(&mut self) {
        self.database.backend_mut().read_devices();
    }

    /// SAs and policies that were there before this process.
    pub fn restored(&self) -> usize {
        self.restored
    }

    /// Programs that are connected.
    pub fn client_count(&self) -> usize {
        self.server.client_count()
    }

    /// Knowledge of IKE negotiations.
    pub fn negotiations(&self, now: Now) -> Negotiations {
        let reserved = self.database.oldest_reservation();
        Negotiations {
            has_ike: self.server.listening(Group::Acquire),
            answered: reserved
                .map(|(peer, at)| (peer, Duration::from_millis(now.boot_ms.saturating_sub(at)))),
            given_up: self.given_up.and_then(|(last, at)| Some((last.peer?, now.since(at)))),
        }
    }

    /// Takes UDP sockets from programs from now on, for ESP in UDP.
    pub fn want_sockets(&mut self) {
        self.server.want_sockets();
    }

    /// The sockets that programs have handed over since the last call; each is to be answered.
    pub fn take_sockets(&mut self) -> Vec<Handed> {
        self.server.take_sockets()
    }

    /// Tells a program what became of its socket: 0, or an errno.
    pub fn answer_socket(&mut self, client: u64, errno: i32) {
        self.server.answer(client, errno);
    }

    /// True if the program is still there that handed a socket over.
    pub fn is_connected(&self, client: u64) -> bool {
        self.server.is_connected(client)
    }

    /// Ends in order. No worker runs.
    ///
    /// SAs, policies and default actions that block stay in the vault; with nothing left, it is removed.
    pub fn shut_down(mut self) {
        self.database.backend_mut().take_back();
        self.database.backend_mut().close_all();
        self.retry();
        let databases = self.databases();
        let blocks = |direction| databases.default_action(direction) != Action::Allow;
        let is_empty = databases.sa_count() + databases.policies().len() == 0
            && ![Direction::In, Direction::Out, Direction::Forward].into_iter().any(blocks);
        let Builtin { vault, database, server, journal, .. } = self;
        drop((journal, database, server));
        if is_empty
            && let Ok(vault) = Rc::try_unwrap(vault)
            && let Err(error) = vault.into_inner().wipe()
        {
            warn!(%error, "the vault was not removed");
        }
    }
}
