//! The limiters that a packet passes, from its own to the outermost.

use std::sync::Arc;

use arrayvec::ArrayVec;

use crate::colour::Which;
use crate::home::{Came, Hold, Home, UnderWay};
use crate::lane::Lane;
use crate::queue::Bounds;
use crate::settings::MAX_LEVELS;
use crate::sync::Relaxed;
use crate::waits::Waits;
use crate::{Colour, Level, Limiter, Meter, PARTS, Treatment, Unit};

/// A worker's way through a hierarchy. Most packets read this and their limiter's lane, and nothing else: half a cache line
/// and one.
#[derive(Clone, Debug)]
pub struct LimitPath {
    /// The lane of the packet's own limiter, and those beside it.
    lanes: Arc<[Lane]>,
    at: u32,
    overhead: u16,
    kind: Kind,
    rest: Arc<Rest>,
}

/// The shortest way to judge a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Take bits of one bucket, which has no more to do.
    Bits,
    /// Take one token of it.
    Packet,
    /// Ask all levels.
    Levels,
    /// The caller has something to do before.
    Special,
}

#[derive(Debug)]
struct Rest {
    levels: ArrayVec<Level, MAX_LEVELS>,
    /// The first level's buckets are a meter that the caller has.
    is_each: bool,
    /// Queue of packets for which there are no tokens, and its counters. `None`: such packets are
    /// red.
    queue: Option<(Bounds, Arc<Waits>)>,
    /// Home of the buckets, where one worker has them at a time, and the worker whose path it is.
    home: Option<(Arc<Home>, usize)>,
}

const _: () = assert!(size_of::<LimitPath>() == 32);

/// A packet that passes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Passed {
    /// The outermost limiter's colour.
    pub colour: Colour,
    /// The DSCP that it gets; that of the innermost limiter that gives one.
    pub dscp: Option<u8>,
}

/// A packet that does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Which limiter stops it: 0 is its own.
    pub level: u8,
    /// Colour that this limiter gave the packet.
    pub colour: Colour,
}

/// Why a packet does not pass now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The packet never passes.
    Refused(Refused),
    /// There are no tokens for it yet; at this time there are, if nobody else takes them.
    Until(u64),
}

/// Where a packet is that came to limiters which [one worker has at a time](crate::Sharing::Atomic).
#[derive(Debug)]
pub enum Place {
    /// With their home, which is the caller: it has the buckets.
    Here,
    /// The same, and nobody else becomes the home before this is dropped: the caller keeps it to the end of its round.
    Held(Hold),
    /// They are with this worker, to which the packet has to go.
    There(usize, Visit),
}

/// Companion of a packet on its way to the home of its limiters, and back. The home stays until it
/// is dropped.
#[derive(Debug)]
pub struct Visit {
    rest: Arc<Rest>,
    _under_way: UnderWay,
}

impl Visit {
    /// Has the packet pass, of so many bytes and with a DSCP: for the home that it was sent to.
    ///
    /// # Errors
    /// Which limiter drops it.
    pub fn pass(&self, packet: (usize, u8), now_ns: u64) -> Result<Passed, Refused> {
        self.rest.pass_all(None, packet, now_ns)
    }

    /// The number of the packet's own limiter: [`Level::id`].
    pub fn id(&self) -> Option<usize> {
        self.rest.leaf().map(Level::id)
    }
}

impl LimitPath {
    /// Of the packets of a limiter at a worker.
    pub fn new(limiter: &Limiter, worker: usize) -> LimitPath {
        let mut levels: ArrayVec<Level, MAX_LEVELS> = ArrayVec::new();
        let mut next = Some(limiter);
        while let Some(limiter) = next {
            // As deep as a hierarchy may be.
            let _ = levels.try_push(limiter.level(worker));
            next = limiter.parent().map(Arc::as_ref);
        }
        let bounds = limiter.settings().queue;
        let queue = bounds.map(|bounds| (bounds, limiter.waits(worker)));
        let (is_each, settings) = (limiter.is_each(), limiter.settings());
        let is_alone = limiter.parent().is_none() && settings.is_plain();
        let kind = match settings.unit {
            _ if is_each || queue.is_some() || limiter.home_word().is_some() => Kind::Special,
            _ if !is_alone => Kind::Levels,
            Unit::Bits => Kind::Bits,
            Unit::Packets => Kind::Packet,
        };
        let (lanes, at) = limiter.level(worker).into_lane().into_parts();
        let home = limiter.home_word().map(|home| (Arc::clone(home), worker));
        let rest = Arc::new(Rest { levels, is_each, queue, home });
        LimitPath { lanes, at, overhead: settings.overhead, kind, rest }
    }

    /// Of packets that are under no limit: they pass.
    pub fn free() -> LimitPath {
        let (levels, is_each) = (ArrayVec::new(), false);
        let rest = Rest { levels, is_each, queue: None, home: None };
        LimitPath {
            lanes: Arc::new([]),
            at: 0,
            overhead: 0,
            kind: Kind::Levels,
            rest: Arc::new(rest),
        }
    }

    /// The packet's own limiter.
    pub fn leaf(&self) -> Option<&Level> {
        self.rest.leaf()
    }

