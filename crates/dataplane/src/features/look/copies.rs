//! Copies of packets on their way to a classifier.
//!
//! Buffers go round: a worker fills one, hands it to the reader with the end of a round, and takes another that the reader has
//! given back. When there is none, packets are not copied, and counted as lost. So a reader that hangs, or is gone, costs copies
//! alone.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

/// Copies of packets.
#[derive(Debug)]
pub struct Copies {
    worker: usize,
    bytes: Vec<u8>,
}

/// A worker's end.
#[derive(Debug)]
pub struct Copier {
    worker: usize,
    filling: Option<Box<Copies>>,
    full: SyncSender<Box<Copies>>,
    free: Receiver<Box<Copies>>,
    shared: Arc<CopyCounts>,
}

/// The reader's end, of all workers.
#[derive(Debug)]
pub struct CopyReader {
    full: Receiver<Box<Copies>>,
    free: Vec<SyncSender<Box<Copies>>>,
    shared: Arc<CopyCounts>,
}

/// Counts that both ends share.
#[derive(Debug, Default)]
pub struct CopyCounts {
    copied: AtomicU64,
    lost: AtomicU64,
    waiting: AtomicU64,
}

/// All workers are gone, so that no copy comes any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoMore;

/// Buffers of each worker.
const BUFFERS: usize = 4;

/// Bytes of a buffer.
const BUFFER_BYTES: usize = 1 << 16;

/// Bytes that are copied of a packet at most: names stand in front, and super-packets are long.
const MOST_BYTES: usize = 4096;

/// Time and length in front of each copy, in bytes.
const HEAD_LEN: usize = 8 + 2;

/// Ends for so many workers, and the reader's. All memory is allocated here.
pub fn copies(workers: usize) -> (Vec<Copier>, CopyReader) {
    let shared = Arc::new(CopyCounts::default());
    let (full, read) = sync_channel(BUFFERS * workers.max(1));
    let mut free = Vec::new();
    let copier = |worker| {
        let (give, free_here) = sync_channel(BUFFERS);
        for _ in 0..BUFFERS {
            // There is room.
            let _ =
                give.try_send(Box::new(Copies { worker, bytes: Vec::with_capacity(BUFFER_BYTES) }));
        }
        free.push(give);
        let (full, shared) = (full.clone(), Arc::clone(&shared));
        Copier { worker, filling: None, full, free: free_here, shared }
    };
    let copiers = (0..workers).map(copier).collect();
    (copiers, CopyReader { full: read, free, shared })
}

impl Copier {
    /// Copies the beginning of an IP packet, and has `change` work on the copy.
    pub(super) fn copy(&mut self, now_ns: u64, packet: &[u8], change: impl FnOnce(&mut [u8])) {
        let kept = packet.get(..MOST_BYTES).unwrap_or(packet);
        let has_room = |copies: &Copies| copies.bytes.len() + HEAD_LEN + kept.len() <= BUFFER_BYTES;
        if self.filling.as_deref().is_some_and(|copies| !has_room(copies)) {
            self.tell();
        }
        if self.filling.is_none() {
            self.filling = self.free.try_recv().ok();
        }
        let Some(copies) = &mut self.filling else {
            self.shared.lost.fetch_add(1, Relaxed);
            return;
        };
        copies.bytes.extend(now_ns.to_ne_bytes());
        copies.bytes.extend((kept.len() as u16).to_ne_bytes());
        let start = copies.bytes.len();
        copies.bytes.extend_from_slice(kept);
        change(copies.bytes.get_mut(start..).unwrap_or_default());
        self.shared.copied.fetch_add(1, Relaxed);
    }

    /// A round is over: tells what there is, unless the reader has something to do.
    pub(super) fn end_round(&mut self) {
        let is_to_tell = self.filling.as_ref().is_some_and(|copies| {
            let is_awaited = self.shared.waiting.load(Relaxed) == 0;
            !copies.bytes.is_empty() && (is_awaited || copies.bytes.len() > BUFFER_BYTES / 2)
        });
        if is_to_tell {
            self.tell();
        }
    }

    fn tell(&mut self) {
        let Some(copies) = self.filling.take() else { return };
        self.shared.waiting.fetch_add(1, Relaxed);
        // There is room for all of them; a reader that is gone needs none.
        let _ = self.full.try_send(copies);
    }

    /// The worker's number, from 0.
    pub fn worker(&self) -> usize {
        self.worker
    }
}

impl CopyReader {
    /// The next buffer, to be [given back](CopyReader::give_back); none if none comes for so long.
    ///
    /// # Errors
    /// All workers are gone.
    pub fn next(&self, patience: Duration) -> Result<Option<Box<Copies>>, NoMore> {
        match self.full.recv_timeout(patience) {
            Ok(copies) => Ok(Some(copies)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(NoMore),
        }
    }

    /// Gives a buffer back to its worker.
    pub fn give_back(&self, mut copies: Box<Copies>) {
        copies.bytes.clear();
        self.shared.waiting.fetch_sub(1, Relaxed);
        if let Some(free) = self.free.get(copies.worker) {
            // A worker that is gone needs none.
            let _ = free.try_send(copies);
        }
    }

    /// Counts of copies, for who shows them while another thread reads.
    pub fn shared(&self) -> Arc<CopyCounts> {
        Arc::clone(&self.shared)
    }
}

impl CopyCounts {
    /// Packets that were copied.
    pub fn copied(&self) -> u64 {
        self.copied.load(Relaxed)
    }

    /// Packets that were not copied for lack of a buffer.
    pub fn lost(&self) -> u64 {
        self.lost.load(Relaxed)
    }
}

impl Copies {
    /// Each packet, with the time of the workers' clock in nanoseconds.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &[u8])> {
        let mut rest = self.bytes.as_slice();
        core::iter::from_fn(move || {
            let (time, after) = rest.split_first_chunk::<8>()?;
            let (len, after) = after.split_first_chunk::<2>()?;
            let (packet, after) = after.split_at_checked(u16::from_ne_bytes(*len).into())?;
            rest = after;
            Some((u64::from_ne_bytes(*time), packet))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_that_hangs_costs_copies_alone() {
        let (mut copiers, reader) = copies(2);
        let copier = &mut copiers[1];
        let packet = [7; 9000];
        for now_ns in 0..1000 {
            copier.copy(now_ns, &packet, |copy| copy[0] = 1);
            copier.end_round();
        }
        let shared = reader.shared();
        assert_eq!((shared.copied() + shared.lost(), shared.lost() > 900), (1000, true));
        let mut seen = 0;
        while let Ok(Some(copies)) = reader.next(Duration::ZERO) {
            for (time_ns, packet) in copies.iter() {
                assert_eq!((time_ns, packet.len(), packet[0], packet[1]), (seen, MOST_BYTES, 1, 7));
                seen += 1;
            }
            reader.give_back(copies);
        }
        let lost = shared.lost();
        copier.copy(5, &packet, |_| {});
        assert_eq!(shared.lost(), lost, "it goes on once the reader does");
        assert!(seen > 0 && seen <= shared.copied());
    }

    #[test]
    fn a_reader_without_workers_ends() {
        let (copiers, reader) = copies(1);
        drop(copiers);
        assert_eq!(reader.next(Duration::ZERO).map(|copies| copies.is_some()), Err(NoMore));
    }
}
