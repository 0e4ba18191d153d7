//! Opening and binding a queue's socket: modes, sharing of the region, and what to do on failure.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use super::ring::{Consumer, Layout, Producer};
use super::socket;
use crate::umem::Umem;

/// Which transfer mode is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum XskMode {
    /// Zero copy if the driver has it, else copy.
    #[default]
    Auto,
    /// The kernel copies each packet. Works with every driver.
    Copy,
    /// The device reads and writes the region itself.
    ZeroCopy,
}

/// The transfer mode that a queue got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XskTransfer {
    /// The kernel copies each packet.
    Copy,
    /// The device reads and writes the region itself.
    ZeroCopy,
}

/// A queue's ring sizes and mode. Sizes are in packets, powers of two.
#[derive(Clone, Copy, Debug)]
pub struct XskConfig {
    /// The fill ring.
    pub fill: u32,
    /// Frames that the kernel has for receiving, filled or still to be filled: `fill` at most, and any number
    /// up to that. See [`Self::share`].
    pub ready: u32,
    /// Received packets that may wait.
    pub rx: u32,
    /// Packets that may wait to be sent; the completion ring is as large.
    pub tx: u32,
    /// The transfer mode.
    pub mode: XskMode,
}

impl Default for XskConfig {
    fn default() -> Self {
        Self { fill: 2048, ready: 2048, rx: 1024, tx: 1024, mode: XskMode::Auto }
    }
}

/// The least that [`XskConfig::ready`] is bounded to: a burst.
pub const MIN_READY: u32 = 64;

/// There are too few frames for so many queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{frames} frames are too few for {queues} queues: {needed} are needed")]
pub struct TooFewFrames {
    /// The region's frames.
    pub frames: u32,
    /// The queues that share it.
    pub queues: u32,
    /// The least number of frames for them.
    pub needed: u32,
}

impl XskConfig {
    /// Bounds what one queue keeps ready, so that all `queues` queues of a region of `frames` frames keep half of
    /// them at most. The other half is for packets on their way, transmit rings and the workers' pools:
    /// otherwise queues without traffic would keep the frames that those with traffic need.
    ///
    /// # Errors
    ///
    /// [`TooFewFrames`] if a queue's part is below [`MIN_READY`].
    pub fn share(self, frames: u32, queues: u32) -> Result<Self, TooFewFrames> {
        let queues = queues.max(1);
        let part = frames / 2 / queues;
        if part < MIN_READY {
            let needed = queues.saturating_mul(2 * MIN_READY);
            return Err(TooFewFrames { frames, queues, needed });
        }
        Ok(Self { ready: self.ready.min(self.fill).min(part), ..self })
    }
}

/// Why a queue could not be opened.
#[derive(Debug, thiserror::Error)]
#[error("{interface} queue {queue}: {call} failed: {source}; {hint}")]
pub struct XskError {
    /// Name of the interface.
    pub interface: String,
    /// Queue of the interface.
    pub queue: u32,
    /// The system call, with its option.
    pub call: &'static str,
    /// The kernel's answer.
    pub source: io::Error,
    /// A remedy, for the operator.
    pub hint: &'static str,
}

/// A region as AF_XDP knows it: with the sockets by which it is registered, for others to share. Clones are
/// handles to the same. Locked when a queue opens or closes, by any thread.
#[derive(Clone)]
pub struct XskRegion {
    umem: Umem,
    donors: Arc<Mutex<Donors>>,
}

/// Sockets by which the region is registered.
type Donors = Vec<(Weak<OwnedFd>, XskTransfer)>;

impl XskRegion {
    /// Not registered yet: the first queue does that. There should be one for a region.
    pub fn new(umem: &Umem) -> Self {
        Self { umem: umem.clone(), donors: Arc::default() }
    }

    /// The region that the sockets share.
    pub fn umem(&self) -> &Umem {
        &self.umem
    }

    fn donors(&self) -> MutexGuard<'_, Donors> {
        self.donors.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on nobody shares by this socket.
    pub(super) fn forget(&self, socket: &Arc<OwnedFd>) {
        let own = Arc::downgrade(socket);
        self.donors().retain(|(donor, _)| !donor.ptr_eq(&own));
    }
}

impl core::fmt::Debug for XskRegion {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "XskRegion({:?}, {} sockets)", self.umem, self.donors().len())
    }
}

