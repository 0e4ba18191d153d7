//! The driver: the NIC as an [`offload::Device`] for packet offload.

use core::fmt;

use crypto::{AesKey, IcvLen, Provider, Suite};
use engine_openssl::OpensslProvider;
use esp::{IvSource, LiveNumbers, Sa};
use offload::{
    Buffer, Capabilities, Device, DeviceCounters, Event, Failure, HandleError, Invalid, Live,
    NewPolicy, NewSa, Placement, PolicyHandle, PutError, Queue, SaDirection, SaHandle, TableUse,
};
use policy::{Direction, Selector};

use crate::packet_offload::hardware::{Hardware, Rule, SharedHardware};
use crate::packet_offload::queue::PacketQueue;
use crate::packet_offload::sas::Placed;

/// How large the tables are.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// SAs of each direction.
    pub sas: usize,
    /// Policies of each direction.
    pub policies: usize,
}

impl Default for Sizes {
    fn default() -> Sizes {
        Sizes { sas: 1 << 16, policies: 1 << 17 }
    }
}

/// Why there is no NIC.
#[derive(Debug, thiserror::Error)]
pub enum PacketNicError {
    /// OpenSSL has no AES-GCM.
    #[error("the model's cipher: {0}")]
    Engine(#[from] crypto::EngineError),
    /// No random numbers.
    #[error("no random numbers from the kernel: {0}")]
    Random(std::io::Error),
}

/// The NIC as a device.
pub struct PacketNic {
    name: String,
    provider: OpensslProvider,
    capabilities: Capabilities,
    hardware: SharedHardware,
    /// SAs and policies have handles of one sequence.
    last_handle: u32,
    /// By direction: in, out.
    policies: [usize; 2],
}

impl PacketNic {
    /// A NIC with empty tables.
    ///
    /// # Errors
    /// OpenSSL has no AES-GCM, or there are no random numbers.
    pub fn new(name: &str, sizes: Sizes) -> Result<PacketNic, PacketNicError> {
        let provider = OpensslProvider::new()?;
        let ivs = IvSource::new()
            .map_err(|error| PacketNicError::Random(std::io::Error::other(error)))?;
        let hardware = Hardware::new(provider.engine()?, ivs, MOST_PACKET_LEN);
        Ok(PacketNic {
            name: name.to_owned(),
            provider,
            capabilities: capabilities(sizes),
            hardware: SharedHardware::new(hardware),
            last_handle: 0,
            policies: [0; 2],
        })
    }

    /// Cord of the NIC, for a test that pulls it out.
    pub fn cord(&self) -> Cord {
        Cord(self.hardware.clone())
    }

    fn handle(&mut self) -> u32 {
        self.last_handle += 1;
        self.last_handle
    }

    fn is_there(&self) -> Result<(), Failure> {
        match self.hardware.lock().is_gone() {
            true => Err(Failure::Gone),
            false => Ok(()),
        }
    }
}

/// Cord of a NIC: a handle that can unplug it.
pub struct Cord(SharedHardware);

impl Cord {
    /// The NIC is gone.
    pub fn pull(&self) {
        self.0.lock().unplug();
    }
}

/// Capabilities of the hardware.
fn capabilities(sizes: Sizes) -> Capabilities {
    let gcm = |key| Suite::AesGcm { key, icv: IcvLen::Icv16 };
    Capabilities {
        placement: Placement::Packet,
        suites: vec![gcm(AesKey::Aes128), gcm(AesKey::Aes256)],
        has_tunnel: true,
        has_transport: true,
        has_ah: false,
        has_mixed_families: false,
        has_esn: true,
        has_udp_encap: false,
        has_tfc: false,
        has_flags: false,
        has_scopes: false,
        has_sa_selectors: true,
        replay_windows: 32..=256,
        most_volume: u64::MAX,
        most_reqid: u32::MAX,
        most_priority: u32::MAX,
        most_sas: sizes.sas,
        most_addresses: usize::MAX,
        most_policies: sizes.policies,
        is_ordered: true,
        most_packet_len: MOST_PACKET_LEN,
        has_options: true,
        has_fragments: false,
    }
}

/// A jumbo frame.
const MOST_PACKET_LEN: usize = 9216;

impl<B: Buffer> Device<B> for PacketNic {
    fn name(&self) -> &str {
        &self.name
    }

    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn put_sa(&mut self, new: NewSa<'_>) -> Result<SaHandle, PutError> {
        self.is_there()?;
        let NewSa { direction, config, keys, start } = new;
        self.capabilities.check_sa(config).map_err(PutError::Unsupported)?;
        let params = config.params.clone();
        let session = self.provider.session(params.suite, keys).map_err(|_| Invalid::Keys)?;
        {
            let hardware = self.hardware.lock();
            let is_inbound = direction == SaDirection::Inbound;
            if is_inbound && hardware.sas.inbound(params.dst, params.spi).is_some() {
                return Err(Invalid::Exists.into());
            }
            let most = self.capabilities.most_sas;
            if hardware.sas.count(direction) >= most {
                return Err(PutError::Full { what: "SAs", most });
            }
        }
        let live = LiveNumbers::on_heap(params.replay_window);
        let sa = Sa::new(params, session, live)
            .map_err(|_| Failure::Broken("an SA that was checked is refused"))?;
        let placed = Placed::new(direction, config.clone(), sa);
        placed.start(start);
        let handle = SaHandle(self.handle());
        self.hardware.lock().sas.insert(handle, placed);
        Ok(handle)
    }

