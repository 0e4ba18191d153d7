//! One offload device: how it does, what it is given, and what has happened to it.

use std::collections::VecDeque;
use std::sync::Arc;

use config::{BusyBy, DeviceConfig, DeviceKind, PlacementChoice};
use nic::SharedNic;
use offload::place::{Placer, Rules};
use offload::{
    Bounce, Device, DeviceCounters, Lane, Placement, ProbeError, PutError, Queue, Recovery,
    TableUse, Watch, probe,
};
use policy::SaId;
use report::{self, Occurrence};
use tracing::{info, warn};

use crate::cryptodevs;
use crate::texts::spi_text;

/// A device and its port.
pub struct Attached {
    pub name: Arc<str>,
    pub config: DeviceConfig,
    pub device: Box<dyn Device<Bounce>>,
    pub watch: Arc<Watch>,
    /// Of a device that has the busiest SAs.
    pub placer: Option<Placer<SaId>>,
    /// When is next looked which they are.
    pub round_ms: u64,
    recovery: Recovery,
    /// Why it is given nothing, while it is down.
    trouble: Option<String>,
    /// True if an engine has a queue of it.
    has_lanes: bool,
    /// State that was last told: in use, or not.
    is_told_up: bool,
    /// The queue of probes, made for the first one.
    probing: Option<Box<dyn Queue<Bounce>>>,
    /// Counts that belong to probes.
    probed: DeviceCounters,
    /// When it last gave the known answer.
    proven_ms: Option<u64>,
    happened: VecDeque<Happened>,
    /// The hardware of a model, to be made faulty.
    nic: Option<SharedNic>,
}

/// Event of a device, or of an SA by it.
struct Happened {
    at_ms: u64,
    sa: Option<SaId>,
    to: Option<Arc<str>>,
    why: String,
}

impl Attached {
    /// A device of the configuration; nothing, with a word in the log, if it cannot be made.
    pub fn new(name: &str, config: &DeviceConfig) -> Option<Attached> {
        let opened: Result<(Box<dyn Device<Bounce>>, _), String> = match config.kind {
            DeviceKind::NicModel => nic::NicDevice::new(name)
                .map(|device| {
                    let nic = device.nic();
                    (Box::new(device) as Box<dyn Device<Bounce>>, Some(nic))
                })
                .map_err(|error| error.to_string()),
            // Among those for packet offload.
            DeviceKind::PacketNicModel | DeviceKind::RtlSimulation => return None,
            DeviceKind::Cryptodev => cryptodevs::open(name, config)
                .map(|device| (device, None))
                .map_err(|error| error.to_string()),
        };
        let opened = opened.inspect_err(|error| {
            warn!(device = %name, %error, "no offload by this device");
        });
        let (device, nic) = opened.ok()?;
        let is_auto = config.placement == PlacementChoice::Auto;
        Some(Attached {
            name: name.into(),
            placer: is_auto.then(|| Placer::new(rules(config))),
            config: config.clone(),
            device,
            watch: Arc::default(),
            round_ms: 0,
            recovery: Recovery::default(),
            trouble: None,
            has_lanes: false,
            is_told_up: true,
            probing: None,
            probed: DeviceCounters::default(),
            proven_ms: None,
            happened: VecDeque::new(),
            nic,
        })
    }

    /// A lane for one engine.
    ///
    /// # Errors
    /// The device has no queue left.
    pub fn lane(&mut self) -> Result<Lane, PutError> {
        let capabilities = self.device.capabilities().clone();
        let queue = self.device.queue()?;
        self.has_lanes = true;
        Ok(Lane::new(queue, capabilities, Arc::clone(&self.watch)))
    }

    /// True if it is in use.
    pub fn is_up(&self) -> bool {
        self.recovery.is_up()
    }

    /// True if it is in use and has just given the known answer. If it does not, it is down from
    /// now on.
    pub fn is_ready(&mut self, now_ms: u64) -> bool {
        if !self.is_up() || self.watch.trouble().is_some() {
            return false;
        }
        if self.proven_ms.is_some_and(|at| now_ms.saturating_sub(at) < PROOF_MS) {
            return true;
        }
        match self.probe(now_ms) {
            Ok(()) => true,
            Err(error) => {
                self.fail(now_ms, &error.to_string());
                false
            }
        }
    }

