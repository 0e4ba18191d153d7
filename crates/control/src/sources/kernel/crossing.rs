//! How an SA crosses from the kernel to the fast path, and back.
//!
//! | | at once | when what was under way has ended |
//! | --- | --- | --- |
//! | outbound, in | its policies' packets are led here, and given to Linux; then they are held | the kernel is quiet: numbers are leased, the SA is published, what was held goes |
//! | outbound, back | the SA is taken from packets: they are held | the last number is told exactly; the policies are Linux's: what was held goes to it |
//! | inbound, in | the SA is published with the kernel's window, and steered | what the kernel received meanwhile is merged |
//! | inbound, back | the window is told, and the SA is not steered any more | it is taken from packets, and what was received meanwhile is told |
//!
//! Between two steps all workers take over what has changed, and finish the packets that they had.

use std::io;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use esp::Sa;
use policy::SaEntry;
use report::Gone;
use tracing::{debug, info, warn};
use xfrm::{KernelNumbers, Replay};

use super::lease::{self, Lease};
use super::model::{Closed, KnownSa, Place, SaKey, Side};
use super::timing::INTERVAL;
use super::why::Why;
use super::{KernelSource, Merge};
use crate::clock::Now;
use crate::sources::live::{has, replay_of};
use crate::texts::spi_text;

/// How long packets may be between where they are steered and the kernel's cipher. None is held meanwhile.
const UNDER_WAY: Duration = Duration::from_millis(20);

/// For how long the kernel must not have encrypted, while packets are held; and how long that is waited for.
const QUIET: Duration = Duration::from_millis(5);
const QUIET_WAIT: Duration = Duration::from_millis(500);

/// On a machine that is busy all this takes longer: so often this thread has to have had its turn as well, and so
/// everybody else theirs. If that takes very long, it goes on.
const LOOKS: u32 = 5;
const LOOKS_WAIT: Duration = Duration::from_secs(2);

/// How long packets may be between where they are steered and a worker.
const DRAIN: Duration = Duration::from_millis(5);

/// How long an SA on its way back waits for a kernel that does not take its last number.
const TOLD_WITHIN: Duration = Duration::from_secs(2);

/// How long an SA that the kernel uses, or whose numbers it does not tell, is left to it: at first, and twice
/// as long each time that it happens again.
const LEFT_FOR: Duration = Duration::from_secs(30);
const LEFT_AT_MOST: Duration = Duration::from_secs(3600);

/// Linux's default for `net.core.xfrm_aevent_rseqth`.
const USUAL_THRESHOLD: u32 = 2;

/// How often the kernel may encrypt by an SA of the fast path before it is left to it, and for how long
/// that counts.
const STRIKES: u32 = 1;
const STRIKES_LAST: Duration = Duration::from_secs(30);

/// How often right after it was taken over, and how long that is: a slow machine may still have had packets.
const STRIKES_AT_FIRST: u32 = 4;
const SETTLES: Duration = Duration::from_secs(2);

impl KernelSource {
    /// Begins to take an SA over.
    pub(super) fn enter(&mut self, now: Now, key: SaKey) {
        let Some(known) = self.model.sa_mut(&key) else { return };
        let id = known.learnt.id;
        let numbers = match self.kernel.numbers(&id) {
            Ok(Some(numbers)) => numbers,
            Ok(None) => return,
            Err(error) => return self.give_up(now, key, &error),
        };
        // What is refused need not cross.
        if let Ok((config, keys)) = &known.learnt.carried
            && let Err(text) =
                self.published.prepare(config, keys, &numbers.replay, &numbers.counters, None)
        {
            return self.refuse(key, text);
        }
        known.written = numbers;
        known.kernels = known.untold();
        known.place = Place::Entering(now.at);
        (known.quiet, known.looks) = (None, 0);
        self.moving.insert(key);
        if known.side == Some(Side::In) {
            self.publish(key);
            if self.published.databases().sa(&id).is_some() {
                self.published.steer(&id, true);
            }
        }
    }

