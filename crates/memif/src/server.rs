//! The server's side of the handshake: what a client may ask for, and what comes of it.
//!
//! ```text
//!   server                       client
//!     hello         ----------->
//!     ack           <-----------> init
//!     ack           <-----------> add region   for each region
//!     ack           <-----------> add ring     for each ring, of both directions
//!     connected     <-----------> connect
//! ```

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;

use crate::bell::Bell;
use crate::fault::{Broken, Faults};
use crate::message::{AddRing, Hello, Init, Message, Mode, Name, Secret, TO_SERVER, VERSION};
use crate::queue::Queue;
use crate::receive::Receiver;
use crate::region::{Region, RegionError, Trust};
use crate::ring::Ring;
use crate::transmit::Transmitter;
use crate::{MAX_LOG2_RING_SIZE, MAX_REGIONS};

/// Settings of a server.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// The interface's number at its socket.
    pub id: u32,
    /// The interface's name, for the client's messages.
    pub name: Name,
    /// Secret that a client must know. `None`: any client is let in.
    pub secret: Option<Secret>,
    /// The most pairs of rings.
    pub queues: u16,
    /// The longest ring, as a power of two.
    pub log2_ring_size: u8,
    /// Demand on a client's memory.
    pub trust: Trust,
    /// The most bytes that a client's regions may have in all. A hole in one becomes memory when it is touched, and the
    /// one who touches it is charged for it: this process.
    pub most_bytes: u64,
}

/// Why a client is turned away.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// The message has no place here.
    #[error("unexpected message: {0}")]
    Unexpected(&'static str),
    /// The client speaks another version.
    #[error("version {0:#x}; 0x200 is spoken here")]
    Version(u16),
    /// The client asks for an interface that is not there.
    #[error("no interface with id {0} here")]
    Id(u32),
    /// The client's packets are not Ethernet frames.
    #[error("mode {0:?}; ethernet is spoken here")]
    Mode(Mode),
    /// The secret is wrong.
    #[error("wrong secret")]
    Secret,
    /// No descriptor came with a message that needs one.
    #[error("no descriptor came along")]
    NoDescriptor,
    /// A region cannot be used.
    #[error("region {index}: {error}")]
    Region {
        /// Number of the region.
        index: u16,
        /// Reason that it cannot be used.
        error: RegionError,
    },
    /// With this region there would be too much memory.
    #[error("region {index}: {sum} bytes in all; {most} at most (memory_mib)")]
    Memory {
        /// The region's number.
        index: u16,
        /// Bytes of all regions, this one included.
        sum: u64,
        /// Bytes that are taken.
        most: u64,
    },
    /// A region's number is not the next one, or too high.
    #[error("region {0} out of turn")]
    RegionIndex(u16),
    /// A ring's number is too high, or comes twice.
    #[error("ring {0} out of turn")]
    RingIndex(u16),
    /// A ring is not inside its region, too long, or not aligned.
    #[error("ring {0} does not lie in its region")]
    RingPlace(u16),
    /// Packets are to have private headers.
    #[error("ring {0} wants private headers")]
    PrivateHeader(u16),
    /// A ring's memory does not begin as one.
    #[error("ring {0} has no cookie")]
    Cookie(u16),
    /// The descriptor of a ring is no eventfd.
    #[error("ring {0} came with something that is not an eventfd")]
    NotEventfd(u16),
    /// Nothing is left to wake the client with.
    #[error("no thread to wake the client: {0}")]
    Bell(std::io::Error),
    /// There are not as many rings to the client as from it, or none.
    #[error("{to_server} rings to the server and {to_client} back; as many of both, one at least")]
    Rings {
        /// Rings from client to server.
        to_server: usize,
        /// Rings from server to client.
        to_client: usize,
    },
}

/// A ring with its eventfd.
struct Offer {
    ring: Ring,
    interrupt: OwnedFd,
}

/// How far a client has come.
pub(crate) struct ServerSession {
    config: ServerConfig,
    faults: Arc<Faults>,
    broken: Broken,
    has_begun: bool,
    is_connected: bool,
    /// The client's program.
    peer: Name,
    regions: Vec<Arc<Region>>,
    to_server: Vec<Option<Offer>>,
    to_client: Vec<Option<Offer>>,
}

impl ServerSession {
    pub(crate) fn new(config: &ServerConfig, faults: &Arc<Faults>, broken: &Broken) -> Self {
        Self {
            config: config.clone(),
            faults: Arc::clone(faults),
            broken: broken.clone(),
            has_begun: false,
            is_connected: false,
            peer: Name::new(""),
            regions: Vec::new(),
            to_server: Vec::new(),
            to_client: Vec::new(),
        }
    }

    /// The first message.
    pub(crate) fn hello(&self) -> Message {
        let last = self.config.queues.saturating_sub(1);
        Message::Hello(Hello {
            name: Name::new(concat!("culvert ", env!("CARGO_PKG_VERSION"))),
            min_version: VERSION,
            max_version: VERSION,
            max_region: MAX_REGIONS - 1,
            max_to_client: last,
            max_to_server: last,
            max_log2_ring_size: self.config.log2_ring_size.min(MAX_LOG2_RING_SIZE),
        })
    }

    pub(crate) fn peer(&self) -> Name {
        self.peer
    }