    /// Why it is given nothing, while it is down.
    pub fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }

    /// Change of its state since the last call.
    pub fn news(&mut self) -> Option<Occurrence> {
        let is_up = self.is_up();
        let has_changed = std::mem::replace(&mut self.is_told_up, is_up) != is_up;
        let device = self.name.to_string();
        has_changed.then(|| match &self.trouble {
            None => Occurrence::DeviceUp { device },
            Some(why) => Occurrence::DeviceDown { device, why: why.clone() },
        })
    }

    /// Failure of a device that is in use.
    pub fn failure(&mut self) -> Option<String> {
        if !self.is_up() {
            return None;
        }
        let failure = || self.device.check().err().map(|failure| failure.to_string());
        self.watch.trouble().map(|trouble| trouble.to_string()).or_else(failure)
    }

    /// Takes it out of use for a while.
    pub fn fail(&mut self, now_ms: u64, why: &str) {
        self.watch.suspend();
        let pause_s = self.recovery.fail(now_ms) / 1000;
        warn!(device = %self.name, why, pause_s, "the device is given nothing, and tried again later");
        self.note(now_ms, None, None, format!("down for {pause_s} s: {why}"));
        self.trouble = Some(why.to_owned());
        self.proven_ms = None;
    }

    /// Resets and probes it if it is down and its pause is over; whether it is in use again.
    pub fn try_again(&mut self, now_ms: u64) -> bool {
        if !self.recovery.is_due(now_ms) {
            return false;
        }
        let result = match self.device.reset() {
            Ok(()) => self.probe(now_ms).map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        match result {
            Ok(()) => {
                self.recovery.succeed(now_ms);
                self.watch.resume();
                self.trouble = None;
                info!(device = %self.name, "reset, probed, and in use again");
                self.note(
                    now_ms,
                    None,
                    None,
                    "up again: reset, and the known answer is right".into(),
                );
            }
            Err(why) => self.fail(now_ms, &why),
        }
        self.is_up()
    }

    fn probe(&mut self, now_ms: u64) -> Result<(), ProbeError> {
        // Queues may be few, and are the engines' first: without one, their checks of first packets have to do.
        if self.probing.is_none() && self.has_lanes {
            self.probing = self.device.queue().ok();
        }
        if self.device.capabilities().placement == Placement::Crypto
            && let Some(queue) = &mut self.probing
        {
            let counted = probe(&mut *self.device, &mut **queue)?;
            self.probed.sealed += counted.sealed;
            self.probed.opened += counted.opened;
            self.probed.wrong_icv += counted.wrong_icv;
        }
        self.proven_ms = Some(now_ms);
        Ok(())
    }

    /// Remembers what has happened, and where an SA has gone by it.
    pub fn note(&mut self, now_ms: u64, sa: Option<SaId>, to: Option<Arc<str>>, why: String) {
        if self.happened.len() == MOST_HAPPENED {
            self.happened.pop_front();
        }
        self.happened.push_back(Happened { at_ms: now_ms, sa, to, why });
    }

    /// Has the hardware of a model be faulty.
    ///
    /// # Errors
    /// Why not, for people.
    pub fn set_fault(&mut self, fault: &str) -> Result<(), String> {
        let names = || nic::Fault::ALL.map(nic::Fault::name).join(", ");
        let nic = self.nic.as_ref().ok_or("a fault is for a nic-model only")?;
        let fault = match fault {
            "none" => None,
            name => Some(name.parse().map_err(|_| format!("the faults are {}, none", names()))?),
        };
        nic.with(|nic| nic.set_fault(fault));
        Ok(())
    }

    /// Row of `culvert device`.
    pub fn row(&self, now_ms: u64) -> report::Device {
        let counters = self.device.counters();
        let tables = self.device.tables().into_iter().map(table_row);
        let moves = self.happened.iter().map(|happened| report::DeviceMove {
            age_s: now_ms.saturating_sub(happened.at_ms) / 1000,
            spi: happened.sa.map(|sa| spi_text(sa.spi)),
            dst: happened.sa.map(|sa| sa.dst.to_string()),
            to: happened.to.as_deref().map(Into::into),
            why: happened.why.clone(),
        });
        report::Device {
            name: self.name.to_string(),
            kind: self.config.kind.name().into(),
            port: self.config.port.clone(),
            placement: self.device.capabilities().placement.name().into(),
            has: self.config.placement.name().into(),
            state: match &self.trouble {
                None => report::State::Up,
                Some(why) => report::State::Other(format!("down: {why}")),
            },
            tables: tables.collect(),
            sealed: counters.sealed.saturating_sub(self.probed.sealed),
            opened: counters.opened.saturating_sub(self.probed.opened),
            wrong_icv: counters.wrong_icv.saturating_sub(self.probed.wrong_icv),
            refused: counters.refused,
            in_software: self.watch.in_software(),
            compared: self.watch.compared(),
            resets: counters.resets,
            moves: moves.collect(),
        }
    }
}

/// One of a device's tables, as `culvert device` has it.
pub(super) fn table_row(table: TableUse) -> report::DeviceTable {
    let TableUse { name, used, most } = table;
    report::DeviceTable { name: name.into(), used, most }
}

/// How the busiest SAs are chosen.
fn rules(config: &DeviceConfig) -> Rules {
    Rules {
        stay_ms: STAY_INTERVALS * u64::from(config.interval_ms),
        margin_percent: 25,
        least_rate: match config.busy_by {
            BusyBy::Packets => 10,
            BusyBy::Bytes => 10_000,
        },
        most_moves: 64,
    }
}

/// Intervals for which an SA stays where it has moved.
const STAY_INTERVALS: u64 = 5;
/// For how long a known answer is believed.
const PROOF_MS: u64 = 1000;
/// Events of a device that are remembered, at most.
const MOST_HAPPENED: usize = 32;
