//! Why nothing was measured.

use crypto::{EngineError, Suite};
use outcome::DropReason;

/// Why nothing was measured.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// The caller asked for nothing, or for something impossible.
    #[error("{what} is {given}; allowed: {allowed}")]
    Option {
        /// Name of the option.
        what: &'static str,
        /// Value that was given.
        given: usize,
        /// Values that are allowed.
        allowed: &'static str,
    },
    /// The packet would not fit the MTU.
    #[error("an inner packet of {size} bytes is above {max}, the most that {suite} leaves of 1500")]
    TooLong {
        /// The inner packet's length in bytes.
        size: usize,
        /// Suite of the SA.
        suite: Suite,
        /// The longest in bytes.
        max: usize,
    },
    /// The engine cannot do it.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// No memory for packets.
    #[error(transparent)]
    Memory(#[from] io::UmemError),
    /// The process has no free descriptor, or may not use the core.
    #[error("{what}: {source}")]
    System {
        /// Step that failed.
        what: String,
        /// The kernel's answer.
        source: std::io::Error,
    },
    /// The gateway did not do its work, so its speed says nothing.
    #[error("the gateway sent {sent} of {given} packets; most dropped: {reason:?}")]
    Lost {
        /// Packets that should have come out.
        given: usize,
        /// Packets that came out.
        sent: usize,
        /// The reason that most of the others were dropped for.
        reason: Option<DropReason>,
    },
    /// Flows took another path than they should.
    #[error("{moved} flows go by the second path, and not {wanted}")]
    Moved {
        /// Flows that go by it.
        moved: usize,
        /// Flows that should.
        wanted: usize,
    },
    /// The cipher's result was wrong.
    #[error("the engine did not seal and open a packet of {suite} right")]
    Wrong {
        /// Suite of the SA.
        suite: Suite,
    },
    /// The flow cache was of more or of less use than the case is about.
    #[error("{hits} of {given} packets went by a cached plan; allowed: {allowed}")]
    Cached {
        /// Packets that were given.
        given: u64,
        /// Packets that went by their flow's plan.
        hits: u64,
        /// How many should have.
        allowed: u64,
    },
    /// Workers handed over more packets or fewer than the case is about.
    #[error("{handed} of {given} packets were handed over; allowed: {allowed}")]
    HandedOver {
        /// Packets that were given.
        given: u64,
        /// Packets that were handed over, or dropped because there was no room for them.
        handed: u64,
        /// How many should have been.
        allowed: u64,
    },
    /// The databases or tables did not answer what they were built for.
    #[error("a look-up in {what} did not find what was put there")]
    NotFound {
        /// Name of the database or table.
        what: &'static str,
    },
    /// There is no device, or it refuses what is to be measured.
    #[error("the device: {0}")]
    Device(String),
    /// The device did not do all, so what was timed was software.
    #[error("the device worked on {done} of {given} packets")]
    NotOffloaded {
        /// Packets that it should have sealed or opened.
        given: u64,
        /// Packets that it has.
        done: u64,
    },
    /// Not every packet went the whole way.
    #[error(
        "of {given} packets {opened} were opened, {forwarded} forwarded by the application, and {sealed} sealed"
    )]
    NotThrough {
        /// Packets that were given.
        given: u64,
        /// Packets that SAs have opened.
        opened: u64,
        /// Packets that the application had.
        forwarded: u64,
        /// Packets that SAs have sealed.
        sealed: u64,
    },
    /// The application, or its port, does not do what it should.
    #[error("the application: {0}")]
    Application(String),
    /// There is no simulated gateway, or it refuses what is to be measured.
    #[error("{0}")]
    Rtl(String),
    /// Someone asked to stop, and all is as it was.
    #[error("interrupted; all is as it was")]
    Stopped,
    /// The peer does not run.
    #[error("{0}")]
    Peer(String),
}

impl BenchError {
    /// For `map_err`: what was tried when the system refused.
    pub(crate) fn system<E: Into<std::io::Error>>(what: &str) -> impl FnOnce(E) -> BenchError {
        move |source| BenchError::System { what: what.to_owned(), source: source.into() }
    }
}