    /// Puts an SA together from what the kernel told, and lets packets use it.
    fn publish(&mut self, key: SaKey) {
        let Some(known) = self.model.sa_mut(&key) else { return };
        let Ok((config, keys)) = &known.learnt.carried else { return };
        let KernelNumbers { replay, counters, .. } = &known.written;
        let replay = match &known.inherited {
            Some(before) => union(replay, &before.replay, config.params.replay_window),
            None => replay.clone(),
        };
        match self.published.prepare(config, keys, &replay, counters, known.ceiling) {
            Ok(sa) => {
                self.published.add(config, keys, sa);
                known.inherited = None;
            }
            Err(text) => self.refuse(key, text),
        }
    }

    /// The data path does not take an SA.
    fn refuse(&mut self, key: SaKey, text: String) {
        let Some(known) = self.model.sa_mut(&key) else { return };
        warn!(spi = spi(known), "{text}: it stays with the kernel");
        known.why = Some(Why::Refused(text));
        known.place = Place::Kernel;
        self.moving.remove(&key);
        self.touched.extend(self.model.link_of(&key));
    }

    /// Begins to hand an SA back.
    pub(super) fn leave(&mut self, now: Now, key: SaKey, why: Why) {
        let Some(known) = self.model.sa_mut(&key) else { return };
        let id = known.learnt.id;
        debug!(spi = spi(known), %why, "goes back to the kernel");
        known.why = Some(why);
        let was_published = self.published.databases().sa(&id).is_some();
        match known.side {
            // Nothing was numbered yet.
            _ if !was_published => {
                known.place = Place::Kernel;
                self.moving.remove(&key);
                self.touched.extend(self.model.link_of(&key));
                return;
            }
            Some(Side::Out) => known.closing = self.published.remove(&id, Gone::LeftToKernel),
            Some(Side::In) | None => {
                if let Err(error) = self.write_window(now, key) {
                    warn!(%error, "the kernel was not told a replay window");
                }
                self.published.steer(&id, false);
            }
        }
        if let Some(known) = self.model.sa_mut(&key) {
            (known.place, known.looks) = (Place::Leaving(now.at), 0);
            self.moving.insert(key);
        }
    }

    /// Moves on what is on its way.
    pub(super) fn move_on(&mut self, now: Now) {
        let ready: Vec<SaKey> = self.moving.iter().copied().collect();
        for key in ready {
            let Some(known) = self.model.sa_mut(&key) else {
                self.moving.remove(&key);
                continue;
            };
            known.looks += 1;
            let has_drained = |since: Instant| has_waited(now.since(since), DRAIN, known.looks);
            let result = match (known.place, known.side) {
                (Place::Entering(since), Some(Side::Out)) => self.number(now, key, since),
                (Place::Entering(since), _) if has_drained(since) => self.settle_in(now, key),
                (Place::Leaving(since), Some(Side::Out)) => self.return_numbers(now, key, since),
                (Place::Leaving(since), _) if has_drained(since) => self.return_window(now, key),
                _ => Ok(()),
            };
            if let Err(error) = result {
                self.give_up(now, key, &error);
            }
        }
    }

