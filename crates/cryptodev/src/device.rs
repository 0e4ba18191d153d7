//! The device: what the control thread has.

use core::fmt;
use core::net::IpAddr;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::{Duration, Instant};

use crypto::{Keys, Op, Suite};
use offload::{
    Attribute, BURST_LEN, Buffer, Capabilities, Device, DeviceCounters, Event, Failure,
    HandleError, Invalid, Live, NewSa, PutError, Queue, SaDirection, SaHandle, TableUse,
};

use crate::algorithm::transform;
use crate::error::OpenError;
use crate::proof;
use crate::queue::CryptoQueue;
use crate::sa::Entry;
use crate::settings::Settings;
use crate::shared::{DEPTH, MOST_PACKET_LEN, Shared};
use crate::sys::Adapter;

/// A crypto device of DPDK's as an [`offload::Device`].
pub struct CryptoDevice {
    name: String,
    shared: Arc<Shared>,
    capabilities: Capabilities,
    sas: HashMap<SaHandle, Kept>,
    last_handle: SaHandle,
    /// Suites that the driver names and does otherwise.
    unproven: Vec<Suite>,
    broken: Option<Failure>,
}

/// Parameters of an SA, with which the device is loaded again after a reset.
struct Kept {
    suite: Suite,
    op: Op,
    keys: Keys,
    /// Destination and SPI.
    at: (IpAddr, u32),
    start: Live,
}

impl CryptoDevice {
    /// Opens a device that DPDK was started with ([`start`](crate::start)), and tries each suite.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open(name: &str, settings: &Settings) -> Result<CryptoDevice, OpenError> {
        let in_dpdk = settings.device(name);
        let adapter = Adapter::find(&in_dpdk, settings.address.is_some())
            .ok_or(OpenError::NotThere(in_dpdk))?;
        let pairs = adapter.most_pairs().min(MOST_PAIRS) as u16;
        // Two sessions of an SA of a combined mode.
        let sessions = adapter.most_sessions().unwrap_or(u32::MAX).min(MOST_SESSIONS);
        let most_sas = (sessions.saturating_sub(SPARE_SESSIONS) / 4) as usize;
        // A scheduler has another session for its workers.
        let memory = if adapter.driver() == SCHEDULER { 2 * sessions } else { sessions };
        adapter.bring_up(pairs, DEPTH as u32, memory).map_err(OpenError::Configuration)?;
        let named: Vec<Suite> = Suite::all().filter(|suite| does(&adapter, *suite)).collect();
        let shared = Arc::new(Shared::new(Arc::new(adapter), pairs, 2 * most_sas));
        let (suites, unproven): (Vec<Suite>, Vec<Suite>) =
            named.into_iter().partition(|suite| proof::holds(&shared, *suite));
        shared.counters.clear();
        if suites.is_empty() {
            return Err(OpenError::NoSuite(shared.adapter.driver().to_owned()));
        }
        Ok(CryptoDevice {
            name: name.to_owned(),
            shared,
            capabilities: capabilities(suites, most_sas),
            sas: HashMap::new(),
            last_handle: SaHandle(0),
            unproven,
            broken: None,
        })
    }

    /// The driver's name.
    pub fn driver(&self) -> &str {
        self.shared.adapter.driver()
    }

    /// Suites that the driver names, and whose known answers it does not give.
    pub fn unproven(&self) -> &[Suite] {
        &self.unproven
    }

    fn used(&self, op: Op) -> usize {
        self.sas.values().filter(|sa| sa.op == op).count()
    }
}

/// A driver is given the ESP packet alone, so what stands in front of it does not matter.
fn capabilities(suites: Vec<Suite>, most_sas: usize) -> Capabilities {
    Capabilities {
        has_esn: true,
        has_udp_encap: true,
        has_options: true,
        // DPDK promises none.
        is_ordered: false,
        most_sas,
        most_addresses: most_sas,
        most_packet_len: MOST_PACKET_LEN,
        ..Capabilities::crypto(suites)
    }
}

/// True if the driver names all that a suite needs, with a key of the RFC's length, with ESN and
/// without.
fn does(adapter: &Adapter, suite: Suite) -> bool {
    transform(suite, suite.auth_key_len_bytes()).is_some_and(|of| {
        let is_chain = of.kind == crate::sys::KIND_CHAIN;
        let lens: &[u8] = if of.aad_len > 0 { &crate::algorithm::AAD_LENS } else { &[0] };
        let named = |len: &u8| adapter.does(&crate::sys::Transform { aad_len: *len, ..of });
        (adapter.has_chains() || !is_chain) && lens.iter().all(named)
    })
}

