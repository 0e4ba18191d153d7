//! Buffers and queues of ports: which share each has, and what is too little.

use config::{PortConfig, Problem, Sockets};
use io::{TooFewFrames, XskConfig};

/// Frames without which one queue does not work: the least in its fill ring, and as many in flight.
pub const FRAMES_PER_QUEUE: u32 = 2 * io::MIN_READY;

/// Frames that one queue may hold at a time.
pub const FRAMES_PER_FULL_QUEUE: u32 = RINGS.fill + RINGS.tx;

/// Ring sizes of one queue, in frames.
///
/// A worker that shares its core is away for some milliseconds at a time, and TCP sends what its
/// window allows: with 1024 frames to receive into, iperf3 lost a packet in 250, with 2048 none.
pub(super) const RINGS: XskConfig =
    XskConfig { fill: 2048, ready: 2048, rx: 2048, tx: 1024, mode: io::XskMode::Auto };

/// A port of a running daemon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunningPort {
    /// Its part of the configuration.
    pub config: PortConfig,
    /// Frames that each of its queues keeps ready, if it is open and by AF_XDP.
    pub ready: Option<u32>,
    /// True if its interface is there and up, and it could not be opened all the same.
    pub has_failed: bool,
}

/// Queues to take of a port whose interface has so many, if it is there; else at least one.
pub fn queues_of(config: &PortConfig, there: Option<u32>) -> u32 {
    match there {
        Some(there) => config.queues.unwrap_or(there).min(there),
        None => config.queues.unwrap_or(1),
    }
}

/// Frames that each of so many queues keeps ready, if they can have rings of so many buffers.
pub fn ready_frames(frames: u32, queues: u32) -> Option<u32> {
    RINGS.share(frames, queues).ok().map(|rings| rings.ready)
}

/// Says if so many queues cannot have rings of so many buffers: no port would open.
pub fn rings_problem(frames: u32, queues: u32) -> Option<Problem> {
    let TooFewFrames { needed, .. } = RINGS.share(frames, queues).err()?;
    let wrong = format!("{queues} receive queues of all ports need at least {needed}");
    let remedy =
        format!("worker.frames = {}, or fewer queues (port.queues)", needed.next_power_of_two());
    Some(Problem::new("worker.frames", &frames, wrong, remedy))
}

/// True if workers beyond the queues of ports may get packets from some: from packet sockets.
pub fn spread_over_workers(configs: &[PortConfig]) -> bool {
    configs.iter().any(|config| config.kind != Sockets::Xdp && config.queues.is_none())
}
