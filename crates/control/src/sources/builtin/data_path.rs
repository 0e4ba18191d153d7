//! The backend of the XFRM database: the data path's tables, and the vault.

mod packet;

use core::net::IpAddr;
use core::sync::atomic::Ordering::Relaxed;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crypto::{Keys, Providers, Session};
use esp::{LiveNumbers, Sa};
use offload::PacketSa;
use policy::{Action, Databases, Direction, PolicyConfig, SaConfig, SaEntry, SaId};
use tracing::warn;
use vault::{Origin, Vault};
use xfrm::codec::{Offload, constant as c};
use xfrm::{Backend, Counters, PolicyLive, Refusal, Replay, SaEnd, SaLive, Start};

use super::in_udp;
use super::leaving::{Leaver, Leaving};
use super::numbers::Numbers;
use crate::devices::{SharedDevices, To, software_of};
use crate::sources::shared_keys::SharedKeys;
use crate::sources::{Changes, SaRules, SaStep, errno, last_numbers, live, session};

/// The data path behind the database.
pub struct DataPath {
    providers: Providers,
    devices: SharedDevices,
    databases: Databases<Sa>,
    vault: Rc<RefCell<Vault>>,
    numbers: Numbers,
    leaving: Leaving,
    rules: SaRules,
    changes: Changes,
    /// Ports are told of each SA: the kernel has some too.
    tells_ports: bool,
    shared_keys: SharedKeys,
    /// SAs that were refused as they are not in UDP.
    bare: u64,
}

impl DataPath {
    /// Empty tables over a vault.
    pub fn new(
        providers: Providers,
        vault: Rc<RefCell<Vault>>,
        numbers: Numbers,
        rules: SaRules,
    ) -> DataPath {
        DataPath {
            providers,
            devices: SharedDevices::default(),
            databases: Databases::new(),
            vault,
            numbers,
            leaving: Leaving::default(),
            rules,
            changes: Changes::default(),
            tells_ports: false,
            shared_keys: SharedKeys::default(),
            bare: 0,
        }
    }

    /// With devices that SAs may ask for.
    pub fn with_devices(self, devices: SharedDevices) -> DataPath {
        DataPath { devices, ..self }
    }

    /// Databases of the data path.
    pub fn databases(&self) -> &Databases<Sa> {
        &self.databases
    }

    /// Changes that nobody has taken yet.
    pub fn changes(&mut self) -> &mut Changes {
        &mut self.changes
    }

    /// All SAs as they are now; from here on [`Changes::take_steps`] says what was added and removed.
    pub fn follow_sas(&mut self) -> impl Iterator<Item = (IpAddr, u32)> {
        self.tells_ports = true;
        let steps = self.databases.sas().filter_map(|sa| SaStep::of(&sa.config.id(), true));
        steps.map(|step| (step.dst, step.spi))
    }

    /// Releases the live numbers of SAs without a record.
    pub fn sweep(&mut self) -> usize {
        let keep = self.vault.borrow().holders().collect();
        self.numbers.sweep(&keep)
    }

    /// Closes deleted SAs whose time is up, and begins the time of those that were deleted since the last call.
    pub fn close_due(&mut self, now: Instant) {
        self.leaving.begin(now);
        while let Some((fingerprint, sa)) = self.leaving.take_due(now) {
            self.close(fingerprint, &sa);
        }
    }

    /// Closes every deleted SA.
    pub fn close_all(&mut self) {
        while let Some((fingerprint, sa)) = self.leaving.take_any() {
            self.close(fingerprint, &sa);
        }
    }

    /// How long it is until [`DataPath::close_due`] has something to do.
    pub fn close_in(&self, now: Instant) -> Option<Duration> {
        self.leaving.due_in(now)
    }

    fn close(&mut self, fingerprint: u64, sa: &Leaver) {
        self.numbers.retire(fingerprint, &sa.live);
        self.vault.borrow_mut().release(sa.owner);
    }

