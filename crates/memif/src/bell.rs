//! Wakes a peer that waits, from a thread of its own.
//!
//! The peer waits on an eventfd that is its own as much as ours. A write to one waits while its counter is full, and
//! both what is in it and whether a write may wait is the peer's to change at any time. So no worker writes to
//! it: it rings an eventfd of ours, and a thread that does nothing else passes that on. A peer that holds up that thread
//! holds up nobody but itself.
//!
//! A peer that looks by itself, as DPDK's do, is never woken, and the thread sleeps.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use rustix::event::{EventfdFlags, eventfd};

use crate::fault::Faults;

/// The most threads of one interface, those included that peers hold up which are gone.
const MOST: usize = 256;

/// Eventfd that wakes a peer.
pub(crate) struct Bell {
    ours: Arc<OwnedFd>,
    is_over: Arc<AtomicBool>,
}

impl Bell {
    /// A bell for a peer that waits on `theirs`. To be made by a thread that may make threads.
    ///
    /// # Errors
    /// There is no thread or descriptor left, or peers that are gone hold up too many.
    pub(crate) fn new(theirs: OwnedFd, faults: &Arc<Faults>) -> std::io::Result<Self> {
        if faults.bells.fetch_add(1, Ordering::Relaxed) >= MOST {
            faults.bells.fetch_sub(1, Ordering::Relaxed);
            return Err(std::io::Error::from_raw_os_error(libc::EAGAIN));
        }
        let counted = Counted(Arc::clone(faults));
        // Ours alone: it never waits, as it is never rung so often.
        let ours = Arc::new(eventfd(0, EventfdFlags::CLOEXEC)?);
        let is_over = Arc::new(AtomicBool::new(false));
        let (rung, over) = (Arc::clone(&ours), Arc::clone(&is_over));
        thread::Builder::new().name("culvert-bell".into()).spawn(move || {
            let _counted = counted;
            let mut times = [0; 8];
            while rustix::io::read(&*rung, &mut times).is_ok() && !over.load(Ordering::Relaxed) {
                // An error is a peer's that gave us what it does not wait on.
                let _ = rustix::io::write(&theirs, &1_u64.to_ne_bytes());
            }
        })?;
        Ok(Self { ours, is_over })
    }

    /// Wakes the peer, soon.
    pub(crate) fn ring(&self) {
        let _ = rustix::io::write(&*self.ours, &1_u64.to_ne_bytes());
    }
}

impl Drop for Bell {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.ring();
    }
}

/// A thread that is counted, until its end.
struct Counted(Arc<Faults>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.bells.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    fn wait_for_none(faults: &Faults) -> bool {
        let end = Instant::now() + Duration::from_secs(20);
        while faults.bells.load(Ordering::Relaxed) > 0 && Instant::now() < end {
            thread::sleep(Duration::from_millis(1));
        }
        faults.bells.load(Ordering::Relaxed) == 0
    }

    #[test]
    fn it_wakes_and_ends() {
        let faults = Faults::new();
        let fd = eventfd(0, EventfdFlags::empty()).unwrap();
        let bell = Bell::new(fd.try_clone().unwrap(), &faults).unwrap();
        bell.ring();
        let mut times = [0; 8];
        assert_eq!(rustix::io::read(&fd, &mut times), Ok(8));
        drop(bell);
        assert!(wait_for_none(&faults));
    }

    #[test]
    fn a_peer_that_cannot_be_woken_holds_up_nobody() {
        let faults = Faults::new();
        let fd = eventfd(0, EventfdFlags::empty()).unwrap();
        rustix::io::write(&fd, &(u64::MAX - 1).to_ne_bytes()).unwrap();
        let bells: Vec<_> =
            (0..MOST).map(|_| Bell::new(fd.try_clone().unwrap(), &faults).unwrap()).collect();
        bells.iter().for_each(Bell::ring);
        assert!(Bell::new(fd.try_clone().unwrap(), &faults).is_err(), "there are enough");
        // All threads wait, and nobody waits for them.
        drop(bells);
        // There is room again for all of them.
        rustix::io::read(&fd, &mut [0; 8]).unwrap();
        assert!(wait_for_none(&faults));
    }
}
