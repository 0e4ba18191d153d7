//! The kernel's databases as a source of the daemon's.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashSet};
use std::io;
use std::net::IpAddr;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use crypto::Keys;
use esp::Sa;
use policy::{Databases, SaId};
use report::{Warning, WarningKind};
use tracing::{debug, error, warn};
use xfrm::codec::LifetimeConfig;

use super::model::{Place, SaKey};
use super::timing::{BACKLOG, INTERVAL, STEP};
use super::{FirewallWatch, KernelSource, bypass};
use crate::clock::Now;
use crate::sources::{Changes, Interfaces, LeftSa, Merge, Owner};
use crate::texts::spi_text;
use crate::vrfs::Vrfs;

/// How long what has passed to Linux may still be under way then.
const LENIENT: Duration = Duration::from_secs(2);

/// A thread that is not back after this has hung: ports have passed everything to Linux meanwhile.
const HANGS: Duration = Duration::from_millis(400);

impl Owner for KernelSource {
    fn add_fds<'a>(&'a self, fds: &mut Vec<BorrowedFd<'a>>) {
        fds.push(self.events.fd());
        fds.extend(self.firewall.iter().flat_map(FirewallWatch::fds));
    }

    fn due_in(&self, now: Now) -> Option<Duration> {
        if !self.touched.is_empty() {
            return Some(Duration::ZERO);
        }
        let moving = !self.moving.is_empty() || !self.merges.is_empty();
        let moving = moving.then_some(STEP);
        let at = |at: Option<Instant>| at.map(|at| now.until(at));
        let write = at(self.to_write.first().map(|(at, _)| *at));
        let revisit = at(self.revisits.first().map(|(at, _)| *at));
        let forget = at(self.departed.due_at());
        let learn = at(self.learn_at);
        let firewall = self.firewall.as_ref().and_then(|watch| watch.due_in(now));
        [moving, write, revisit, forget, learn, firewall].into_iter().flatten().min()
    }

    fn serve(&mut self, now: Now) {
        if now.since(self.served_at) > HANGS {
            self.lenient_until = now.at + LENIENT;
        }
        self.served_at = now.at;
        self.departed.forget(now.at);
        if let Err(error) = self.hear(now) {
            // What was missed is found by a dump.
            self.learn_at = Some(now.at);
            self.has_failed(&error);
        }
        if self.learn_at.is_some_and(|at| at <= now.at) {
            match self.learn_anew(now) {
                Ok(()) => (self.learn_at, self.trouble) = (None, None),
                Err(error) => {
                    self.learn_at = Some(now.at + INTERVAL);
                    self.has_failed(&error);
                }
            }
        }
        if self.firewall.as_mut().is_some_and(|watch| watch.poll(now)) {
            self.follow_firewalls();
        }
        self.move_on(now);
        self.decide(now);
        self.admit(now);
        self.write_back(now);
    }

    fn volume_reached(&mut self, sa: &SaId, is_hard: bool) {
        let key = SaKey::from(sa);
        if let Some(known) = self.model.sa_mut(&key)
            && let Some(entry) = self.published.databases().sa(sa)
        {
            known.written.counters = known.counters(entry.esp.live());
            let told = self.kernel.set_counters(sa, &known.written);
            if let Err(error) = told.and_then(|_| self.kernel.expire(sa, is_hard)) {
                warn!(%error, spi = spi_text(sa.spi), "the kernel was not told of a limit");
            }
        }
    }

    /// The kernel sees it by itself, and tells the owner, when it gets one of the packets.
    fn mapping_changed(&mut self, _: Now, sa: &SaId, _src: IpAddr, _src_port: u16) {
        self.samples.push((sa.dst, sa.spi));
    }

    fn databases(&self) -> &Databases<Sa> {
        self.published.databases()
    }

    fn changes(&mut self) -> &mut Changes {
        self.published.changes()
    }

    fn keys_of(&self, sa: &SaId) -> Option<Keys> {
        let known = self.model.sa(&SaKey::from(sa))?;
        known.learnt.carried.as_ref().ok().map(|(_, keys)| keys.clone())
    }

    fn limits_of(&self, sa: &SaId) -> Option<LifetimeConfig> {
        Some(self.model.sa(&SaKey::from(sa))?.learnt.limits.clone())
    }

    fn warnings(&self) -> Vec<Warning> {
        use WarningKind as Kind;
        let trouble = self.trouble.as_ref().map(|text| Warning::new(Kind::KernelSource, text));
        let shared_keys = self.published.shared_keys();
        let shared_keys = shared_keys.map(|text| Warning::new(Kind::SharedKeys, text));
        let mut warnings: Vec<Warning> = trouble.into_iter().chain(shared_keys).collect();
        match &self.firewall {
            Some(_) => {
                let kept = self.model.firewalls().warnings();
                warnings.extend(kept.map(|text| Warning::new(Kind::FirewallKeeps, text)));
            }
            None => warnings.push(Warning::new(Kind::FirewallBypass, PASSED_BY)),
        }
        warnings
    }

    fn retry(&mut self) {
        self.let_judged_pass();
    }
}