    /// Outbound: ports and routes lead here. Takes the policies when what was on the old way has gone; and when
    /// the kernel has become quiet, leases numbers and lets packets use them.
    fn number(&mut self, now: Now, key: SaKey, entered: Instant) -> io::Result<()> {
        if self.policies_of_linux(&key).next().is_some() {
            let looks = self.model.sa(&key).map_or(0, |known| known.looks);
            if has_waited(now.since(entered), UNDER_WAY, looks) {
                self.take_policies(&key);
                self.begin_quiet(now, key)?;
            }
            return Ok(());
        }
        let Some(known) = self.model.sa_mut(&key) else { return Ok(()) };
        let id = known.learnt.id;
        let (quiet_since, held_since) = *known.quiet.get_or_insert((now.at, now.at));
        let Some(told) = self.kernel.numbers(&id)? else { return Ok(()) };
        let is_quiet = told.replay.sent == known.written.replay.sent;
        known.written = told;
        if !is_quiet {
            (known.quiet, known.looks) = (Some((now.at, held_since)), 0);
        }
        // A fresh one was not used by anybody.
        let is_fresh = known.written.replay.sent == 0;
        let has_waited = is_fresh || has_waited(now.since(quiet_since), QUIET, known.looks);
        let held = now.since(held_since);
        let may_wait = held < QUIET_WAIT || is_quiet && held < LOOKS_WAIT;
        if !(is_quiet && has_waited) && may_wait {
            return Ok(());
        }
        let is_esn = known.learnt.carried.as_ref().is_ok_and(|(config, _)| config.params.esn);
        match lease::take(&mut self.kernel, &id, 0, is_esn)? {
            Lease::Taken(before, ceiling) => {
                known.written = before;
                known.ceiling = Some(ceiling);
                known.kernels = known.untold();
                self.publish(key);
                if let Some(known) = self.model.sa_mut(&key) {
                    known.written.replay.sent = ceiling;
                }
                // Each packet that the kernel encrypts takes the peer's window beyond what is sent here.
                self.kernel.set_threshold(&id, 1)?;
                self.arrived(now, key);
            }
            Lease::Gone => {}
            Lease::InUse => self.put_off(now, key, Why::InUse),
        }
        Ok(())
    }

    /// Packets are held from now on: whether the kernel still encrypts is watched.
    fn begin_quiet(&mut self, now: Now, key: SaKey) -> io::Result<()> {
        let Some(known) = self.model.sa_mut(&key) else { return Ok(()) };
        (known.quiet, known.looks) = (Some((now.at, now.at)), 0);
        if let Some(numbers) = self.kernel.numbers(&known.learnt.id)? {
            known.written = numbers;
        }
        Ok(())
    }

    /// Inbound: what the kernel received until it was steered is known now.
    fn settle_in(&mut self, now: Now, key: SaKey) -> io::Result<()> {
        self.merge(now, key)?;
        self.arrived(now, key);
        Ok(())
    }

    fn arrived(&mut self, now: Now, key: SaKey) {
        self.moving.remove(&key);
        let Some(known) = self.model.sa_mut(&key) else { return };
        if matches!(known.place, Place::Entering(_)) {
            (known.place, known.why, known.written_at) = (Place::Fast, None, now.at);
            known.arrived_at = Some(now.at);
            info!(spi = spi(known), src = %known.learnt.src, dst = %known.learnt.id.dst, "taken over");
            self.to_write.insert((now.at + INTERVAL, key));
        }
    }

    /// Outbound: workers have let go of it; the kernel is told the last number. It is told again for a while if it does not
    /// answer, while packets are held.
    fn return_numbers(&mut self, now: Now, key: SaKey, left: Instant) -> io::Result<()> {
        match self.tell_last(key) {
            Err(error) if now.since(left) < TOLD_WITHIN => {
                debug!(%error, "a last number is told again")
            }
            Err(error) => {
                self.returned(key);
                return Err(error);
            }
            Ok(()) => self.returned(key),
        }
        Ok(())
    }

    /// Tells the kernel counts and the last number of an outbound SA that was taken from packets.
    fn tell_last(&mut self, key: SaKey) -> io::Result<()> {
        let Some(known) = self.model.sa_mut(&key) else { return Ok(()) };
        let Some(entry) = known.closing.clone() else { return Ok(()) };
        let (id, live) = (known.learnt.id, entry.esp.live());
        // From here on nobody gets a number, also a worker that has not let go yet.
        let closed = || Closed { last: live.close(), leased: None };
        let last = known.closed.get_or_insert_with(closed).last;
        if known.closed.as_ref().is_some_and(|closed| closed.leased.is_none()) {
            if let Some(told) = self.kernel.numbers(&id)? {
                known.note_kernels(&told);
            }
            known.written.counters = known.counters(live);
            self.kernel.set_counters(&id, &known.written)?;
            self.kernel.set_threshold(&id, USUAL_THRESHOLD)?;
            known.closed = Some(Closed { last, leased: Some(known.written.clone()) });
        }
        if let Some(leased) = known.closed.as_ref().and_then(|closed| closed.leased.as_ref()) {
            lease::give_back(&mut self.kernel, &id, leased, last, entry.config.params.esn)?;
        }
        Ok(())
    }

