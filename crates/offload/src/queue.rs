//! Packets on their way through a device.

use arrayvec::ArrayVec;
use outcome::DropReason;
use wire::Span;

use crate::handle::SaHandle;

/// Most packets of one call.
pub const BURST_LEN: usize = 64;

/// Items of one call to a queue. No allocation.
pub type Burst<T> = ArrayVec<T, BURST_LEN>;

/// Memory of one packet.
pub trait Buffer: Send + 'static {
    /// The packet: an IP packet without a link header.
    fn packet(&self) -> &[u8];

    /// The packet, to be changed in place.
    fn packet_mut(&mut self) -> &mut [u8];

    /// Replaces the packet by another one, of any length that the buffer has room for.
    ///
    /// # Errors
    /// [`NoRoom`]; the content is unspecified then.
    fn set_packet(&mut self, packet: &[u8]) -> Result<(), NoRoom>;
}

/// A packet is longer than the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the buffer has no room for the packet")]
pub struct NoRoom;

/// Grows: for tests and simulated devices.
impl Buffer for Vec<u8> {
    fn packet(&self) -> &[u8] {
        self
    }

    fn packet_mut(&mut self) -> &mut [u8] {
        self
    }

    fn set_packet(&mut self, packet: &[u8]) -> Result<(), NoRoom> {
        self.clear();
        self.extend_from_slice(packet);
        Ok(())
    }
}

/// Work of a device on a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Packet offload: an IP packet from the protected side.
    Outbound,
    /// Packet offload: an IP packet from the unprotected side, ESP or not.
    Inbound,
    /// Crypto offload: encrypt and write the ICV, as [`crypto::Op::Seal`].
    Seal(CryptoWork),
    /// Crypto offload: check the ICV and decrypt, as [`crypto::Op::Open`].
    Open(CryptoWork),
}

/// The place of one ESP packet, laid out as [`crypto::Job`] says. Its outer IP header stands in front of it, at
/// the buffer's start, and nothing behind it: a device may find the SA by these, as a NIC does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CryptoWork {
    /// The SA whose keys it needs.
    pub sa: SaHandle,
    /// Where the ESP packet is in the buffer's packet, from SPI to ICV.
    pub esp: Span,
    /// The high-order half of the extended sequence number.
    pub seq_hi: Option<u32>,
}

/// A packet for a device.
#[derive(Debug)]
pub struct Request<B> {
    /// The packet's memory: the device's, until it comes back.
    pub buffer: B,
    /// Work to be done.
    pub work: Work,
}

/// A buffer that comes back.
#[derive(Debug)]
pub struct Completion<B> {
    /// The memory, the caller's again.
    pub buffer: B,
    /// Work that was done: with crypto offload the request's own, with packet offload its
    /// direction.
    pub work: Work,
    /// Result for the packet.
    pub status: Status,
}

/// Result of the work on a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Done; the buffer has the result.
    Done,
    /// Packet offload, inbound: done, and this SA opened the packet. A device that cannot tell says
    /// [`Status::Done`].
    Opened(SaHandle),
    /// Dropped. The buffer's content is unspecified, and no plaintext that was not authentic.
    Dropped(DropReason),
    /// The device is gone. Whether it had worked on the packet is not known.
    Lost,
}

/// A bounded queue into a device and back, for one worker.
///
/// Never blocks and never allocates. At all times the buffers submitted are those in flight and those given back.
pub trait Queue<B: Buffer>: Send {
    /// Gives the device requests from the front and returns how many; the rest stays, in order, because
    /// there is no room now. Room comes by [`Queue::poll`] alone.
    ///
    /// A request that the device cannot carry out (another placement's work, an unknown SA, a span outside
    /// the packet) is taken, and comes back dropped.
    fn submit(&mut self, requests: &mut Burst<Request<B>>) -> usize;

    /// Takes buffers back into the free places of `completions` and returns how many.
    fn poll(&mut self, completions: &mut Burst<Completion<B>>) -> usize;

    /// Buffers that the device has.
    fn in_flight(&self) -> usize;

    /// The most that it ever has.
    fn depth(&self) -> usize;
}