    /// Place of the buckets, at their home worker. `None`: tokens are leased, any worker may take them.
    ///
    /// # Panics
    /// If the worker's number is not below 255.
    #[inline]
    pub fn come(&self) -> Option<Place> {
        let (home, worker) = self.rest.home.as_ref()?;
        Some(match home.come(*worker) {
            Came::Here => Place::Here,
            Came::Held(hold) => Place::Held(hold),
            Came::There(home, under_way) => {
                Place::There(home, Visit { rest: Arc::clone(&self.rest), _under_way: under_way })
            }
        })
    }

    /// True if the caller has to bring the first level's meter.
    pub fn is_each(&self) -> bool {
        self.rest.is_each
    }

    /// True if the caller has to do more than ask: see [`LimitPath::is_each`], [`LimitPath::queue`] and
    /// [`LimitPath::come`].
    #[inline(always)]
    pub fn is_special(&self) -> bool {
        self.kind == Kind::Special
    }

    /// Bounds and counters of the queue of packets that wait, if they do.
    pub fn queue(&self) -> Option<&(Bounds, Arc<Waits>)> {
        self.rest.queue.as_ref()
    }

    /// As [`LimitPath::pass`], of packets that wait where their own limiter has no tokens for them yet: it counts none as red.
    ///
    /// # Errors
    /// It has to wait, or a limiter above drops it.
    #[inline(never)]
    pub fn pass_or_wait(&self, (len, dscp): (usize, u8), now_ns: u64) -> Result<Passed, Stop> {
        if let Some(own) = self.rest.levels.first() {
            let cost = own.settings().cost(len);
            if own.colour(cost, Colour::Green, now_ns) != Colour::Green {
                own.settle();
                return Err(Stop::Until(own.ready_ns(cost, now_ns)));
            }
        }
        self.rest.pass_all(None, (len, dscp), now_ns).map_err(Stop::Refused)
    }

    /// Counts a packet with its own limiter that found no room in its queue, or has waited too long.
    pub fn refuse(&self, len: usize) {
        self.rest.levels.iter().take(1).for_each(|own| own.count(Colour::Red, len));
    }

    /// Has a packet of so many bytes pass; it came with a DSCP. `own` is the first level's meter, where
    /// [`LimitPath::is_each`].
    ///
    /// # Errors
    /// Which limiter drops it. No limiter has given it tokens then.
    #[inline(always)]
    pub fn pass(
        &self,
        own: Option<&mut Meter>,
        (len, dscp): (usize, u8),
        now_ns: u64,
    ) -> Result<Passed, Refused> {
        match self.pass_plainly(len) {
            true => Ok(Passed::default()),
            false => self.rest.pass_all(own, (len, dscp), now_ns),
        }
    }

    /// The line that most packets touch: to be prefetched.
    #[inline(always)]
    pub fn lane(&self) -> Option<&Lane> {
        self.lanes.get(self.at as usize)
    }

    /// Takes a packet's tokens from the lease, where the limiter has one bucket and no more to do.
    #[inline(always)]
    fn pass_plainly(&self, len: usize) -> bool {
        let cost = match self.kind {
            Kind::Bits => (len as u64 + u64::from(self.overhead)) * 8 * PARTS,
            Kind::Packet => PARTS,
            Kind::Levels | Kind::Special => return false,
        };
        let Some(lane) = self.lane() else { return false };
        let held = lane.held(Which::First);
        let left = held.load(Relaxed).checked_sub(cost);
        if let Some(left) = left {
            held.store(left, Relaxed);
            lane.count(Colour::Green, len);
        }
        left.is_some()
    }
}

impl Rest {
    /// The packet's own limiter.
    fn leaf(&self) -> Option<&Level> {
        self.levels.first()
    }

    /// [`LimitPath::pass`] in two steps: all limiters are asked, then all give.
    #[inline(never)]
    fn pass_all(
        &self,
        own: Option<&mut Meter>,
        (len, dscp): (usize, u8),
        now_ns: u64,
    ) -> Result<Passed, Refused> {
        let Rest { levels, is_each, .. } = self;
        let mut own = own.filter(|_| *is_each);
        let mut colours: ArrayVec<Colour, MAX_LEVELS> = ArrayVec::new();
        let mut colour = Colour::of_dscp(dscp);
        let mut mark = None;
        for (at, level) in levels.iter().enumerate() {
            let settings = level.settings();
            let cost = settings.cost(len);
            colour = match own.as_deref_mut().filter(|_| at == 0) {
                Some(meter) => {
                    meter.refill(settings, now_ns);
                    meter.colour(settings, cost, colour)
                }
                None => level.colour(cost, colour, now_ns),
            };
            match settings.treatments.of(colour) {
                Treatment::Drop => {
                    levels.iter().take(at + 1).for_each(Level::settle);
                    level.count(colour, len);
                    return Err(Refused { level: at as u8, colour });
                }
                Treatment::Mark(dscp) => mark = mark.or(Some(dscp)),
                Treatment::Pass => {}
            }
            // As many as there are levels.
            let _ = colours.try_push(colour);
        }
        for (at, (level, colour)) in levels.iter().zip(colours).enumerate() {
            let cost = level.settings().cost(len);
            match own.as_deref_mut().filter(|_| at == 0) {
                Some(meter) => meter.take(level.settings(), cost, colour),
                None => level.take(cost, colour),
            }
            level.count(colour, len);
        }
        Ok(Passed { colour, dscp: mark })
    }
}