impl KernelSource {
    /// The kernel has not answered; it is logged once.
    fn has_failed(&mut self, error: &io::Error) {
        let text = format!("the kernel's XFRM: {error}");
        if self.trouble.as_ref() != Some(&text) {
            error!("{text}");
        }
        self.trouble = Some(text);
    }

    /// The interfaces that are ports are these.
    pub fn set_ports(&mut self, names: BTreeSet<String>) {
        if let Some(watch) = &mut self.firewall {
            watch.set_ports(names);
        }
    }

    /// The kernel's XFRM interfaces are these. Returns the `if_id`s of those by which Linux takes what was decrypted
    /// for this host: with the mark of what was judged.
    pub fn set_interfaces(&mut self, interfaces: &Interfaces) -> BTreeSet<u32> {
        self.model.set_interfaces(interfaces.clone());
        self.touched.extend(self.model.links());
        self.let_judged_pass();
        self.forget_judged(false);
        self.judged_by.clone()
    }

    /// The addresses of this host are these, and these of its interfaces and addresses are in VRFs.
    pub fn set_local(&mut self, local: HashSet<IpAddr>, vrfs: Vrfs) {
        let has_changed = self.model.set_local(local);
        if self.model.set_vrfs(vrfs) || has_changed {
            self.touched.extend(self.model.links());
        }
    }

    /// Takes the inbound SAs whose next packet is to be left to Linux, by destination and SPI: it has these SAs too, and
    /// sees that they are in use.
    pub fn take_samples(&mut self) -> Vec<(IpAddr, u32)> {
        std::mem::take(&mut self.samples)
    }

    /// Takes what the kernel has received by SAs of the fast path.
    ///
    /// Older packets may wait for a worker, and must not have left the window when it gets to them.
    pub fn take_merges(&mut self, now: Now) -> Vec<Merge> {
        let databases = self.published.databases();
        let is_behind = |(since, merge): &mut (Instant, Merge)| {
            let sa = databases.sa(&merge.sa);
            now.since(*since) >= BACKLOG || sa.is_none_or(|sa| sa.esp.replay().edge() >= merge.edge)
        };
        self.merges.extract_if(.., is_behind).map(|(_, merge)| merge).collect()
    }

    /// SAs that the fast path does not have.
    pub fn left(&self) -> Vec<LeftSa> {
        let left = self.model.sas().filter(|(_, known)| known.place == Place::Kernel);
        left.map(|(_, known)| LeftSa {
            id: known.learnt.id,
            src: known.learnt.src,
            reqid: known.learnt.reqid,
            if_id: known.learnt.if_id,
            mode: known.learnt.mode,
            config: known.learnt.carried.as_ref().ok().map(|(config, _)| config.clone()),
            counters: known.learnt.numbers.counters,
            replay: known.learnt.numbers.replay.clone(),
            why: known.why.as_ref().map(ToString::to_string).unwrap_or_default(),
        })
        .collect()
    }

    /// Why a policy is carried out by the kernel, if it is.
    pub fn why_left(&self, policy: u32) -> Option<String> {
        self.why_policy_stays(policy).map(Cow::into_owned)
    }

    /// Brings what [`KernelSource::left`] tells up to date.
    ///
    /// Only what is left is told of anew: the rest is known here before the kernel knows.
    pub fn refresh(&mut self, now: Now) {
        let Ok((sas, _)) = self.kernel.sas(&mut self.generation, now.xfrm()) else { return };
        for sa in sas {
            if let Some(known) = self.model.sa_mut(&SaKey::from(&sa.id))
                && known.place == Place::Kernel
            {
                known.learnt.numbers = sa.numbers;
            }
        }
    }

    /// True if workers have to let go of an SA before [`Owner::serve`] goes on with it.
    pub fn awaits_workers(&self) -> bool {
        !self.moving.is_empty()
    }

    /// Gives back what was taken from the kernel, with [`Owner::serve`]; true if all of it is.
    pub fn release(&mut self) -> bool {
        if !self.is_stopping {
            self.is_stopping = true;
            self.touched.extend(self.model.links());
        }
        self.touched.is_empty() && self.model.sas().all(|(_, known)| known.place == Place::Kernel)
    }

    /// Ends in order. No worker runs.
    pub fn shut_down(mut self) {
        for bypass in bypass::of_private(self.marks.judged) {
            if let Err(error) = self.kernel.delete_bypass(&bypass) {
                debug!(%error, ?bypass, "IPv6 through the private interface");
            }
        }
        self.forget_judged(true);
        if let Err(error) = self.vault.wipe() {
            warn!(%error, "the vault was not removed");
        }
    }
}

/// Warning for an operator who has set so.
const PASSED_BY: &str = "firewall = \"bypass\" in [kernel]: no rule of nftables or iptables sees what the \
                         fast path forwards";
