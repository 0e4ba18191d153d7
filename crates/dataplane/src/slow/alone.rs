//! Work of a worker that no helper shares a turn with.
//!
//! An SA has one writer of its numbers at a time. While bursts are with helpers that is the holder of the turn, so
//! what the worker moves on by itself waits until none is with them: the functions here are all that it has for that,
//! and they are had by [`Alone`] alone.

use arrayvec::ArrayVec;
use io::{BURST_LEN, Burst};
use policy::SaHandle;

use super::again::{retry, send_errors};
use super::bfd::send_bfd;
use super::from_devices::exchange;
use super::gathered::move_on_gathered;
use super::handed::{take_over, take_over_of_others};
use super::judged::take_judged;
use super::left::move_on_left;
use super::paths::send_probes;
use super::payloads::{expire_payloads, move_on_payloads};
use super::waited::move_on_waited;
use super::{Resting, Slow};
use crate::burst::{Misses, Path};
use crate::crypt::Inflation;
use crate::model::{Handed, Left, Metas, Parcel, Source};

/// A worker whose helpers have no turn: none of them has a burst, or the one that came back has kept its turn.
///
/// It borrows the worker, so nothing is handed to helpers while there is one.
pub(crate) struct Alone<'w> {
    path: &'w mut Path,
    slow: &'w mut Slow,
}

impl<'w> Alone<'w> {
    /// For a worker that has seen to it.
    pub(crate) fn of(path: &'w mut Path, Resting(slow): &'w mut Resting) -> Alone<'w> {
        Alone { path, slow }
    }

    /// Moves each packet of a burst on that a port has brought.
    pub(crate) fn run(&mut self, burst: &mut Burst, metas: &mut Metas, source: Source) {
        self.path.run(self.slow, burst, metas, source);
        if self.path.exec.has_gathered() {
            move_on_gathered(self.slow, self.path);
        }
    }

    /// Opens what was gathered, and moves on what was inside.
    pub(crate) fn open_gathered(&mut self) {
        self.path.open_gathered(self.slow);
    }

    /// Seals what was gathered, and sends it.
    pub(crate) fn seal_gathered(&mut self) {
        self.path.exec.seal_gathered(&self.path.view, self.slow.turn());
    }

    /// Opens and seals what was gathered.
    pub(crate) fn finish(&mut self) {
        self.path.finish(self.slow);
    }

    /// Sends on what waited for SAs that are there now.
    pub(crate) fn retry(&mut self) {
        retry(self.slow, self.path);
    }

    /// Moves on what is done with, and what payloads of IP-TFS hold.
    pub(crate) fn move_on_gathered(&mut self) {
        move_on_gathered(self.slow, self.path);
        self.path.open_gathered(self.slow);
    }

    /// Sends the ICMP errors that were made.
    pub(crate) fn send_errors(&mut self) {
        send_errors(self.slow, self.path);
    }

    /// Sends reflections that wait, and probes that are due.
    pub(crate) fn send_probes(&mut self) {
        send_probes(self.slow, self.path);
    }

    /// Sends the packets of BFD that are due.
    pub(crate) fn send_bfd(&mut self) {
        send_bfd(self.slow, self.path);
    }

    /// Moves on what was done with, and brings what that leaves to its end: errors, reflections, and what is to be sealed.
    pub(crate) fn finish_gathered(&mut self) {
        self.move_on_gathered();
        self.send_errors();
        self.send_probes();
        self.path.exec.seal_gathered(&self.path.view, self.slow.turn());
    }

    /// Gives the devices what waits for them, and moves on what they have done.
    pub(crate) fn exchange(&mut self) {
        exchange(self.slow, self.path);
        self.path.open_gathered(self.slow);
    }

    /// Moves on packets that have waited here for this round's databases.
    pub(crate) fn take_late(&mut self, some: &mut ArrayVec<Handed, BURST_LEN>) {
        take_over(self.slow, self.path, some);
        move_on_gathered(self.slow, self.path);
    }

    /// Moves on what other workers have handed over.
    pub(crate) fn take_over(&mut self, parcels: ArrayVec<Parcel, BURST_LEN>) {
        let mut handed = take_judged(self.slow, self.path, parcels);
        self.path.exec.crypt.inflation = Inflation::WHOLE;
        take_over_of_others(self.slow, self.path, &mut handed);
        move_on_gathered(self.slow, self.path);
    }

    /// Moves on what a helper has left.
    pub(crate) fn move_on_left(&mut self, left: &mut ArrayVec<Left, BURST_LEN>, source: Source) {
        self.path.newcomers = source.newcomers;
        self.path.exec.crypt.inflation = Inflation::WHOLE;
        move_on_left(self.slow, self.path, left);
        self.finish_gathered();
    }

    /// Moves on what has tokens now.
    pub(crate) fn move_on_waited(&mut self) {
        move_on_waited(self.slow, self.path);
        move_on_gathered(self.slow, self.path);
    }

    /// Unites an SA's replay window with that of somebody else, whose highest number is `edge`. Bit 0 of the first word of
    /// `received` is that number, bit 1 the one before it.
    pub(crate) fn merge_window(&self, sa: SaHandle, edge: u64, received: &[u64]) {
        let Some(sa) = self.path.view.reader.sa(sa) else { return };
        sa.esp.replay().merge(edge, |number| {
            let back = edge - number;
            let word = usize::try_from(back / 64).ok().and_then(|word| received.get(word));
            word.is_some_and(|word| word >> (back % 64) & 1 == 1)
        });
    }

    /// Gives up payloads, and pieces of packets, that were waited for long enough.
    pub(crate) fn expire_payloads(&mut self) {
        expire_payloads(self.slow, self.path, false);
    }

    /// Takes payloads apart as they are, and has those leave that are being filled.
    pub(crate) fn settle_payloads(&mut self) {
        move_on_payloads(self.slow, self.path);
        expire_payloads(self.slow, self.path, true);
        self.path.exec.send_due(&self.path.view, self.slow.turn(), true);
    }
}