    /// Retries to save numbers of deleted SAs that the vault did not take.
    pub fn retry_numbers(&mut self) {
        self.numbers.retry();
    }

    /// How many of these a restart would not know of.
    pub fn unsaved_numbers(&self) -> usize {
        self.numbers.unsaved()
    }

    /// An SA's live numbers: those of an earlier run of the daemon, or new ones.
    fn live_numbers(
        &mut self,
        config: &SaConfig,
        start: &Start,
        owner: u64,
    ) -> Result<LiveNumbers, Refusal> {
        let window = config.params.replay_window;
        if matches!(start, Start::At { .. }) {
            self.vault.borrow_mut().release(owner);
        }
        let grant = self
            .vault
            .borrow_mut()
            .live_numbers(owner, LiveNumbers::needed(window))
            .map_err(|e| Refusal::new(errno::ENOMEM, format!("culvert: {e}")))?;
        let has_numbers = !config.params.protocol.is_bare();
        if has_numbers && matches!(start, Start::Kept) && grant.origin == Origin::New {
            self.vault.borrow_mut().release(owner);
            let text = "culvert: the SA's sequence numbers are lost; using it would repeat a nonce";
            return Err(Refusal::new(errno::EINVAL, text));
        }
        LiveNumbers::in_memory(grant.memory, window)
            .ok_or_else(|| Refusal::new(errno::ENOMEM, "culvert: no room for the replay window"))
    }

    fn entry(&self, id: &SaId) -> Result<Arc<policy::SaEntry<Sa>>, Refusal> {
        self.databases.sa(id).ok_or_else(|| Refusal::new(errno::ESRCH, "no such SA"))
    }
}

impl DataPath {
    /// Fingerprint and owner of an SA's numbers.
    fn identity(&mut self, config: &SaConfig, keys: &Keys) -> Result<(u64, u64), Refusal> {
        let owner = self.numbers.owner(&config.id(), keys);
        let fingerprint = self.numbers.fingerprint(config.params.spi, keys);
        // It goes on where the one before ended.
        if let Some(before) = self.leaving.take(fingerprint) {
            self.close(fingerprint, &before);
        }
        if self.vault.borrow().is_held(owner) {
            // Another SA's: one in 2^64; the IKE daemon tries again with another SPI.
            return Err(Refusal::new(errno::EINVAL, "culvert: choose another SPI"));
        }
        Ok((fingerprint, owner))
    }

    /// Notes an SA that is refused as it is not in UDP: an IKE daemon tells only the errno.
    fn note_bare(&mut self, config: &SaConfig, refusal: &Refusal) {
        self.bare += 1;
        warn!(dst = %config.params.dst, "an SA is refused: {}", refusal.message);
    }

    /// SAs that were refused as they are not in UDP.
    pub fn bare(&self) -> u64 {
        self.bare
    }

    /// SAs that have one key, for the operator.
    pub fn shared_keys(&self) -> Option<String> {
        self.shared_keys.warning()
    }

    /// Follows an SA that has come.
    fn note_added(&mut self, config: &SaConfig, keys: &Keys) {
        self.shared_keys.add(config, keys);
        self.changes.sa_added(config);
        if self.tells_ports {
            self.changes.steer(&config.id(), true);
        }
    }

