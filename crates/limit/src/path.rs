//! The limiters that a packet passes, from its own to the outermost.

use std::sync::Arc;

use arrayvec::ArrayVec;

use crate::settings::MAX_LEVELS;
use crate::{Colour, Level, Limiter, Meter, Treatment};

/// A worker's way through a hierarchy.
#[derive(Clone, Debug)]
pub struct Path {
    levels: ArrayVec<Level, MAX_LEVELS>,
    /// The first level's buckets are a meter that the caller has.
    is_each: bool,
}

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
    /// Its colour there.
    pub colour: Colour,
}

impl Path {
    /// Of the packets of a limiter at a worker.
    pub fn new(limiter: &Limiter, worker: usize) -> Path {
        let mut levels = ArrayVec::new();
        let mut next = Some(limiter);
        while let Some(limiter) = next {
            // As deep as a hierarchy may be.
            let _ = levels.try_push(limiter.level(worker));
            next = limiter.parent().map(Arc::as_ref);
        }
        Path { levels, is_each: limiter.is_each() }
    }

    /// The packet's own limiter.
    pub fn leaf(&self) -> Option<&Level> {
        self.levels.first()
    }

    /// Whether the caller has to bring the first level's meter.
    pub fn is_each(&self) -> bool {
        self.is_each
    }

    /// Has a packet of so many bytes pass; it came with a DSCP. `own` is the first level's meter, where
    /// [`Path::is_each`].
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
        match self.levels.as_slice() {
            [level] if level.pass_plainly(len) => Ok(Passed::default()),
            _ => self.pass_all(own, (len, dscp), now_ns),
        }
    }

    /// [`Path::pass`] in two steps: all limiters are asked, then all give.
    #[inline(never)]
    fn pass_all(
        &self,
        own: Option<&mut Meter>,
        (len, dscp): (usize, u8),
        now_ns: u64,
    ) -> Result<Passed, Refused> {
        let mut own = own.filter(|_| self.is_each);
        let mut colours: ArrayVec<Colour, MAX_LEVELS> = ArrayVec::new();
        let mut colour = Colour::of_dscp(dscp);
        let mut mark = None;
        for (at, level) in self.levels.iter().enumerate() {
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
                    self.levels.iter().take(at + 1).for_each(Level::settle);
                    level.count(colour, len);
                    return Err(Refused { level: at as u8, colour });
                }
                Treatment::Mark(dscp) => mark = mark.or(Some(dscp)),
                Treatment::Pass => {}
            }
            // As many as there are levels.
            let _ = colours.try_push(colour);
        }
        for (at, (level, colour)) in self.levels.iter().zip(colours).enumerate() {
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
