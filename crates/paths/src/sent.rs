//! Probes that were sent, until they are forgotten.

use crate::traffic::Counted;

/// Most probes that a session remembers.
pub(crate) const MOST: usize = 256;

/// Fate of a probe so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Waiting,
    Answered,
    Lost,
}

/// A probe that was sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    pub(crate) seq: u32,
    pub(crate) at_ns: u64,
    /// Timestamp in it, which its reply repeats.
    pub(crate) token: u64,
    pub(crate) fate: Fate,
    /// Packets that were sent before it, if the far end was asked for its counts.
    pub(crate) counted: Option<Counted>,
}

/// The last probes of a session, by their numbers. The memory is as large as it is made.
#[derive(Clone, Debug)]
pub(crate) struct Log {
    places: Box<[Option<Sent>]>,
}

impl Log {
    /// Room for this many probes or more, [`MOST`] at most.
    pub(crate) fn new(probes: usize) -> Log {
        let len = probes.clamp(2, MOST).next_power_of_two();
        Log { places: vec![None; len].into_boxed_slice() }
    }

    fn place(&self, seq: u32) -> usize {
        seq as usize & (self.places.len() - 1)
    }

    /// Notes a probe. Returns the one whose place it takes.
    pub(crate) fn put(&mut self, sent: Sent) -> Option<Sent> {
        let place = self.place(sent.seq);
        self.places.get_mut(place)?.replace(sent)
    }

    /// The probe of a number, if it is remembered.
    pub(crate) fn get(&self, seq: u32) -> Option<&Sent> {
        let sent = self.places.get(self.place(seq))?;
        sent.as_ref().filter(|sent| sent.seq == seq)
    }

    pub(crate) fn get_mut(&mut self, seq: u32) -> Option<&mut Sent> {
        let place = self.place(seq);
        let sent = self.places.get_mut(place)?;
        sent.as_mut().filter(|sent| sent.seq == seq)
    }

    /// How many it remembers.
    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }
}