    /// Adds an SA; whether a device does its crypto.
    fn add(
        &mut self,
        config: &SaConfig,
        keys: &Keys,
        start: &Start,
        wanted: Option<&Offload>,
    ) -> Result<bool, Refusal> {
        let params = &config.params;
        if self.rules.only_in_udp {
            in_udp::check(config).inspect_err(|refusal| self.note_bare(config, refusal))?;
        }
        let session = session::of(config, keys, &self.providers, self.rules.allow_weak)?;
        let id = config.id();
        let (fingerprint, owner) = self.identity(config, keys)?;
        let live = self.live_numbers(config, start, owner)?;
        let in_the_way = wanted.and_then(|wanted| self.devices.borrow().in_the_way(wanted));
        in_the_way.into_iter().for_each(|other| self.move_to_software(&other));
        let (session, is_offloaded) = match wanted {
            Some(wanted) => self.devices.borrow_mut().put(config, keys, wanted, session),
            None => (session, false),
        };
        let sa = Sa::new(params.clone(), session, live)
            .map_err(|e| {
                self.devices.borrow_mut().remove(&id);
                self.vault.borrow_mut().release(owner);
                Refusal::new(errno::EINVAL, format!("culvert: {e}"))
            })?
            .with_tunnel_headers(self.rules.tunnel_headers);
        match start {
            Start::At { replay, counters } => {
                let sent = replay.sent.max(self.numbers.resume(fingerprint, owner));
                sa.live().sent().store(sent, Relaxed);
                live::set_received(&sa, replay);
                live::set_counters(sa.live(), counters);
            }
            // The run before was killed while it deleted the SA. Without a last number it stays
            // closed.
            Start::Kept if sa.live().sent().load(Relaxed) == LiveNumbers::CLOSED => {
                let resumed = self.numbers.resume(fingerprint, owner);
                if resumed != 0 {
                    sa.live().sent().store(resumed, Relaxed);
                }
            }
            Start::Kept => {}
        }
        self.databases
            .add_sa(last_numbers::with_alarm(config, &sa), sa)
            .inspect_err(|_| self.devices.borrow_mut().remove(&id))
            .map_err(|e| Refusal::new(errno::EINVAL, format!("culvert: {e}")))?;
        self.devices.borrow_mut().added(id);
        self.note_added(config, keys);
        Ok(is_offloaded)
    }

    /// Has a device do an SA's crypto, or software again. What workers have under way by the session before
    /// goes on by it: a device that has the SA no more leaves its packets to software.
    pub fn move_sa(&mut self, id: &SaId, keys: &Keys, to: To) {
        let To::Device(lane, direction) = to else { return self.move_to_software(id) };
        let Some(entry) = self.databases.sa(id) else { return };
        let software = software_of(entry.esp.session());
        let mut devices = self.devices.borrow_mut();
        let to = (lane, direction, devices.is_asked(id));
        let session = devices.put_in(to, &entry.config, keys, software);
        drop(devices);
        if let Ok(session) = session
            && !self.set_session(&entry, session)
        {
            self.devices.borrow_mut().take_out(id);
        }
    }

    fn move_to_software(&mut self, id: &SaId) {
        if let Some(entry) = self.databases.sa(id) {
            let software = software_of(entry.esp.session()).clone();
            self.set_session(&entry, software);
        }
        self.devices.borrow_mut().take_out(id);
    }

    /// Gives an SA another session of the same keys. Sequence, window and counters go on where they are.
    fn set_session(&mut self, old: &SaEntry<Sa>, session: Session) -> bool {
        let sa = Sa::new(old.config.params.clone(), session, old.esp.live().clone());
        let Ok(sa) = sa.inspect_err(|error| warn!(%error, "an SA does not move")) else {
            return false;
        };
        let sa =
            sa.with_tunnel_headers(self.rules.tunnel_headers).with_ceiling(old.esp.has_ceiling());
        self.databases.replace_sa(old.config.clone(), sa);
        self.changes.sa_moved();
        true
    }
}

/// True if a device has an SA as a whole.
fn is_in_device(sa: &SaEntry<Sa>) -> bool {
    PacketSa::of(sa.esp.session()).is_some()
}

impl Backend for DataPath {
    fn sa_add(&mut self, config: &SaConfig, keys: &Keys, start: &Start) -> Result<(), Refusal> {
        self.add(&self.rules.iptfs.applied(config), keys, start, None).map(drop)
    }

