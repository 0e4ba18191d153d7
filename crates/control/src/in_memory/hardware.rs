//! Interfaces, ports and workers' engines, in memory: what a plan can be refused.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use config::{Config, MemifConfig, PortConfig, Sockets, TunnelConfig};
use crypto::{Engine, EngineError, Keys, Provider, Session, Suite};
use io::tun::Tap;
use io::{MemoryHandle, Port, TunConfig, TunError, XskTransfer};
use mirror::Change;
use steer::device::Device;
use steer::{Attached, Flow, Mode, Prefix, SteerError, StrippedTags};
use wire::VlanTags;

use super::link;
use super::world::Linux;
use crate::limits::Memory;
use crate::linux::edge::OwnInterfaces;
use crate::overlays::OverlayTraffic;
use crate::plan::machine::{Look, Machine};
use crate::plan::running::Running;
use crate::ports::opening::{Asked, Opener, OpeningKit};
use crate::ports::program::{Program, Values};
use crate::ports::rings::{queues_of, ready_frames};
use crate::ports::working::{Transfer, Working};

/// Receive queues of each interface that can be a port.
const QUEUES: u32 = 2;

/// First index of interfaces that culvert makes.
const FIRST: u32 = 20;

/// Frames by which rings are shared out.
const FRAMES: u32 = 16384;

/// The hardware. Clones are the same.
#[derive(Clone)]
pub struct Hardware {
    linux: Linux,
    state: Rc<RefCell<State>>,
    has_engines: Arc<AtomicBool>,
}

#[derive(Default)]
struct State {
    /// Interfaces that culvert has made, with their indices. They outlive their descriptors.
    made: BTreeMap<String, u32>,
    made_in_all: u32,
    /// Those that cannot be made.
    refused: BTreeSet<String>,
    /// Those that cannot be made, and ports that cannot be opened, with these settings.
    refused_tunnels: Vec<TunnelConfig>,
    refused_memifs: Vec<MemifConfig>,
    refused_ports: Vec<PortConfig>,
    /// Tables of the program of each open port.
    programs: BTreeMap<String, Taken>,
    has_threads: bool,
    /// Programs take no change of their tables.
    are_programs_refused: bool,
    /// They did not at some time: tables may lack what they should have.
    were_programs_refused: bool,
}

/// Tables of a steering program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// Destinations whose packets are taken.
    pub protected: BTreeSet<String>,
    /// Addresses of this host.
    pub local: BTreeSet<IpAddr>,
    /// Tags of the VLANs whose frames are taken.
    pub vlans: BTreeSet<String>,
    /// Translated connections, by direction.
    pub flows: BTreeSet<Flow>,
    /// True once it sees frames.
    pub is_attached: bool,
}

impl Hardware {
    /// All is well, and nothing is made.
    pub fn new(linux: &Linux) -> Hardware {
        let state = State { has_threads: true, ..State::default() };
        Hardware {
            linux: linux.clone(),
            state: Rc::new(RefCell::new(state)),
            has_engines: Arc::new(AtomicBool::new(true)),
        }
    }

    /// Has an interface refused from now on.
    pub fn refuse(&self, name: &str) {
        self.state.borrow_mut().refused.insert(name.to_owned());
    }

    /// Has a tunnel interface refused from now on, with these settings.
    pub fn refuse_tunnel(&self, config: &TunnelConfig) {
        self.state.borrow_mut().refused_tunnels.push(config.clone());
    }

    /// The same for a memif port.
    pub fn refuse_memif(&self, config: &MemifConfig) {
        self.state.borrow_mut().refused_memifs.push(config.clone());
    }

    /// The same for a port.
    pub fn refuse_port(&self, config: &PortConfig) {
        self.state.borrow_mut().refused_ports.push(config.clone());
    }

    /// Engines cannot be made from now on, or can.
    pub fn set_engines(&self, there: bool) {
        self.has_engines.store(there, Relaxed);
    }

    /// A thread that asks charon cannot be made from now on, or can.
    pub fn set_threads(&self, there: bool) {
        self.state.borrow_mut().has_threads = there;
    }

    /// True if such a thread can be made.
    pub fn has_threads(&self) -> bool {
        self.state.borrow().has_threads
    }

    /// Has changes of programs' tables refused from now on, or taken.
    pub fn refuse_programs(&self, are_refused: bool) {
        let mut state = self.state.borrow_mut();
        state.are_programs_refused = are_refused;
        state.were_programs_refused |= are_refused;
    }

    /// All is well again, but for what programs refuse.
    pub fn mend(&self) {
        let mut state = self.state.borrow_mut();
        state.refused.clear();
        state.refused_tunnels.clear();
        state.refused_memifs.clear();
        state.refused_ports.clear();
        state.has_threads = true;
        self.set_engines(true);
    }

    /// Names of the interfaces that culvert has made.
    pub fn made(&self) -> BTreeSet<String> {
        self.state.borrow().made.keys().cloned().collect()
    }

