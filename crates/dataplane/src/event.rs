//! Events that a worker tells the control thread.

use core::net::IpAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use bfd::Standing;
use forward::MtuPath;
pub use iptfs::congestion::Cause;
pub use paths::State as PathState;
use policy::SaId;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use wire::Headers;

/// Events that may wait to be read. When full, an event is lost; whatever caused it comes again.
/// The worker keeps those that happen only once and sends them later.
const CAPACITY: usize = 4096;

/// Something that the control thread has to act on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A policy wants protection and there is no SA yet, or none of the worker's own.
    Acquire {
        /// The policy's index.
        policy: u32,
        /// The worker that wants SAs of its own (RFC 9611); others protect meanwhile.
        cpu: Option<u32>,
        /// The packet that asks.
        flow: Headers,
    },
    /// An SA has reached a limit by volume.
    VolumeReached {
        /// Identity of the SA.
        sa: SaId,
        /// The hard limit, not the soft one.
        hard: bool,
    },
    /// An authenticated packet of a UDP-encapsulated SA came from another address or port.
    MappingChanged {
        /// The SA, inbound.
        sa: SaId,
        /// Where the peer is now.
        src: IpAddr,
        /// The peer's new port, host byte order.
        src_port: u16,
    },
    /// A router reported that ESP of an SA was too big, and quoted a packet that was really sent.
    TooBig {
        /// The SA, outbound.
        sa: SaId,
        /// Where its packets go: in transport mode the SA does not say.
        dst: IpAddr,
        /// MTU that the router reports, in bytes.
        mtu: u32,
    },
    /// A router reported that a packet with segments was too big, and quoted one that a headend may have made.
    SegmentsTooBig {
        /// The path through these segments, or to the last of them without its list.
        path: MtuPath,
        /// MTU that the router reports, in bytes; at least 1280.
        mtu: u32,
    },
    /// The circuit breaker of a constant rate has opened, or closed.
    RateBroken {
        /// The SA, outbound, of IP-TFS mode.
        sa: SaId,
        /// Why it has opened; none when it has closed.
        cause: Option<Cause>,
    },
    /// The state of a measured path has changed.
    PathState {
        /// Identity of the session.
        id: u32,
        /// State before the change.
        from: PathState,
        /// State after the change.
        to: PathState,
    },
    /// A session of BFD has another state, or its peer says something else.
    Bfd(Standing),
    /// A neighbour is needed and not known.
    Resolve {
        /// Index of the interface.
        ifindex: u32,
        /// The neighbour's address.
        ip: IpAddr,
    },
    /// A port stopped working; its sockets are closed.
    PortGone {
        /// Index of the neighbour's interface.
        ifindex: u32,
    },
}

/// Wakes a thread that polls: an eventfd.
#[derive(Clone, Debug)]
pub struct Waker(Arc<OwnedFd>);

impl Waker {
    /// A new one.
    ///
    /// # Errors
    /// When the process has no free descriptor.
    pub fn new() -> std::io::Result<Waker> {
        Ok(Waker(Arc::new(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?)))
    }

    /// Makes the descriptor readable.
    pub fn wake(&self) {
        // Fails only when the counter is full, and then the thread wakes anyway.
        let _ = rustix::io::write(&*self.0, &1u64.to_ne_bytes());
    }

    /// Makes it unreadable again.
    pub fn clear(&self) {
        let _ = rustix::io::read(&*self.0, &mut [0u8; 8]);
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// The worker's end.
#[derive(Clone, Debug)]
pub struct EventSender {
    sender: SyncSender<Event>,
    waker: Waker,
}

impl EventSender {
    /// Sends without blocking; false if the queue is full.
    pub fn send(&self, event: Event) -> bool {
        let sent = self.sender.try_send(event).is_ok();
        self.waker.wake();
        sent
    }
}

/// The control thread's end.
#[derive(Debug)]
pub struct EventReceiver {
    receiver: Receiver<Event>,
    waker: Waker,
}

impl EventReceiver {
    /// The next event, without blocking.
    pub fn next(&self) -> Option<Event> {
        self.receiver.try_recv().ok()
    }

    /// Wakes the one who waits for events once more: there may be some left.
    pub fn remind(&self) {
        self.waker.wake();
    }

    /// Clears the wake-up; call before draining.
    pub fn clear(&self) {
        self.waker.clear();
    }
}

impl AsFd for EventReceiver {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.waker.as_fd()
    }
}

/// A channel for events.
///
/// # Errors
/// When the process has no free descriptor.
pub fn channel() -> std::io::Result<(EventSender, EventReceiver)> {
    let (sender, receiver) = sync_channel(CAPACITY);
    let waker = Waker::new()?;
    Ok((EventSender { sender, waker: waker.clone() }, EventReceiver { receiver, waker }))
}