    fn sa_add_offloaded(
        &mut self,
        config: &SaConfig,
        keys: &Keys,
        start: &Start,
        wanted: &Offload,
    ) -> Result<bool, Refusal> {
        let config = &*self.rules.iptfs.applied(config);
        self.devices.borrow().check_protocol(config, wanted)?;
        match wanted.flags & c::OFFLOAD_PACKET {
            0 => self.add(config, keys, start, Some(wanted)),
            _ => self.add_to_device(config, keys, start, wanted).map(|()| true),
        }
    }

    fn sa_update(&mut self, config: &SaConfig) -> Result<(), Refusal> {
        let config = &*self.rules.iptfs.applied(config);
        let id = config.id();
        let old = self.entry(&id)?;
        if is_in_device(&old) && config.limits != old.config.limits {
            let text = "culvert: a device counts the SA's limits, and cannot change them";
            return Err(Refusal::new(errno::EOPNOTSUPP, text));
        }
        // The same live numbers: sequence, window and counters go on where they are.
        let session = old.esp.session().clone();
        let sa = Sa::new(config.params.clone(), session, old.esp.live().clone())
            .map_err(|e| Refusal::new(errno::EINVAL, format!("culvert: {e}")))?
            .with_tunnel_headers(self.rules.tunnel_headers)
            .with_ceiling(old.esp.has_ceiling());
        self.changes.sa_replaced(&old.config, config);
        let config = match is_in_device(&old) {
            true => config.clone(),
            false => last_numbers::with_alarm(config, &sa),
        };
        self.databases.replace_sa(config, sa);
        Ok(())
    }

    fn sa_delete(&mut self, id: &SaId, keys: &Keys, end: SaEnd) {
        let Some(entry) = self.databases.remove_sa(id) else { return };
        self.devices.borrow_mut().remove(id);
        self.remove_from_device(id, entry.esp.live());
        self.shared_keys.remove(id);
        let (fingerprint, owner) =
            (self.numbers.fingerprint(id.spi, keys), self.numbers.owner(id, keys));
        let live = entry.esp.live();
        match self.numbers.begin_to_retire(fingerprint, live) {
            true => {
                let other = self.leaving.add(fingerprint, owner, live.clone());
                other.into_iter().for_each(|other| self.close(fingerprint, &other));
            }
            false => self.vault.borrow_mut().release(owner),
        }
        self.changes.sa_removed(&entry.config, end.into());
        if self.tells_ports {
            self.changes.steer(id, false);
        }
    }

    fn sa_live(&self, id: &SaId) -> Option<SaLive> {
        if let Some(live) = self.live_in_device(id) {
            return Some(live);
        }
        let entry = self.databases.sa(id)?;
        let live = entry.esp.live();
        let narrow = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
        Some(SaLive {
            counters: live::counters_of(live),
            last_use_s: live.last_use().load(Relaxed),
            replay: live::replay_of(&entry.esp),
            too_old: narrow(live.too_old().load(Relaxed)),
            replays: narrow(live.replays().load(Relaxed)),
            integrity_failures: narrow(live.integrity_failures().load(Relaxed)),
        })
    }

    fn sa_set_replay(&mut self, id: &SaId, replay: &Replay) -> Result<(), Refusal> {
        let entry = self.entry(id)?;
        let refused = |text| Err(Refusal::new(errno::EINVAL, text));
        if is_in_device(&entry) {
            return refused("culvert: a device counts the SA's sequence numbers");
        }
        let sent = entry.esp.live().sent();
        // Forward only, and in one step against the worker that hands numbers out.
        if sent.fetch_max(replay.sent, Relaxed) > replay.sent {
            return refused("culvert: outbound numbers never go back: that repeats a nonce");
        }
        if replay.edge < entry.esp.replay().edge() {
            return refused("culvert: the replay window never goes back: that lets replays in");
        }
        if replay.edge > entry.esp.replay().edge() {
            live::set_received(&entry.esp, replay);
        }
        Ok(())
    }

