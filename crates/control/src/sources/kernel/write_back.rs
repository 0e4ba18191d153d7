//! Write-back to the kernel while an SA is in the fast path: counters, windows, limits that were reached.
//!
//! The kernel's use times (`last use` of an SA, `use` of a policy), from which IKE daemons tell whether
//! a peer is alive, cannot be told: only a packet that the kernel itself decrypts moves them. So from each
//! inbound SA with traffic one packet in a while passes to the kernel, with its window up to date.

use std::io;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use policy::PolicyConfig;
use tracing::debug;

use super::KernelSource;
use super::lease::{self, Lease};
use super::model::{Place, SaKey, Side};
use super::timing::INTERVAL;
use super::touch::{touch, within};
use crate::clock::Now;

/// How often an outbound SA's lease is looked at.
const LEASE_INTERVAL: Duration = Duration::from_millis(100);

/// Most SAs that one round tells of, so that everything else has its turn.
const AT_ONCE: usize = 256;

impl KernelSource {
    /// Tells the kernel what is due.
    pub(super) fn write_back(&mut self, now: Now) {
        for _ in 0..AT_ONCE {
            let Some((due, key)) = self.to_write.first().copied() else { break };
            if due > now.at {
                break;
            }
            self.to_write.remove(&(due, key));
            let Some(known) = self.model.sa(&key).filter(|known| known.place == Place::Fast) else {
                continue;
            };
            let (result, interval) = match known.side {
                Some(Side::Out) => (self.write_outbound(key, now), LEASE_INTERVAL),
                _ => (self.write_inbound(now, key), INTERVAL),
            };
            match result {
                Ok(()) => {
                    self.to_write.insert((now.at + interval, key));
                }
                Err(error) => self.give_up(now, key, &error),
            }
        }
    }

    /// Outbound: the lease first, then the counters.
    fn write_outbound(&mut self, key: SaKey, now: Now) -> io::Result<()> {
        let Some(known) = self.model.sa_mut(&key) else { return Ok(()) };
        let id = known.learnt.id;
        let Some(entry) = self.published.databases().sa(&id) else { return Ok(()) };
        let live = entry.esp.live();
        let (sent, ceiling) = (live.sent().load(Relaxed), known.ceiling.unwrap_or(0));
        let is_esn = entry.config.params.esn;
        let last = lease::last_number(is_esn);
        if ceiling < last && ceiling.saturating_sub(sent) < lease::RENEW_BELOW {
            match lease::renew(&mut self.kernel, &id, &known.written, is_esn)? {
                Lease::Taken(_, ceiling) => {
                    known.ceiling = Some(ceiling);
                    known.written.replay.sent = ceiling;
                    entry.esp.raise_ceiling(ceiling);
                }
                Lease::Gone => return Ok(()),
                Lease::InUse => return self.catch_up(now, key),
            }
        }
        if now.since(known.written_at) < INTERVAL {
            return Ok(());
        }
        known.written_at = now.at;
        // Only counters: a number that the kernel has used meanwhile must not come back.
        if known.counters(live) != known.written.counters {
            let Some(told) = self.kernel.numbers(&id)? else { return Ok(()) };
            if lease::is_used(&told, &known.written) {
                return self.catch_up(now, key);
            }
            known.written.counters = known.counters(live);
            self.kernel.set_counters(&id, &known.written)?;
            self.touch_policies(key);
        }
        Ok(())
    }

    /// Moves the use time of an outbound SA's policies that have had packets since the last time.
    fn touch_policies(&mut self, key: SaKey) {
        let Some(known) = self.model.sa(&key) else { return };
        let of_sa = known.learnt.carried.as_ref().ok().and_then(|(config, _)| config.selector);
        for policy in self.model.users(&key) {
            let PolicyConfig { index, selector, if_id, .. } = policy.config;
            // Linux looks one of an XFRM interface up for the packets alone that it sends by that.
            if if_id != 0 {
                continue;
            }
            let Some(entry) = self.published.databases().policy(index) else { continue };
            let packets = entry.packets();
            let flow = within(&selector, of_sa.as_ref());
            if self.policy_uses.insert(index, packets).unwrap_or(0) != packets
                && let Err(error) = touch(&flow, self.marks.past)
            {
                debug!(%error, index, "the use time of a policy was not moved");
            }
        }
    }

    /// Inbound: window and counters, and one packet for the kernel.
    fn write_inbound(&mut self, now: Now, key: SaKey) -> io::Result<()> {
        let Some(known) = self.model.sa(&key) else { return Ok(()) };
        let (id, before) = (known.learnt.id, known.written.counters);
        self.write_window(now, key)?;
        if self.model.sa(&key).is_some_and(|known| known.written.counters != before) {
            self.samples.push((id.dst, id.spi));
        }
        Ok(())
    }

    /// The kernel says that it has used an SA.
    pub(super) fn used_by_kernel(&mut self, now: Now, key: SaKey) {
        let Some(known) = self.model.sa(&key).filter(|known| known.place == Place::Fast) else {
            return;
        };
        let result = match known.side {
            Some(Side::Out) => {
                let (id, written) = (known.learnt.id, known.written.clone());
                match self.kernel.numbers(&id) {
                    Ok(Some(told)) if lease::is_used(&told, &written) => self.catch_up(now, key),
                    Ok(_) => Ok(()),
                    Err(error) => Err(error),
                }
            }
            _ => self.merge(now, key),
        };
        if let Err(error) = result {
            self.give_up(now, key, &error);
        }
    }
}