/// A socket's four rings.
pub(super) struct Rings {
    pub(super) fill: Producer<u64>,
    pub(super) rx: Consumer<libc::xdp_desc>,
    pub(super) tx: Producer<libc::xdp_desc>,
    pub(super) completion: Consumer<u64>,
}

/// The system call that failed, and what it said.
type Failure = (&'static str, io::Error);
/// A bound socket, its rings, and the mode that it got.
pub(super) type Bound = (Arc<OwnedFd>, Rings, XskTransfer);

/// Binds a socket, and waits for a queue that another has just left.
pub(super) fn bind(
    region: &XskRegion,
    ifindex: u32,
    queue: u32,
    config: &XskConfig,
) -> Result<Bound, XskError> {
    let deadline = Instant::now() + RELEASE_WAIT;
    loop {
        match bind_any(region, ifindex, queue, config) {
            Ok(bound) => return Ok(bound),
            // The kernel frees a queue some time after its last socket was closed.
            Err((_, source))
                if source.raw_os_error() == Some(libc::EBUSY) && Instant::now() < deadline =>
            {
                std::thread::sleep(Duration::from_millis(5));
            }
            Err((call, source)) => {
                let interface = socket::interface_name(ifindex);
                let hint = hint(call, &source);
                return Err(XskError { interface, queue, call, source, hint });
            }
        }
    }
}

/// Tries the modes that are allowed, best first, and for each first to share, then to register.
fn bind_any(
    region: &XskRegion,
    ifindex: u32,
    queue: u32,
    config: &XskConfig,
) -> Result<Bound, Failure> {
    let modes: &[XskTransfer] = match config.mode {
        XskMode::Auto => &[XskTransfer::ZeroCopy, XskTransfer::Copy],
        XskMode::Copy => &[XskTransfer::Copy],
        XskMode::ZeroCopy => &[XskTransfer::ZeroCopy],
    };
    let mut donors = region.donors();
    donors.retain(|(donor, _)| donor.strong_count() > 0);
    let mut last = ("bind", io::Error::from_raw_os_error(libc::EOPNOTSUPP));
    for &mode in modes {
        let sharing = donors.iter().filter(|(_, has)| *has == mode).map(|(donor, _)| Some(donor));
        let mut result = None;
        for donor in sharing.chain([None]) {
            let donor = match donor.map(Weak::upgrade) {
                Some(Some(donor)) => Some(donor),
                Some(None) => continue,
                None => None,
            };
            match bind_one(region.umem(), ifindex, queue, config, mode, donor.as_deref()) {
                Ok(bound) => {
                    result = Some(bound);
                    break;
                }
                Err(failure) if is_final(&failure.1) => return Err(failure),
                Err(failure) => last = failure,
            }
        }
        if let Some((socket, rings)) = result {
            let socket = Arc::new(socket);
            // Trust what the kernel says it does over what was asked for.
            let transfer = match socket::is_zero_copy(socket.as_fd()) {
                Ok(true) => XskTransfer::ZeroCopy,
                Ok(false) => XskTransfer::Copy,
                Err(source) => return Err(("getsockopt(XDP_OPTIONS)", source)),
            };
            donors.push((Arc::downgrade(&socket), transfer));
            return Ok((socket, rings, transfer));
        }
    }
    Err(last)
}

/// Opens, sets up and binds one socket. A failed bind leaves a socket unusable, so each try has
/// its own.
fn bind_one(
    umem: &Umem,
    ifindex: u32,
    queue: u32,
    config: &XskConfig,
    mode: XskTransfer,
    donor: Option<&OwnedFd>,
) -> Result<(OwnedFd, Rings), Failure> {
    let at = |call: &'static str| move |source: io::Error| (call, source);
    let socket = socket::open().map_err(at("socket(AF_XDP)"))?;
    let fd = socket.as_fd();
    if donor.is_none() {
        socket::register(fd, umem).map_err(at("setsockopt(XDP_UMEM_REG)"))?;
    }
    for (option, size, call) in [
        (libc::XDP_UMEM_FILL_RING, config.fill, "setsockopt(XDP_UMEM_FILL_RING)"),
        (libc::XDP_UMEM_COMPLETION_RING, config.tx, "setsockopt(XDP_UMEM_COMPLETION_RING)"),
        (libc::XDP_RX_RING, config.rx, "setsockopt(XDP_RX_RING)"),
        (libc::XDP_TX_RING, config.tx, "setsockopt(XDP_TX_RING)"),
    ] {
        socket::set_ring(fd, option, size).map_err(at(call))?;
    }
    socket::raise_tx_budget(fd);
    let offsets = socket::offsets(fd).map_err(at("getsockopt(XDP_MMAP_OFFSETS)"))?;
    let layout = |offsets, page_offset| Layout { offsets, page_offset };
    let fill_at = libc::XDP_UMEM_PGOFF_FILL_RING as i64;
    let completion_at = libc::XDP_UMEM_PGOFF_COMPLETION_RING as i64;
    let rings = Rings {
        fill: Producer::new(fd, &layout(offsets.fr, fill_at), config.fill)
            .map_err(at("mmap(fill ring)"))?,
        rx: Consumer::new(fd, &layout(offsets.rx, libc::XDP_PGOFF_RX_RING), config.rx)
            .map_err(at("mmap(receive ring)"))?,
        tx: Producer::new(fd, &layout(offsets.tx, libc::XDP_PGOFF_TX_RING), config.tx)
            .map_err(at("mmap(transmit ring)"))?,
        completion: Consumer::new(fd, &layout(offsets.cr, completion_at), config.tx)
            .map_err(at("mmap(completion ring)"))?,
    };
    let flags = libc::XDP_USE_NEED_WAKEUP
        | match mode {
            XskTransfer::Copy => libc::XDP_COPY,
            XskTransfer::ZeroCopy => libc::XDP_ZEROCOPY,
        };
    socket::bind(fd, ifindex, queue, flags, donor.map(AsFd::as_fd)).map_err(at("bind"))?;
    Ok((socket, rings))
}

/// No other mode and no other way to register would help.
fn is_final(source: &io::Error) -> bool {
    matches!(
        source.raw_os_error(),
        Some(libc::EPERM | libc::EACCES | libc::EBUSY | libc::ENODEV | libc::EAFNOSUPPORT)
    )
}

fn hint(call: &str, source: &io::Error) -> &'static str {
    match (call, source.raw_os_error()) {
        (_, Some(libc::EPERM | libc::EACCES)) => "run as root or with CAP_NET_RAW and CAP_BPF",
        (_, Some(libc::EAFNOSUPPORT)) => "the kernel needs CONFIG_XDP_SOCKETS",
        ("bind", Some(libc::EBUSY)) => {
            "another program has an AF_XDP socket on this queue: stop it, or use another queue"
        }
        ("bind", Some(libc::ENODEV)) => "no such interface: see ip link",
        ("bind", Some(libc::EOPNOTSUPP)) => "the driver has no zero copy here: ask for copy mode",
        ("bind", Some(libc::EINVAL)) => "does the queue exist? see ethtool -l",
        ("bind", Some(libc::ENETDOWN)) => "bring the interface up first",
        (_, Some(libc::ENOMEM | libc::ENOBUFS)) => {
            "raise the limit on locked memory (ulimit -l) or use fewer frames"
        }
        (_, Some(libc::EINVAL)) => "ring sizes must be powers of two",
        (_, Some(libc::ENOPROTOOPT)) => "the kernel is too old: 5.10 or later is needed",
        _ => "see the kernel's log",
    }
}

/// How long a new socket waits for a queue that is in use.
const RELEASE_WAIT: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_queues_together_keep_half_of_the_frames() {
        let config = XskConfig::default();
        let ready = |frames, queues| config.share(frames, queues).map(|config| config.ready);
        assert_eq!(ready(16384, 1), Ok(2048), "no more than asked for");
        assert_eq!(ready(16384, 4), Ok(2048));
        assert_eq!(ready(16384, 5), Ok(1638));
        assert_eq!(ready(16384, 32), Ok(256), "four workers with eight queues each");
        assert_eq!(ready(16384, 128), Ok(64));
        assert_eq!(ready(1024, 0), Ok(512));
        let error = config.share(16384, 129).expect_err("too many");
        assert_eq!(error, TooFewFrames { frames: 16384, queues: 129, needed: 16512 });
        assert!(error.to_string().contains("16384 frames") && error.to_string().contains("16512"));
        assert_eq!(ready(16512, 129), Ok(64), "what the error says is enough");
        let small = XskConfig { fill: 64, ready: 1000, ..config };
        assert_eq!(small.share(16384, 1).map(|config| config.ready), Ok(64), "the ring's size");
        assert!(config.share(u32::MAX, u32::MAX).is_err());
    }
}