    /// Inbound: the kernel has the packets again. When workers have let go of the SA, the kernel is told what
    /// was received until then.
    fn return_window(&mut self, now: Now, key: SaKey) -> io::Result<()> {
        let Some(known) = self.model.sa_mut(&key) else { return Ok(()) };
        let id = known.learnt.id;
        if let Some(entry) = self.published.remove(&id, Gone::LeftToKernel) {
            known.closing = Some(entry);
            return Ok(());
        }
        if let Some(entry) = known.closing.take() {
            self.tell_window(now, key, &entry)?;
        }
        self.returned(key);
        Ok(())
    }

    fn returned(&mut self, key: SaKey) {
        self.moving.remove(&key);
        let Some(known) = self.model.sa_mut(&key) else { return };
        (known.place, known.ceiling) = (Place::Kernel, None);
        (known.closing, known.closed) = (None, None);
        let why = known.why.as_ref().map(ToString::to_string).unwrap_or_default();
        info!(spi = spi(known), src = %known.learnt.src, dst = %known.learnt.id.dst, why, "handed back");
        self.touched.extend(self.model.link_of(&key));
    }

    /// An SA stays with the kernel for a while.
    pub(super) fn put_off(&mut self, now: Now, key: SaKey, why: Why) {
        let Some(known) = self.model.sa_mut(&key) else { return };
        let left_for = known.left_for.map_or(LEFT_FOR, |before| (before * 2).min(LEFT_AT_MOST));
        let until = now.at + left_for;
        (known.left_until, known.left_for) = (Some(until), Some(left_for));
        match known.place {
            Place::Kernel | Place::Leaving(_) => known.why = Some(why),
            Place::Entering(_) | Place::Fast => {
                warn!(spi = spi(known), "{why}: left to it for {} s", left_for.as_secs());
                self.leave(now, key, why);
            }
        }
        if let Some(link) = self.model.link_of(&key) {
            self.touched.insert(link);
            self.revisits.insert((until, link));
        }
    }

    /// The kernel has encrypted by an SA: the fast path goes on behind its numbers, or leaves it to the kernel
    /// if that happens often.
    pub(super) fn catch_up(&mut self, now: Now, key: SaKey) -> io::Result<()> {
        let Some(known) = self.model.sa_mut(&key) else { return Ok(()) };
        let id = known.learnt.id;
        let (strikes, last) = known.strikes;
        let is_settled = known.arrived_at.is_some_and(|at| now.since(at) > SETTLES);
        let most = if is_settled { STRIKES } else { STRIKES_AT_FIRST };
        let strikes = match now.since(last) > STRIKES_LAST {
            _ if now.at < self.lenient_until => 0,
            true => 1,
            false => strikes + 1,
        };
        known.strikes = (strikes, now.at);
        let Some(entry) = self.published.databases().sa(&id) else { return Ok(()) };
        if strikes > most {
            self.put_off(now, key, Why::InUse);
            return Ok(());
        }
        let sent = entry.esp.live().sent().load(Relaxed);
        match lease::take(&mut self.kernel, &id, sent, entry.config.params.esn)? {
            Lease::Taken(before, ceiling) => {
                debug!(
                    spi = spi(known),
                    from = before.replay.sent,
                    "the kernel has encrypted by it"
                );
                known.note_kernels(&before);
                known.written.replay = before.replay;
                entry.esp.live().sent().fetch_max(known.written.replay.sent, Relaxed);
                known.written.replay.sent = ceiling;
                known.ceiling = Some(ceiling);
                entry.esp.raise_ceiling(ceiling);
            }
            Lease::Gone => {}
            Lease::InUse => self.put_off(now, key, Why::InUse),
        }
        Ok(())
    }

