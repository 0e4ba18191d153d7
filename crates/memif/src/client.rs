//! The client's side of the handshake: it owns the memory, and tells the server of it.
//!
//! ```text
//!   region 0, a memory file, sealed:
//!   | rings to the server | rings to the client | buffers of the first ring | of the next ...
//! ```
//!
//! A ring has a buffer for each descriptor, at a place that never changes.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::event::{EventfdFlags, eventfd};

use crate::MAX_LOG2_RING_SIZE;
use crate::bell::Bell;
use crate::fault::{Broken, Faults};
use crate::message::{AddRing, Hello, Init, Message, Mode, Name, Secret, TO_SERVER, VERSION};
use crate::queue::Queue;
use crate::receive::Receiver;
use crate::region::{Region, RegionError};
use crate::ring::Ring;
use crate::transmit::{Buffers, Transmitter};

/// Settings of a client.
#[derive(Clone, Debug)]
pub struct ClientConfig {
    /// The interface's number at the socket.
    pub id: u32,
    /// Our interface's name, for the server's messages.
    pub name: Name,
    /// Secret for a server that asks for one.
    pub secret: Option<Secret>,
    /// Pairs of rings; fewer where the server takes fewer.
    pub queues: u16,
    /// The length of each ring, as a power of two; less where the server takes less.
    pub log2_ring_size: u8,
    /// The length of each buffer.
    pub buffer_len: u32,
}

/// Why a client gives up.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The server speaks another version.
    #[error("the server speaks versions {0:#x} to {1:#x}, not 0x200")]
    Version(u16, u16),
    /// The message has no place here.
    #[error("unexpected message: {0}")]
    Unexpected(&'static str),
    /// The regions could not be made.
    #[error(transparent)]
    Region(#[from] RegionError),
    /// So many buffers of that length are more than a region holds.
    #[error("rings and buffers are longer than a region can be")]
    TooLarge,
    /// No eventfd, or no thread to pass it on.
    #[error("eventfd: {0}")]
    Eventfd(std::io::Error),
}

type Outgoing = (Message, Option<OwnedFd>);

/// How far the server has come with us.
pub(crate) struct ClientSession {
    config: ClientConfig,
    faults: Arc<Faults>,
    broken: Broken,
    /// Sent one by one, each when the one before was acknowledged.
    outgoing: VecDeque<Outgoing>,
    queues: Option<Vec<Queue>>,
    has_begun: bool,
    peer: Name,
}

impl ClientSession {
    pub(crate) fn new(config: &ClientConfig, faults: &Arc<Faults>, broken: &Broken) -> Self {
        Self {
            config: config.clone(),
            faults: Arc::clone(faults),
            broken: broken.clone(),
            outgoing: VecDeque::new(),
            queues: None,
            has_begun: false,
            peer: Name::new(""),
        }
    }

    pub(crate) fn peer(&self) -> Name {
        self.peer
    }

    /// Takes a message; returns the next to send, and the queues once packets may go.
    pub(crate) fn take(
        &mut self,
        message: Message,
    ) -> Result<(Option<Outgoing>, Option<Vec<Queue>>), ClientError> {
        match message {
            Message::Hello(hello) if !self.has_begun => {
                self.begin(&hello)?;
                Ok((self.outgoing.pop_front(), None))
            }
            Message::Ack if self.has_begun && self.queues.is_some() => {
                Ok((self.outgoing.pop_front(), None))
            }
            Message::Connected { .. } if self.outgoing.is_empty() => match self.queues.take() {
                Some(queues) => Ok((None, Some(queues))),
                None => Err(ClientError::Unexpected("connected, before we asked")),
            },
            _ => Err(ClientError::Unexpected("it is the client's, or out of turn")),
        }
    }

    /// Makes the memory, and the messages that tell of it.
    fn begin(&mut self, hello: &Hello) -> Result<(), ClientError> {
        if !(hello.min_version..=hello.max_version).contains(&VERSION) {
            return Err(ClientError::Version(hello.min_version, hello.max_version));
        }
        (self.has_begun, self.peer) = (true, hello.name);
        let last = hello.max_to_client.min(hello.max_to_server);
        let count = self.config.queues.min(last.saturating_add(1)).max(1);
        let most = hello.max_log2_ring_size.min(MAX_LOG2_RING_SIZE);
        let log2_size = self.config.log2_ring_size.min(most);
        let ring_len = Ring::bytes(log2_size) as u64;
        let rings = 2 * u64::from(count);
        let buffers_len = u64::from(self.config.buffer_len) << log2_size;
        let len = rings * (ring_len + buffers_len);
        if len > u64::from(u32::MAX) {
            return Err(ClientError::TooLarge);
        }
        let (region, file) = Region::create(len as usize)?;
        let regions: Arc<[Arc<Region>]> = Arc::new([Arc::clone(&region)]);
        let init = Init {
            version: VERSION,
            id: self.config.id,
            mode: Mode::Ethernet,
            secret: self.config.secret.unwrap_or(Secret::new("")),
            name: Name::new(concat!("culvert ", env!("CARGO_PKG_VERSION"))),
        };
        self.outgoing.push_back((Message::Init(init), None));
        self.outgoing.push_back((Message::AddRegion { index: 0, size: len }, Some(file)));
        let mut places = (0..rings).map(|n| {
            let buffers = (rings * ring_len + n * buffers_len) as u32;
            (n * ring_len, Buffers { first: buffers, len: self.config.buffer_len })
        });
        let mut ends = [Vec::new(), Vec::new()];
        for (flags, ends) in [TO_SERVER, 0].into_iter().zip(&mut ends) {
            for (index, (offset, buffers)) in (0..count).zip(&mut places) {
                let offset = offset as u32;
                let ring = Ring::new(&region, offset, log2_size).ok_or(ClientError::TooLarge)?;
                ring.set_up();
                let (interrupt, theirs) = interrupt().map_err(ClientError::Eventfd)?;
                let (region, private_header_len) = (0, 0);
                let told = AddRing { flags, index, region, offset, log2_size, private_header_len };
                self.outgoing.push_back((Message::AddRing(told), Some(theirs)));
                ends.push((ring, buffers, interrupt));
            }
        }
        self.outgoing.push_back((Message::Connect { name: self.config.name }, None));
        let [to_server, to_client] = ends;
        let (faults, broken) = (&self.faults, &self.broken);
        let queues = to_server.into_iter().zip(to_client).map(|(to, from)| {
            let (ring, buffers, interrupt) = to;
            let bell = Bell::new(interrupt, faults).map_err(ClientError::Eventfd)?;
            let (regions_out, faults_out) = (Arc::clone(&regions), Arc::clone(faults));
            let (buffers, broken_out) = (Some(buffers), broken.clone());
            let transmitter =
                Transmitter::new(ring, regions_out, buffers, bell, faults_out, broken_out);
            let (ring, buffers, interrupt) = from;
            let (regions_in, faults_in) = (Arc::clone(&regions), Arc::clone(faults));
            let (buffers, broken_in) = (Some(buffers), broken.clone());
            let receiver =
                Receiver::new(ring, regions_in, buffers, interrupt, faults_in, broken_in);
            Ok(Queue { receiver, transmitter })
        });
        self.queues = Some(queues.collect::<Result<_, ClientError>>()?);
        Ok(())
    }
}

/// An eventfd, twice: for us, and for the server.
fn interrupt() -> std::io::Result<(OwnedFd, OwnedFd)> {
    let fd = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
    let theirs = fd.try_clone()?;
    Ok((fd, theirs))
}