    /// Tables of the programs of open ports.
    pub fn taken(&self) -> BTreeMap<String, Taken> {
        self.state.borrow().programs.clone()
    }

    /// A provider whose engines can be refused.
    pub fn provider(&self, real: Arc<dyn Provider>) -> Arc<dyn Provider> {
        Arc::new(Refusing { real, has_engines: Arc::clone(&self.has_engines) })
    }

    fn make(&self, name: &str, is_refused: bool) -> Result<u32, TunError> {
        let mut state = self.state.borrow_mut();
        if is_refused || state.refused.contains(name) {
            let (name, call, hint) = (name.to_owned(), "TUNSETIFF", "a test does not let it");
            let source = std::io::Error::from_raw_os_error(libc::EBUSY);
            return Err(TunError { name, call, source, hint });
        }
        if let Some(index) = state.made.get(name) {
            return Ok(*index);
        }
        let index = FIRST + state.made_in_all;
        state.made_in_all += 1;
        state.made.insert(name.to_owned(), index);
        self.linux.put(Change::Link(link(index, name, true)));
        Ok(index)
    }

    fn remove(&self, name: &str) {
        if let Some(index) = self.state.borrow_mut().made.remove(name) {
            self.linux.remove(|change| matches!(change, Change::Link(l) if l.index == index));
        }
    }
}

impl OwnInterfaces for Hardware {
    fn open_tunnel(&mut self, config: &TunnelConfig) -> Result<(u32, Box<dyn Port>), TunError> {
        let is_refused = self.state.borrow().refused_tunnels.contains(config);
        let index = self.make(&config.interface, is_refused)?;
        Ok((index, MemoryHandle::new(&config.interface, 8).port()))
    }

    fn remove_tunnel(&mut self, name: &str) -> Result<(), TunError> {
        self.remove(name);
        Ok(())
    }

    fn open_tap(&mut self, config: &MemifConfig) -> Result<Tap, TunError> {
        let is_refused = self.state.borrow().refused_memifs.contains(config);
        let index = self.make(&config.interface, is_refused)?;
        let fd = UnixDatagram::unbound().map(OwnedFd::from).unwrap();
        Ok(Tap::over(&config.interface, index, fd))
    }

    fn remove_tap(&mut self, name: &str) -> Result<(), TunError> {
        self.remove(name);
        Ok(())
    }

    fn add_private_queue(&mut self, config: &TunConfig, _: u32) -> Result<Box<dyn Port>, TunError> {
        Ok(MemoryHandle::new(&config.name, 8).port())
    }
}

impl Look for Hardware {
    fn look(&self, _: &Running, wanted: &Config) -> Machine {
        let device = |name: &str, driver: &str, queues| Device {
            name: name.into(),
            ifindex: 0,
            driver: driver.into(),
            mtu: 1500,
            rx_queues: queues,
            tx_queues: queues,
            tx_vlan_offload: false,
            rx_vlan_offload: false,
            tells_vlan_tags: false,
        };
        let made = self.state.borrow().made.clone();
        let ports = wanted.ports.iter().map(|port| port.interface.as_str());
        let ports = ports.map(|name| (name.to_owned(), device(name, "veth", QUEUES)));
        let own = made.keys().map(|name| (name.clone(), device(name, "tun", 1)));
        Machine {
            cores: (0..4).collect(),
            devices: ports.chain(own).collect(),
            memory: Memory { available: Some(64 << 30), ..Memory::default() },
            ..Machine::default()
        }
    }
}

impl Opener for Hardware {
    fn queues(&self, config: &PortConfig) -> u32 {
        queues_of(config, Some(QUEUES))
    }

    fn open(&mut self, asked: &Asked<'_>, kit: &OpeningKit<'_>) -> Result<Working, String> {
        let name = asked.config.interface.as_str();
        if self.state.borrow().refused_ports.contains(asked.config) {
            return Err(format!("{name}: a test does not let it"));
        }
        let kind = match asked.config.kind {
            Sockets::Packet => (Transfer::Packet, None),
            Sockets::Auto | Sockets::Xdp => {
                let ready = ready_frames(FRAMES, kit.queues_in_all);
                (Transfer::Xdp(XskTransfer::Copy), ready)
            }
        };
        let mut counters = Vec::new();
        for queue in 0..self.queues(asked.config) {
            let port = MemoryHandle::new(name, 8).port();
            counters.push(port.counters());
            kit.workers.add_port(asked.slot, queue, asked.ifindex, port);
        }
        let old = self.state.borrow_mut().programs.insert(name.to_owned(), Taken::default());
        assert_eq!(old, None, "{name} has two programs");
        // Tables of a program that is not attached yet are made with it.
        let are_refused = std::mem::take(&mut self.state.borrow_mut().are_programs_refused);
        let mut program = Tables { name: name.to_owned(), state: Rc::clone(&self.state) };
        kit.steering.apply(&mut program)?;
        self.refuse_programs(are_refused);
        Ok(Working::new(asked.ifindex, Box::new(program), kind, counters))
    }
}