    /// The kernel did not do what it was asked: the SA is left to it.
    pub(super) fn give_up(&mut self, now: Now, key: SaKey, error: &io::Error) {
        self.put_off(now, key, Why::Numbers(error.to_string()));
    }

    /// Has the data path's window know what the kernel's does.
    pub(super) fn merge(&mut self, now: Now, key: SaKey) -> io::Result<()> {
        let Some(known) = self.model.sa_mut(&key) else { return Ok(()) };
        let id = known.learnt.id;
        let Some(told) = self.kernel.numbers(&id)? else { return Ok(()) };
        known.note_kernels(&told);
        if told.replay != known.written.replay {
            let Replay { edge, received, .. } = told.replay.clone();
            self.merges.push((now.at, Merge { sa: id, edge, received }));
            known.written.replay = told.replay;
        }
        Ok(())
    }

    /// Tells the kernel the window of an SA of the fast path.
    pub(super) fn write_window(&mut self, now: Now, key: SaKey) -> io::Result<()> {
        let id = self.model.sa(&key).map(|known| known.learnt.id);
        let entry = id.and_then(|id| self.published.databases().sa(&id));
        entry.map_or(Ok(()), |entry| self.tell_window(now, key, &entry))
    }

    /// Tells the kernel a window, with what the kernel itself received.
    fn tell_window(&mut self, now: Now, key: SaKey, entry: &SaEntry<Sa>) -> io::Result<()> {
        self.merge(now, key)?;
        let Some(known) = self.model.sa_mut(&key) else { return Ok(()) };
        let id = known.learnt.id;
        let mut next = known.written.clone();
        let size = entry.esp.replay().size();
        next.replay = union(&known.written.replay, &replay_of(&entry.esp), size);
        next.counters = known.counters(entry.esp.live());
        let is_new = next.counters != known.written.counters;
        match next.replay != known.written.replay {
            true => self.kernel.set_numbers(&id, &next).map(drop)?,
            false if is_new => self.kernel.set_counters(&id, &next).map(drop)?,
            false => {}
        }
        known.written = next;
        Ok(())
    }
}

/// True if all that was under way has ended, after so long a time.
fn has_waited(waited: Duration, at_least: Duration, looks: u32) -> bool {
    waited >= at_least && looks >= LOOKS || waited >= LOOKS_WAIT
}

/// Union of two windows, in a window of this size that ends at the higher edge; in the form of the
/// first, which is the kernel's.
fn union(kernels: &Replay, ours: &Replay, size: u32) -> Replay {
    let edge = kernels.edge.max(ours.edge);
    let mut received = vec![0u64; kernels.received.len()];
    for back in 0..u64::from(size).min(edge) {
        let number = edge - back;
        let seen = |of: &Replay| number <= of.edge && has(of, number);
        if (seen(kernels) || seen(ours))
            && let Some(word) = received.get_mut((back / 64) as usize)
        {
            *word |= 1 << (back % 64);
        }
    }
    Replay { sent: kernels.sent, edge, received }
}

/// As logs show it.
fn spi(known: &KnownSa) -> String {
    spi_text(known.learnt.id.spi)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replay(edge: u64, received: &[u64]) -> Replay {
        Replay { sent: 9, edge, received: received.to_vec() }
    }

    #[test]
    fn a_union_has_what_either_has() {
        // 100, 98 and 97; 102 and 99.
        let both = union(&replay(100, &[0b1101]), &replay(102, &[0b1001]), 32);
        assert_eq!(both, replay(102, &[0b111101]));
        let far = union(&replay(1000, &[1, 0]), &replay(900, &[1, 0]), 128);
        assert_eq!(far, replay(1000, &[1, 1 << (100 - 64)]));
        // Not beyond the window.
        assert_eq!(union(&replay(1000, &[1, 0]), &replay(900, &[1, 0]), 100).received, [1, 0]);
        assert_eq!(union(&replay(0, &[0]), &replay(0, &[0]), 32).received, [0]);
    }
}
