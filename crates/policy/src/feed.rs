//! From the writer to the readers: every change, in order, in a queue of each reader's own.

use core::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Release},
};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};

use crate::groups::{Groups, V4, V6};
use crate::hash::Tag;
use crate::model::{Action, Direction};
use crate::policy_entry::PolicyEntry;
use crate::sa_slot::SaSlot;
use crate::slots::Piece;
use crate::stamp::Spot;
use crate::table::Table;

/// One step from one state of the databases to the next.
pub(crate) enum Change<S> {
    /// Room for more SAs.
    SaRoom(Piece<SaSlot<S>>),
    /// Room for more policies.
    PolicyRoom(Piece<Option<Arc<PolicyEntry>>>),
    /// A larger index.
    Inbound(Arc<Table>),
    /// A larger index.
    Outbound(Arc<Table>),
    /// SAs come and go.
    Sa(SaChange<S>),
    /// Groups of policies come and go.
    GroupsV4(Direction, Groups<V4>),
    /// Groups of IPv6 policies come and go.
    GroupsV6(Direction, Groups<V6>),
    /// Policies come and go.
    Policy(PolicyChange),
    /// The default action of a direction.
    Default(Direction, Action),
    /// True if any selector names an interface.
    Interfaces(bool),
    /// True if any selector names ports.
    Ports(bool),
    /// True if any SA is for the packets of one CPU.
    Cpus(bool),
    /// True if some policy is for ICMP errors too.
    Errors(bool),
    /// Voids the stamps of the flows that a policy may match.
    Again(Spot),
}

/// An SA goes, or comes, or comes in the place of another.
pub(crate) struct SaChange<S> {
    pub(crate) remove: Option<(u32, Tag)>,
    pub(crate) insert: Option<(u32, Tag, SaSlot<S>)>,
}

/// A policy goes, or comes, or comes in the place of another.
pub(crate) struct PolicyChange {
    pub(crate) remove: Option<(PolicySlots, Spot)>,
    pub(crate) insert: Option<(PolicySlots, Spot, Arc<PolicyEntry>)>,
}

/// Where a policy is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PolicySlots {
    pub(crate) main: u32,
    /// Where later fragments find it, if it names ports and does not let pass; else `NONE`.
    pub(crate) later: u32,
}

impl<S> Change<S> {
    /// Rough cost of taking the change over: a removal may free an SA.
    pub(crate) fn weight(&self) -> u32 {
        match self {
            Change::Sa(SaChange { remove: Some(_), .. }) => 4,
            Change::Policy(PolicyChange { remove: Some(_), .. }) => 2,
            Change::SaRoom(_) | Change::PolicyRoom(_) => 4,
            Change::Inbound(_) | Change::Outbound(_) => 8,
            _ => 1,
        }
    }
}

/// How many changes there have been, on a cache line of its own.
#[repr(align(64))]
struct Counter(AtomicU64);

/// The writer's ends.
pub(crate) struct Feeds<S> {
    published: Arc<Counter>,
    /// Changes so far.
    count: u64,
    /// Locked only to add a reader: [`Feeds`] is then shared.
    feeds: Mutex<Vec<Feed<S>>>,
}

struct Feed<S> {
    sender: Sender<Change<S>>,
    taken: Arc<Counter>,
}

/// A reader's end.
pub(crate) struct Inbox<S> {
    published: Arc<Counter>,
    receiver: Receiver<Change<S>>,
    /// Changes taken over, as the writer sees it.
    taken: Arc<Counter>,
    /// Changes taken over: the reader's own copy.
    seen: u64,
}

impl<S> Feeds<S> {
    pub(crate) fn new() -> Feeds<S> {
        let published = Arc::new(Counter(AtomicU64::new(0)));
        Feeds { published, count: 0, feeds: Mutex::new(Vec::new()) }
    }

    /// An end for a reader that has taken over all changes so far.
    pub(crate) fn subscribe(&self) -> Inbox<S> {
        let (sender, receiver) = mpsc::channel();
        let taken = Arc::new(Counter(AtomicU64::new(self.count)));
        let mut feeds = self.feeds.lock().unwrap_or_else(PoisonError::into_inner);
        feeds.push(Feed { sender, taken: Arc::clone(&taken) });
        Inbox { published: Arc::clone(&self.published), receiver, taken, seen: self.count }
    }

    fn feeds(&mut self) -> &mut Vec<Feed<S>> {
        self.feeds.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a change to every reader; `make` makes it for each.
    pub(crate) fn publish(&mut self, mut make: impl FnMut() -> Change<S>) {
        // A reader that is gone is forgotten.
        self.feeds().retain(|feed| feed.sender.send(make()).is_ok());
        self.count += 1;
        self.published.0.store(self.count, Release);
    }

    /// The number of the last change.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// The last change that every reader has taken over.
    pub(crate) fn taken(&mut self) -> u64 {
        let all = u64::MAX;
        self.feeds().iter().map(|feed| feed.taken.0.load(Acquire)).min().unwrap_or(all)
    }
}

impl<S> Inbox<S> {
    /// True if there are changes to take over. One load.
    #[inline]
    pub(crate) fn has_more(&self) -> bool {
        self.published.0.load(Acquire) != self.seen
    }

    /// Takes over changes in order until they weigh `budget`.
    ///
    /// Waits for nothing: only what has been sent in full is received.
    pub(crate) fn take(&mut self, mut budget: u32, mut apply: impl FnMut(Change<S>)) {
        let published = self.published.0.load(Acquire);
        while self.seen != published && budget > 0 {
            let Ok(change) = self.receiver.try_recv() else { break };
            budget = budget.saturating_sub(change.weight());
            apply(change);
            self.seen += 1;
        }
        // The writer may let go of what no view holds any more.
        self.taken.0.store(self.seen, Release);
    }
}