/// The tables of a program, which go with it.
struct Tables {
    name: String,
    state: Rc<RefCell<State>>,
}

impl Tables {
    fn change(&mut self, change: impl FnOnce(&mut Taken)) -> Result<(), SteerError> {
        if self.state.borrow().are_programs_refused {
            let (interface, table) = (self.name.clone(), "of a test");
            return Err(SteerError::Table { interface, table, reason: "it is refused".into() });
        }
        change(self.state.borrow_mut().programs.entry(self.name.clone()).or_default());
        Ok(())
    }
}

impl Drop for Tables {
    fn drop(&mut self) {
        self.state.borrow_mut().programs.remove(&self.name);
    }
}

fn text(prefix: Prefix) -> String {
    format!("{prefix:?}")
}

impl Program for Tables {
    fn interface(&self) -> &str {
        &self.name
    }

    fn stripped_tags(&self) -> &StrippedTags {
        &StrippedTags::None
    }

    fn passed(&self) -> u64 {
        0
    }

    fn attach(&mut self, _: Mode) -> Result<Attached, SteerError> {
        let mut state = self.state.borrow_mut();
        state.programs.entry(self.name.clone()).or_default().is_attached = true;
        Ok(Attached::Native)
    }

    fn set_watchdog(&mut self, _: bool) -> Result<(), SteerError> {
        Ok(())
    }

    fn beat(&mut self, _: u64) -> Result<(), SteerError> {
        Ok(())
    }

    fn set_vlans(&mut self, tags: Values<'_, VlanTags>) -> Result<(), SteerError> {
        self.change(|taken| taken.vlans = tags.map(|tags| tags.to_string()).collect())
    }

    fn set_local(&mut self, addresses: Values<'_, IpAddr>) -> Result<(), SteerError> {
        self.change(|taken| taken.local = addresses.collect())
    }

    fn set_protected(&mut self, prefixes: Values<'_, Prefix>) -> Result<(), SteerError> {
        self.change(|taken| taken.protected = prefixes.map(text).collect())
    }

    fn add_protected(&mut self, prefix: Prefix) -> Result<(), SteerError> {
        let is_exact = !self.state.borrow().were_programs_refused;
        self.change(|taken| {
            let is_new = taken.protected.insert(text(prefix));
            assert!(is_new || !is_exact, "{prefix:?} twice");
        })
    }

    fn remove_protected(&mut self, prefix: Prefix) -> Result<(), SteerError> {
        let is_exact = !self.state.borrow().were_programs_refused;
        self.change(|taken| {
            let was_there = taken.protected.remove(&text(prefix));
            assert!(was_there || !is_exact, "no {prefix:?}");
        })
    }

    fn set_sas(&mut self, _: Values<'_, (IpAddr, u32)>) -> Result<(), SteerError> {
        Ok(())
    }

    fn add_sa(&mut self, _: IpAddr, _: u32) -> Result<(), SteerError> {
        Ok(())
    }

    fn remove_sa(&mut self, _: IpAddr, _: u32) -> Result<(), SteerError> {
        Ok(())
    }

    fn sample_sa(&mut self, _: IpAddr, _: u32) -> Result<(), SteerError> {
        Ok(())
    }

    fn set_take_unknown_esp(&mut self, _: bool) -> Result<(), SteerError> {
        Ok(())
    }

    fn set_take_udp_fragments(&mut self, _: bool) -> Result<(), SteerError> {
        Ok(())
    }

    fn set_take_segment_errors(&mut self, _: bool) -> Result<(), SteerError> {
        Ok(())
    }

    fn set_take_overlays(&mut self, _: &OverlayTraffic) -> Result<(), SteerError> {
        Ok(())
    }

    fn set_flow(&mut self, flow: &Flow, is_taken: bool) -> Result<(), SteerError> {
        // What is refused stays with Linux, and is not told again.
        let mut state = self.state.borrow_mut();
        let flows = &mut state.programs.entry(self.name.clone()).or_default().flows;
        match is_taken {
            true => flows.insert(*flow),
            false => flows.remove(flow),
        };
        Ok(())
    }
}

/// A provider, as long as there are engines.
struct Refusing {
    real: Arc<dyn Provider>,
    has_engines: Arc<AtomicBool>,
}

impl Provider for Refusing {
    fn name(&self) -> &'static str {
        self.real.name()
    }

    fn description(&self) -> String {
        self.real.description()
    }

    fn supports(&self, suite: Suite) -> bool {
        self.real.supports(suite)
    }

    fn session(&self, suite: Suite, keys: &Keys) -> Result<Session, EngineError> {
        self.real.session(suite, keys)
    }

    fn engine(&self) -> Result<Box<dyn Engine>, EngineError> {
        match self.has_engines.load(Relaxed) {
            true => self.real.engine(),
            false => Err(EngineError::Unavailable {
                engine: self.name(),
                what: "a test does not let it".into(),
            }),
        }
    }
}
