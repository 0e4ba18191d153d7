//! The network's end of the gateway: a port in memory that has no more packets under way than the application's rings
//! have room for. What is beyond that would be dropped at a full ring, and what is measured is the rate without loss.

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use io::{Burst, FramePool, Port, PortCounters, PortError};

use crate::port::WirePort;

/// A port that waits for what it has given to come back.
pub(super) struct Network {
    port: WirePort,
    most: usize,
    /// Packets that were received and not sent yet.
    away: usize,
}

impl Network {
    /// With so many packets under way at most, and a burst more.
    pub(super) fn new(port: WirePort, most: usize) -> Network {
        Network { port, most, away: 0 }
    }
}

impl Port for Network {
    fn rx(&mut self, pool: &mut FramePool, out: &mut Burst) -> Result<usize, PortError> {
        if self.away >= self.most {
            return Ok(0);
        }
        let count = self.port.rx(pool, out)?;
        self.away += count;
        Ok(count)
    }

    fn tx(&mut self, burst: &mut Burst, pool: &mut FramePool) -> Result<usize, PortError> {
        let count = self.port.tx(burst, pool)?;
        self.away = self.away.saturating_sub(count);
        Ok(count)
    }

    fn reclaim(&mut self, pool: &mut FramePool) -> Result<(), PortError> {
        self.port.reclaim(pool)
    }

    fn check(&mut self) -> Result<(), PortError> {
        self.port.check()
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn frames_held(&self) -> usize {
        self.port.frames_held()
    }

    fn counters(&self) -> Arc<PortCounters> {
        self.port.counters()
    }
}
