//! Published figures of a system in this shape: a fast path for small-cell backhaul beside Linux, on a 16-core Arm
//! Cortex-A72 at 1.8 GHz with a crypto engine. An application in user space forwards at layer 2, and both directions of
//! the forwarding path go through IPsec.
//!
//! Its packets are 128 to 1400 bytes long, and its line rate is 19.9 Gbit/s: at 1400 bytes that is the limit, whatever
//! the number of cores. Which suite it ran is not said.

/// One published rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Published {
    tunnels: usize,
    size: usize,
    /// Cores of that machine.
    pub(super) cores: usize,
    /// Million packets a second.
    pub(super) mpps: f64,
}

/// The rate with so many tunnels and packets of this length, if one was published.
pub(super) fn published(tunnels: usize, size: usize) -> Option<Published> {
    ALL.into_iter().find(|one| (one.tunnels, one.size) == (tunnels, size))
}

const fn of(tunnels: usize, cores: usize, size: usize, mpps: f64) -> Published {
    Published { tunnels, size, cores, mpps }
}

const ALL: [Published; 12] = [
    of(1, 2, 128, 1.52),
    of(1, 2, 512, 1.69),
    of(1, 2, 1024, 1.74),
    of(1, 2, 1400, 1.75),
    of(2, 3, 128, 1.60),
    of(2, 3, 512, 1.74),
    of(2, 3, 1024, 1.74),
    of(2, 3, 1400, 1.75),
    of(4, 6, 128, 3.04),
    of(4, 6, 512, 3.28),
    of(4, 6, 1024, 2.39),
    of(4, 6, 1400, 1.75),
];