    fn sa_set_counters(&mut self, id: &SaId, counters: &Counters) -> Result<(), Refusal> {
        let entry = self.entry(id)?;
        if is_in_device(&entry) {
            let text = "culvert: a device counts the SA's packets";
            return Err(Refusal::new(errno::EINVAL, text));
        }
        live::set_counters(entry.esp.live(), counters);
        Ok(())
    }

    fn policy_put_offloaded(
        &mut self,
        config: &PolicyConfig,
        wanted: &Offload,
    ) -> Result<(), Refusal> {
        self.put_to_device(config, wanted)
    }

    fn policy_put(&mut self, config: &PolicyConfig) -> Result<(), Refusal> {
        self.devices.borrow_mut().packet.remove_policy(config.index);
        self.databases.put_policy(config.clone());
        self.changes.policy(config.index);
        Ok(())
    }

    fn ask_again(&mut self, index: u32) {
        self.databases.ask_again(index);
    }

    fn policy_delete(&mut self, index: u32) {
        self.devices.borrow_mut().packet.remove_policy(index);
        self.databases.remove_policy(index);
        self.changes.policy(index);
    }

    fn policy_live(&self, index: u32) -> Option<PolicyLive> {
        let entry = self.databases.policy(index)?;
        Some(PolicyLive {
            bytes: entry.bytes(),
            packets: entry.packets(),
            last_use_s: entry.last_use_s(),
        })
    }

    fn set_default(&mut self, direction: Direction, action: Action) {
        self.databases.set_default(direction, action);
    }
}

#[cfg(test)]
mod tests {
    use core::sync::atomic::AtomicBool;
    use std::collections::BTreeMap;
    use std::sync::Mutex;
    use std::time::Duration;

    use crypto::{AesKey, IcvLen, Job, JobStatus, Op, Provider, Suite};
    use engine_openssl::OpensslProvider;
    use esp::{OuterDscp, TunnelHeaders};
    use offload::SaDirection;

    use super::*;
    use crate::devices::{Devices, device_of};
    use crate::sources::builtin::testing::open_vault;
    use crate::sources::testing::{HERE, THERE, config, keys};

    fn data_path(directory: &std::path::Path, rules: SaRules) -> DataPath {
        let (vault, records) = open_vault(&directory.join("vault"));
        let vault = Rc::new(RefCell::new(vault));
        let numbers = Numbers::new(Rc::clone(&vault), &records);
        let providers = Providers::new(Arc::new(OpensslProvider::new().unwrap()));
        DataPath::new(providers, vault, numbers, rules)
    }

    fn start() -> Start {
        Start::At { replay: Replay::default(), counters: Counters::default() }
    }

    #[test]
    fn an_sa_that_is_updated_keeps_what_the_configuration_says() {
        let directory = tempfile::tempdir().unwrap();
        let tunnel_headers =
            TunnelHeaders { dscp: OuterDscp::Value(10), ..TunnelHeaders::default() };
        let rules = SaRules { tunnel_headers, ..SaRules::default() };
        let mut data_path = data_path(directory.path(), rules);
        let (config, keys) = (config(1, (HERE, THERE), 1), keys());
        data_path.sa_add(&config, &keys, &start()).unwrap();
        let shown = |data_path: &DataPath| {
            let entry = data_path.databases().sa(&config.id()).unwrap();
            format!("{:?}", entry.esp)
        };
        let before = shown(&data_path);
        data_path.sa_update(&config).unwrap();
        assert_eq!(shown(&data_path), before);
    }

    /// The last number and the salt of an SA's IVs.
    fn numbers_of(data_path: &DataPath, config: &SaConfig) -> (u64, u64) {
        let sa = data_path.databases().sa(&config.id()).unwrap();
        (sa.esp.live().sent().load(Relaxed), sa.esp.live().iv_salt().unwrap())
    }