impl<B: Buffer> Device<B> for CryptoDevice {
    fn name(&self) -> &str {
        &self.name
    }

    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn put_sa(&mut self, sa: NewSa<'_>) -> Result<SaHandle, PutError> {
        let params = &sa.config.params;
        self.capabilities.check_sa(sa.config).map_err(PutError::Unsupported)?;
        if !sa.keys.fit(params.suite) {
            return Err(Invalid::Keys.into());
        }
        let (op, what) = match sa.direction {
            SaDirection::Outbound => (Op::Seal, "outbound SAs"),
            SaDirection::Inbound => (Op::Open, "inbound SAs"),
        };
        let at = (params.dst, params.spi);
        if op == Op::Open && self.sas.values().any(|kept| kept.op == op && kept.at == at) {
            return Err(Invalid::Exists.into());
        }
        let most = self.capabilities.most_sas;
        let full = PutError::Full { what, most };
        if self.used(op) >= most {
            return Err(full);
        }
        let handle = self.shared.table.next_handle(self.last_handle).ok_or(full)?;
        let adapter = &self.shared.adapter;
        let auth_key_len = sa.keys.auth.len();
        let refused = match auth_key_len == params.suite.auth_key_len_bytes() {
            true => Failure::Broken("its driver has no session left").into(),
            // The suite was tried with a key of the RFC's length alone.
            false => PutError::Unsupported(Attribute::AuthKey(auth_key_len)),
        };
        let entry = Entry::new(adapter, handle, params.suite, op, sa.keys).ok_or(refused)?;
        self.shared.table.put(entry);
        self.last_handle = handle;
        let (suite, keys, start) = (params.suite, sa.keys.clone(), sa.start.clone());
        self.sas.insert(handle, Kept { suite, op, keys, at, start });
        Ok(handle)
    }

    /// Waits for packets inside, some milliseconds at most; those that come back later come back dropped.
    fn remove_sa(&mut self, sa: SaHandle) -> Result<Live, HandleError> {
        let kept = self.sas.remove(&sa).ok_or(HandleError::Unknown)?;
        if let Some(entry) = self.shared.table.take(sa) {
            let until = Instant::now() + REMOVAL;
            while !(Arc::strong_count(&entry) == 1 && entry.is_idle()) && Instant::now() < until {
                thread::sleep(Duration::from_micros(50));
            }
        }
        Ok(kept.start)
    }

    fn live(&mut self, sa: SaHandle) -> Result<Live, HandleError> {
        self.sas.get(&sa).map(|kept| kept.start.clone()).ok_or(HandleError::Unknown)
    }

    fn queue(&mut self) -> Result<Box<dyn Queue<B>>, PutError> {
        let most = self.shared.pairs();
        if self.shared.pairs_taken() == most {
            return Err(PutError::Full { what: "queue pairs", most });
        }
        match CryptoQueue::new(&self.shared) {
            Some(queue) => Ok(Box::new(queue)),
            None => Err(Failure::Broken("no memory of DPDK's for a queue").into()),
        }
    }

    fn event(&mut self) -> Option<Event> {
        None
    }

    fn check(&mut self) -> Result<(), Failure> {
        self.broken.map_or(Ok(()), Err)
    }

    fn tables(&self) -> Vec<TableUse> {
        let most = self.capabilities.most_sas;
        let pairs = &self.shared;
        vec![
            TableUse { name: "outbound SAs", used: self.used(Op::Seal), most },
            TableUse { name: "inbound SAs", used: self.used(Op::Open), most },
            TableUse { name: "queue pairs", used: pairs.pairs_taken(), most: pairs.pairs() },
        ]
    }

    fn counters(&self) -> DeviceCounters {
        self.shared.counters.told()
    }

    /// 1. Keeps queues out, which then take nothing. 2. Waits for what is inside. 3. Stops, configures and starts the
    ///    device. 4. Puts the SAs in again. 5. Lets queues in, which give back what they had as dropped.
    fn reset(&mut self) -> Result<(), Failure> {
        let shared = &self.shared;
        // 1.
        let mut states: Vec<_> = (0..shared.pairs()).filter_map(|n| shared.lock(n)).collect();
        // 2.
        let until = Instant::now() + REMOVAL;
        for pair in states.iter_mut().filter_map(|state| state.pair.as_mut()) {
            while pair.outside() > 0 && Instant::now() < until {
                pair.poll(BURST_LEN, |_| ());
            }
        }
        // 3.
        let pairs = shared.pairs() as u16;
        let started = shared.adapter.bring_up(pairs, DEPTH as u32, 0);
        let mut result = started.map_err(|_| Failure::Broken("it does not start after a reset"));
        for (number, state) in states.iter_mut().enumerate() {
            if result.is_err() {
                state.pair = None;
            } else if state.pair.as_ref().is_some_and(|pair| pair.outside() > 0) {
                // Packets that it did not give back it keeps, with their memory.
                state.pair = shared.new_pair(number);
            }
            state.resets += 1;
        }
        // 4.
        for (handle, kept) in &self.sas {
            drop(shared.table.take(*handle));
            let Kept { suite, op, keys, .. } = kept;
            let entry = result.and_then(|()| {
                Entry::new(&shared.adapter, *handle, *suite, *op, keys)
                    .ok_or(Failure::Broken("it does not take its SAs again"))
            });
            result = entry.map(|entry| shared.table.put(entry));
        }
        shared.counters.resets.fetch_add(1, Relaxed);
        self.broken = result.err();
        // 5.
        drop(states);
        result
    }
}

impl fmt::Debug for CryptoDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CryptoDevice({}, {})", self.name, self.driver())
    }
}

/// Queue pairs at most: one is for each worker and each crypto thread.
const MOST_PAIRS: u32 = 64;

/// Sessions: for 1024 SAs of each direction, and for those that packets inside still have after a reset.
const MOST_SESSIONS: u32 = 4 * 1024 + SPARE_SESSIONS;
const SPARE_SESSIONS: u32 = 1024;

/// The driver that makes several devices one.
const SCHEDULER: &str = "crypto_scheduler";

/// How long control waits for packets inside.
const REMOVAL: Duration = Duration::from_millis(10);