    /// Takes a message; returns the answer, and the queues once there are some.
    pub(crate) fn take(
        &mut self,
        message: Message,
        fd: Option<OwnedFd>,
    ) -> Result<(Message, Option<Vec<Queue>>), Refusal> {
        match message {
            Message::Init(init) if !self.has_begun => self.init(&init)?,
            _ if !self.has_begun => return Err(Refusal::Unexpected("init is the first")),
            _ if self.is_connected => return Err(Refusal::Unexpected("the connection stands")),
            Message::AddRegion { index, size } => {
                self.add_region(index, size, &fd.ok_or(Refusal::NoDescriptor)?)?;
            }
            Message::AddRing(ring) => self.add_ring(&ring, fd.ok_or(Refusal::NoDescriptor)?)?,
            Message::Connect { .. } => {
                let queues = self.connect()?;
                return Ok((Message::Connected { name: self.config.name }, Some(queues)));
            }
            _ => return Err(Refusal::Unexpected("it is the server's, or init came twice")),
        }
        Ok((Message::Ack, None))
    }

    fn init(&mut self, init: &Init) -> Result<(), Refusal> {
        if init.version != VERSION {
            return Err(Refusal::Version(init.version));
        }
        // The secret before all else: without it nobody is told what there is.
        if self.config.secret.is_some_and(|secret| !secret.is_same(&init.secret)) {
            return Err(Refusal::Secret);
        }
        if init.id != self.config.id {
            return Err(Refusal::Id(init.id));
        }
        if init.mode != Mode::Ethernet {
            return Err(Refusal::Mode(init.mode));
        }
        (self.has_begun, self.peer) = (true, init.name);
        Ok(())
    }

    fn add_region(&mut self, index: u16, size: u64, file: &OwnedFd) -> Result<(), Refusal> {
        if usize::from(index) != self.regions.len() || index >= MAX_REGIONS {
            return Err(Refusal::RegionIndex(index));
        }
        let mapped: u64 = self.regions.iter().map(|region| region.len() as u64).sum();
        let (sum, most) = (mapped.saturating_add(size), self.config.most_bytes);
        if sum > most {
            return Err(Refusal::Memory { index, sum, most });
        }
        let region = Region::map(file.as_fd(), size, self.config.trust)
            .map_err(|error| Refusal::Region { index, error })?;
        self.regions.push(region);
        Ok(())
    }

    fn add_ring(&mut self, told: &AddRing, interrupt: OwnedFd) -> Result<(), Refusal> {
        let index = told.index;
        if told.private_header_len != 0 {
            return Err(Refusal::PrivateHeader(index));
        }
        if index >= self.config.queues {
            return Err(Refusal::RingIndex(index));
        }
        let region = self.regions.get(usize::from(told.region));
        let ring = region
            .filter(|_| told.log2_size <= self.config.log2_ring_size)
            .and_then(|region| Ring::new(region, told.offset, told.log2_size))
            .ok_or(Refusal::RingPlace(index))?;
        if !ring.has_cookie() {
            return Err(Refusal::Cookie(index));
        }
        if !is_eventfd(&interrupt) {
            return Err(Refusal::NotEventfd(index));
        }
        let rings = match told.flags & TO_SERVER {
            0 => &mut self.to_client,
            _ => &mut self.to_server,
        };
        while rings.len() <= usize::from(index) {
            rings.push(None);
        }
        match rings.get_mut(usize::from(index)) {
            Some(place @ None) => *place = Some(Offer { ring, interrupt }),
            _ => return Err(Refusal::RingIndex(index)),
        }
        Ok(())
    }

    fn connect(&mut self) -> Result<Vec<Queue>, Refusal> {
        let count = |rings: &[Option<Offer>]| rings.iter().flatten().count();
        let (to_server, to_client) = (count(&self.to_server), count(&self.to_client));
        let are_all = to_server == self.to_server.len() && to_client == self.to_client.len();
        if to_server != to_client || to_server == 0 || !are_all {
            return Err(Refusal::Rings { to_server, to_client });
        }
        let regions: Arc<[Arc<Region>]> = self.regions.drain(..).collect();
        let pairs = self.to_server.drain(..).flatten().zip(self.to_client.drain(..).flatten());
        let (faults, broken) = (&self.faults, &self.broken);
        let queues = pairs.map(|(from, to)| {
            let bell = Bell::new(to.interrupt, faults).map_err(Refusal::Bell)?;
            let Offer { ring, interrupt } = from;
            let (regions_in, faults_in) = (Arc::clone(&regions), Arc::clone(faults));
            let receiver =
                Receiver::new(ring, regions_in, None, interrupt, faults_in, broken.clone());
            let (regions_out, faults_out) = (Arc::clone(&regions), Arc::clone(faults));
            let transmitter =
                Transmitter::new(to.ring, regions_out, None, bell, faults_out, broken.clone());
            Ok(Queue { receiver, transmitter })
        });
        let queues = queues.collect::<Result<_, Refusal>>()?;
        self.is_connected = true;
        Ok(queues)
    }
}

/// True if a descriptor is an eventfd.
fn is_eventfd(fd: &OwnedFd) -> bool {
    let link = format!("/proc/self/fd/{}", fd.as_raw_fd());
    std::fs::read_link(link).is_ok_and(|target| target.as_os_str() == "anon_inode:[eventfd]")
}