    #[test]
    fn numbers_that_go_on_keep_their_salt_and_numbers_that_begin_again_have_another() {
        let directory = tempfile::tempdir().unwrap();
        let (config, keys) = (config(1, (HERE, THERE), 1), keys());
        let mut first = data_path(directory.path(), SaRules::default());
        first.sa_add(&config, &keys, &start()).unwrap();
        let sa = first.databases().sa(&config.id()).unwrap();
        assert_eq!(sa.esp.lease(100).unwrap().count(), 100);
        let (_, salt) = numbers_of(&first, &config);
        first.sa_update(&config).unwrap();
        assert_eq!(numbers_of(&first, &config), (100, salt));
        // As if it had been killed.
        drop((sa, first));
        let mut killed = data_path(directory.path(), SaRules::default());
        killed.sa_add(&config, &keys, &Start::Kept).unwrap();
        assert_eq!(numbers_of(&killed, &config), (100, salt));
        killed.sa_delete(&config.id(), &keys, SaEnd::Deleted);
        killed.sa_add(&config, &keys, &start()).unwrap();
        let (sent, of_the_next) = numbers_of(&killed, &config);
        assert_eq!(sent, 100);
        assert_ne!(of_the_next, salt);
        // After a reboot nothing is kept.
        let empty = tempfile::tempdir().unwrap();
        let mut rebooted = data_path(empty.path(), SaRules::default());
        rebooted.sa_add(&config, &keys, &start()).unwrap();
        let (sent, after_a_reboot) = numbers_of(&rebooted, &config);
        assert_eq!(sent, 0);
        assert!(![salt, of_the_next].contains(&after_a_reboot));
    }

    #[test]
    fn an_sa_with_the_key_of_another_one_is_told_until_it_is_deleted() {
        let directory = tempfile::tempdir().unwrap();
        let mut data_path = data_path(directory.path(), SaRules::default());
        let (out, back) = (config(1, (HERE, THERE), 1), config(2, (THERE, HERE), 1));
        for config in [&out, &back] {
            assert_eq!(data_path.shared_keys(), None);
            data_path.sa_add(config, &keys(), &start()).unwrap();
        }
        let told = data_path.shared_keys().unwrap();
        assert!(told.contains("0x00000001") && told.contains("0x00000002"), "{told}");
        data_path.sa_delete(&out.id(), &keys(), SaEnd::Deleted);
        assert_eq!(data_path.shared_keys(), None);
    }

    #[test]
    fn a_deleted_sa_numbers_what_is_under_way_until_its_keys_come_again_or_its_time_is_up() {
        let directory = tempfile::tempdir().unwrap();
        let mut data_path = data_path(directory.path(), SaRules::default());
        let (config, keys) = (config(1, (HERE, THERE), 1), keys());
        data_path.sa_add(&config, &keys, &start()).unwrap();
        let old = data_path.databases().sa(&config.id()).unwrap();
        assert_eq!(old.esp.lease(100).unwrap().count(), 100);
        data_path.sa_delete(&config.id(), &keys, SaEnd::Deleted);
        assert_eq!(old.esp.lease(3).unwrap().count(), 3, "a worker had it at hand");
        let deleted = Instant::now();
        data_path.close_due(deleted);
        data_path.sa_add(&config, &keys, &start()).unwrap();
        assert!(old.esp.lease(1).is_err());
        let new = data_path.databases().sa(&config.id()).unwrap();
        assert_eq!(new.esp.live().sent().load(Relaxed), 103);
        let at = deleted + data_path.close_in(deleted).unwrap();
        data_path.close_due(at);
        assert_eq!(new.esp.lease(1).unwrap().count(), 1, "the one before is closed, not this");
        data_path.sa_delete(&config.id(), &keys, SaEnd::Deleted);
        assert_eq!(data_path.close_in(at), Some(Duration::ZERO));
        data_path.close_due(at);
        let at = at + data_path.close_in(at).unwrap();
        data_path.close_due(at);
        assert!(new.esp.lease(1).is_err());
        assert_eq!(data_path.close_in(at), None);
    }

