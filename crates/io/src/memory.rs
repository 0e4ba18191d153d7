//! A port made of two queues, for tests and benches: what would be the wire is a `VecDeque`.

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use wire::Span;

use crate::counters::PortCounters;
use crate::port::{Port, PortError};
use crate::umem::{Burst, FramePool, Packet};

/// A port whose other side is the program itself: [`MemoryPort::inject`] what is to be received,
/// [`MemoryPort::collect`] what was sent.
#[derive(Debug)]
pub struct MemoryPort {
    name: String,
    incoming: VecDeque<Packet>,
    outgoing: VecDeque<Packet>,
    limit: usize,
    gone: bool,
    counters: Arc<PortCounters>,
}

impl MemoryPort {
    /// A port whose queues hold `limit` packets each.
    pub fn new(name: &str, limit: usize) -> Self {
        Self {
            name: name.to_owned(),
            incoming: VecDeque::with_capacity(limit),
            outgoing: VecDeque::with_capacity(limit),
            limit,
            gone: false,
            counters: PortCounters::new(),
        }
    }

    /// Puts a copy of `data` where `rx` finds it, in a frame of `pool`, at [`crate::Frame::headroom`].
    ///
    /// Returns whether there was room: in the queue, in the pool, and in the frame.
    pub fn inject(&mut self, data: &[u8], pool: &mut FramePool) -> bool {
        if self.incoming.len() >= self.limit {
            return false;
        }
        let Some(mut frame) = pool.take() else { return false };
        let span = Span { start: frame.headroom(), len: data.len() };
        let Some(place) = frame.bytes_mut().get_mut(span.range()) else {
            pool.put(frame);
            return false;
        };
        place.copy_from_slice(data);
        self.incoming.push_back(Packet { frame, span });
        true
    }

    /// Puts a packet where `rx` finds it, without a copy.
    ///
    /// # Errors
    ///
    /// The packet itself, when the queue is full.
    pub fn inject_packet(&mut self, packet: Packet) -> Result<(), Packet> {
        if self.incoming.len() >= self.limit {
            return Err(packet);
        }
        self.incoming.push_back(packet);
        Ok(())
    }

    /// Takes the oldest packet that was sent.
    pub fn collect(&mut self) -> Option<Packet> {
        self.outgoing.pop_front()
    }

    /// Takes back the oldest packet that has not been received yet, whatever the port's state.
    pub fn take_back(&mut self) -> Option<Packet> {
        self.incoming.pop_front()
    }

    /// From now on behaves as if the interface had been deleted.
    pub fn unplug(&mut self) {
        self.gone = true;
    }

    /// How many of the packets in it lie in frames of this length.
    pub fn frames_of(&self, chunk_len: usize) -> usize {
        let all = self.incoming.iter().chain(&self.outgoing);
        all.filter(|packet| packet.frame.bytes().len() == chunk_len).count()
    }

    /// Changes how many packets each queue holds; what is in them stays.
    pub fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }
}

/// A memory port with two ends: a clone of the handle is the port that a worker owns, the handle
/// itself stays with the test, which plays the wire.
///
/// A lock that nobody else waits for is taken once a call; each end may be on its own thread.
#[derive(Clone, Debug)]
pub struct MemoryHandle(Arc<Mutex<MemoryPort>>);

impl MemoryHandle {
    /// A port whose queues hold `limit` packets each.
    pub fn new(name: &str, limit: usize) -> Self {
        Self(Arc::new(Mutex::new(MemoryPort::new(name, limit))))
    }

    /// The worker's end.
    pub fn port(&self) -> Box<dyn Port> {
        Box::new(self.clone())
    }

    /// True if both are handles of one port.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// The port itself, for as long as the guard lives.
    pub fn lock(&self) -> MutexGuard<'_, MemoryPort> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Port for MemoryHandle {
    fn rx(&mut self, pool: &mut FramePool, out: &mut Burst) -> Result<usize, PortError> {
        self.lock().rx(pool, out)
    }

    fn tx(&mut self, burst: &mut Burst, pool: &mut FramePool) -> Result<usize, PortError> {
        self.lock().tx(burst, pool)
    }

    fn reclaim(&mut self, pool: &mut FramePool) -> Result<(), PortError> {
        self.lock().reclaim(pool)
    }

    fn check(&mut self) -> Result<(), PortError> {
        self.lock().check()
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn frames_held(&self) -> usize {
        self.lock().frames_held()
    }

    fn counters(&self) -> Arc<PortCounters> {
        self.lock().counters()
    }
}

impl Port for MemoryPort {
    fn rx(&mut self, _pool: &mut FramePool, out: &mut Burst) -> Result<usize, PortError> {
        self.check()?;
        let before = out.len();
        while !out.is_full() {
            let Some(packet) = self.incoming.pop_front() else { break };
            self.counters.received(1, packet.span.len as u64);
            out.push(packet);
        }
        Ok(out.len() - before)
    }