    fn remove_sa(&mut self, sa: SaHandle) -> Result<Live, HandleError> {
        self.is_there()?;
        let mut hardware = self.hardware.lock();
        let placed = hardware.sas.get(sa).ok_or(HandleError::Unknown)?;
        if let Some(user) = placed.users.first() {
            return Err(HandleError::InUse(*user));
        }
        hardware.sas.remove(sa).map(|placed| placed.live()).ok_or(HandleError::Unknown)
    }

    fn live(&mut self, sa: SaHandle) -> Result<Live, HandleError> {
        self.is_there()?;
        self.hardware.lock().sas.get(sa).map(Placed::live).ok_or(HandleError::Unknown)
    }

    fn put_policy(&mut self, new: NewPolicy<'_>) -> Result<PolicyHandle, PutError> {
        self.is_there()?;
        let NewPolicy { config, sa } = new;
        self.capabilities.check_policy(config).map_err(PutError::Unsupported)?;
        if !is_selector(&config.selector) {
            return Err(Invalid::Selector.into());
        }
        let handle = PolicyHandle(self.handle());
        let mut hardware = self.hardware.lock();
        let needs_sa = config.direction == Direction::Out && !config.templates.is_empty();
        let is_outbound = |placed: &Placed| placed.direction == SaDirection::Outbound;
        let has_sa = sa.and_then(|sa| hardware.sas.get(sa)).is_some_and(is_outbound);
        if needs_sa != has_sa || sa.is_some() != has_sa {
            return Err(Invalid::PolicySa.into());
        }
        if hardware.policies.has(config) {
            return Err(Invalid::Exists.into());
        }
        let count = self.policies.get_mut(side(config.direction));
        let most = self.capabilities.most_policies;
        match count {
            Some(count) if *count < most => *count += 1,
            _ => return Err(PutError::Full { what: "policies", most }),
        }
        if let Some(placed) = sa.and_then(|sa| hardware.sas.get_mut(sa)) {
            placed.users.insert(handle);
        }
        hardware.policies.add(handle, config);
        hardware.rules.insert(handle, Rule { config: config.clone(), sa });
        Ok(handle)
    }

    fn switch_policy(&mut self, policy: PolicyHandle, sa: SaHandle) -> Result<(), HandleError> {
        self.is_there()?;
        let mut hardware = self.hardware.lock();
        let old = hardware.rules.get(&policy).ok_or(HandleError::Unknown)?.sa;
        let old = old.ok_or(HandleError::Unknown)?;
        match hardware.sas.get_mut(sa) {
            Some(placed) if placed.direction == SaDirection::Outbound => {
                placed.users.insert(policy);
            }
            _ => return Err(HandleError::Unknown),
        }
        if old != sa
            && let Some(placed) = hardware.sas.get_mut(old)
        {
            placed.users.remove(&policy);
        }
        if let Some(rule) = hardware.rules.get_mut(&policy) {
            rule.sa = Some(sa);
        }
        Ok(())
    }

    fn remove_policy(&mut self, policy: PolicyHandle) -> Result<(), HandleError> {
        self.is_there()?;
        let mut hardware = self.hardware.lock();
        let Rule { config, sa } = hardware.rules.remove(&policy).ok_or(HandleError::Unknown)?;
        hardware.policies.remove(policy, &config);
        if let Some(placed) = sa.and_then(|sa| hardware.sas.get_mut(sa)) {
            placed.users.remove(&policy);
        }
        if let Some(count) = self.policies.get_mut(side(config.direction)) {
            *count -= 1;
        }
        Ok(())
    }

    fn queue(&mut self) -> Result<Box<dyn Queue<B>>, PutError> {
        self.is_there()?;
        Ok(Box::new(PacketQueue::new(self.hardware.clone())))
    }

    fn event(&mut self) -> Option<Event> {
        self.hardware.lock().events.pop_front()
    }

    fn check(&mut self) -> Result<(), Failure> {
        self.is_there()
    }

    fn tables(&self) -> Vec<TableUse> {
        let sas = |direction| self.hardware.lock().sas.count(direction);
        let (most_sas, most) = (self.capabilities.most_sas, self.capabilities.most_policies);
        let [inward, outward] = self.policies;
        vec![
            TableUse { name: "SAs out", used: sas(SaDirection::Outbound), most: most_sas },
            TableUse { name: "SAs in", used: sas(SaDirection::Inbound), most: most_sas },
            TableUse { name: "policies out", used: outward, most },
            TableUse { name: "policies in", used: inward, most },
        ]
    }

    fn counters(&self) -> DeviceCounters {
        self.hardware.lock().counters
    }
}

/// The place of a direction among the counts.
fn side(direction: Direction) -> usize {
    usize::from(direction == Direction::Out)
}

/// True if both prefixes are of one family, and neither is longer than an address.
fn is_selector(s: &Selector) -> bool {
    let most = if s.src.addr.is_ipv4() { 32 } else { 128 };
    s.src.addr.is_ipv4() == s.dst.addr.is_ipv4() && s.src.len <= most && s.dst.len <= most
}

impl fmt::Debug for PacketNic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PacketNic({}, {:?} policies in and out)", self.name, self.policies)
    }
}