    #[test]
    fn an_sa_that_moves_to_and_fro_uses_no_number_twice_and_none_in_vain() {
        let directory = tempfile::tempdir().unwrap();
        let device = "kind = \"nic-model\"\nport = \"lo\"";
        let device = toml::from_str(device).unwrap();
        let devices = Devices::new(&BTreeMap::from([("nic0".to_owned(), device)]));
        let devices = Rc::new(RefCell::new(devices));
        let mut data_path =
            data_path(directory.path(), SaRules::default()).with_devices(Rc::clone(&devices));
        let mut config = config(1, (HERE, THERE), 1);
        config.params.suite = Suite::AesGcm { key: AesKey::Aes128, icv: IcvLen::Icv16 };
        let keys = Keys { cipher: vec![7; 16], salt: vec![1; 4], auth: Vec::new() };
        data_path.sa_add(&config, &keys, &start()).unwrap();
        let id = config.id();
        let mut engine =
            devices.borrow_mut().engine(OpensslProvider::new().unwrap().engine().unwrap()).unwrap();
        // A worker goes on with the SA as it had it for some bursts.
        let seen = Arc::new(Mutex::new(data_path.databases().sa(&id).unwrap()));
        let is_over = Arc::new(AtomicBool::new(false));
        let worker = std::thread::spawn({
            let (seen, is_over) = (Arc::clone(&seen), Arc::clone(&is_over));
            move || {
                let mut numbers = Vec::new();
                while !is_over.load(Relaxed) {
                    let entry = Arc::clone(&seen.lock().unwrap());
                    for _ in 0..3 {
                        let leased = entry.esp.lease(8).unwrap();
                        let mut packets: Vec<Vec<u8>> =
                            leased.map(|number| packet(number.value())).collect();
                        numbers.extend(packets.iter().map(|packet| packet[4..16].to_vec()));
                        let session = entry.esp.session();
                        let job = |packet| Job::esp(session, Op::Seal, packet, None);
                        let mut jobs: Vec<_> =
                            packets.iter_mut().map(|packet| job(packet)).collect();
                        engine.run(&mut jobs);
                        assert!(jobs.iter().all(|job| job.status == JobStatus::Done));
                        let sealed = numbers[numbers.len() - 8..].iter().zip(&packets);
                        assert!(
                            sealed.into_iter().all(|(number, packet)| packet[4..16] == number[..])
                        );
                    }
                }
                numbers
            }
        });
        for n in 0..200 {
            let to = match n % 2 {
                0 => To::Device(0, SaDirection::Outbound),
                _ => To::Software,
            };
            data_path.move_sa(&id, &keys, to);
            let entry = data_path.databases().sa(&id).unwrap();
            assert_eq!(device_of(entry.esp.session()).is_some(), n % 2 == 0);
            *seen.lock().unwrap() = entry;
            std::thread::sleep(Duration::from_micros(300));
        }
        is_over.store(true, Relaxed);
        let mut numbers = worker.join().unwrap();
        numbers.sort();
        let expected: Vec<Vec<u8>> =
            (1..=numbers.len() as u64).map(|n| packet(n)[4..16].to_vec()).collect();
        assert!(numbers == expected, "each number once, and its IV with it");
        let row = devices.borrow().rows().remove(0);
        assert!(row.sealed > 0 && row.tables[0].used == 0, "{row:?}");
        assert_eq!(row.state, report::State::Up);
        // 4 bytes of SPI, the number, and the IV that follows from it.
        fn packet(number: u64) -> Vec<u8> {
            let mut packet = vec![0, 0, 0, 1];
            packet.extend((number as u32).to_be_bytes());
            packet.extend(number.to_be_bytes());
            packet.resize(96, 5);
            packet
        }
    }
}