    fn tx(&mut self, burst: &mut Burst, pool: &mut FramePool) -> Result<usize, PortError> {
        self.check()?;
        let room = self.limit - self.outgoing.len().min(self.limit);
        let taken = room.min(burst.len());
        for packet in burst.drain(..taken) {
            if packet.is_valid() {
                self.counters.sent(1, packet.span.len as u64);
                self.outgoing.push_back(packet);
            } else {
                self.counters.refused_tx(1);
                pool.put_packet(packet);
            }
        }
        Ok(taken)
    }

    fn reclaim(&mut self, _pool: &mut FramePool) -> Result<(), PortError> {
        self.check()
    }

    fn check(&mut self) -> Result<(), PortError> {
        if self.gone {
            let source = std::io::Error::from_raw_os_error(libc::ENXIO);
            return Err(PortError::new(&self.name, "unplug", source));
        }
        Ok(())
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn frames_held(&self) -> usize {
        self.incoming.len() + self.outgoing.len()
    }

    fn counters(&self) -> Arc<PortCounters> {
        Arc::clone(&self.counters)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::umem::{ChunkSize, HEADROOM, Umem, UmemConfig};

    fn setup(chunks: u32) -> (Umem, FramePool) {
        Umem::new(UmemConfig { chunks, chunk_size: ChunkSize::Bytes2048, populate: false })
            .expect("mmap")
    }

    #[test]
    fn packets_keep_their_order_and_frames_their_number() {
        let (umem, mut pool) = setup(100);
        let mut port = MemoryPort::new("m0", 90);
        for number in 0..80_u8 {
            assert!(port.inject(&[number; 60], &mut pool));
        }
        let mut burst = Burst::new();
        assert_eq!(port.rx(&mut pool, &mut burst).expect("rx"), 64);
        assert_eq!(port.rx(&mut pool, &mut burst).expect("rx"), 0, "the burst is full");
        assert!(umem.accounting(&pool, port.frames_held(), burst.len()).balances());
        assert_eq!(port.tx(&mut burst, &mut pool).expect("tx"), 64);
        assert_eq!(port.rx(&mut pool, &mut burst).expect("rx"), 16);
        assert_eq!(port.tx(&mut burst, &mut pool).expect("tx"), 16);
        for number in 0..80_u8 {
            let packet = port.collect().expect("sent");
            assert_eq!(packet.data(), [number; 60]);
            pool.put_packet(packet);
        }
        assert!(port.collect().is_none());
        assert_eq!(pool.available(), 100);
        assert_eq!((port.stats().rx_packets, port.stats().tx_bytes), (80, 80 * 60));
    }

    #[test]
    fn a_full_port_leaves_the_rest_in_the_burst() {
        let (_umem, mut pool) = setup(10);
        let mut port = MemoryPort::new("m0", 3);
        let mut burst = Burst::new();
        for number in 0..5 {
            let frame = pool.take().expect("frame");
            let len = if number == 0 { 5000 } else { 60 + number };
            burst.push(Packet { frame, span: Span { start: HEADROOM, len } });
        }
        assert_eq!(port.tx(&mut burst, &mut pool).expect("tx"), 3);
        assert_eq!(port.stats().tx_refused, 1, "the span past the frame");
        assert_eq!(burst.iter().map(|packet| packet.span.len).collect::<Vec<_>>(), [63, 64]);
        assert!(!MemoryPort::new("m1", 0).inject(&[0; 60], &mut pool));
        assert!(!MemoryPort::new("m1", 1).inject(&[0; 1950], &mut pool), "longer than a frame");
    }

    #[test]
    fn both_ends_of_a_handle_are_one_port() {
        let (umem, mut pool) = setup(4);
        let handle = MemoryHandle::new("m0", 4);
        let mut port = handle.port();
        assert!(handle.lock().inject(&[1; 60], &mut pool));
        let mut burst = Burst::new();
        assert_eq!(port.rx(&mut pool, &mut burst).expect("rx"), 1);
        handle.lock().set_limit(0);
        assert_eq!(port.tx(&mut burst, &mut pool).expect("tx"), 0, "full");
        handle.lock().set_limit(1);
        assert_eq!(port.tx(&mut burst, &mut pool).expect("tx"), 1);
        assert!(umem.accounting(&pool, port.frames_held(), 0).balances());
        assert_eq!(handle.lock().collect().expect("sent").data(), [1; 60]);
        handle.lock().unplug();
        assert!(port.check().expect_err("gone").is_gone());
    }

    #[test]
    fn an_unplugged_port_is_gone() {
        let (_umem, mut pool) = setup(1);
        let mut port = MemoryPort::new("m0", 1);
        port.unplug();
        assert!(port.rx(&mut pool, &mut Burst::new()).expect_err("gone").is_gone());
        assert!(port.tx(&mut Burst::new(), &mut pool).expect_err("gone").is_gone());
    }
}
