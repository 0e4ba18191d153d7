//! The daemon's clocks.

use std::time::{SystemTime, UNIX_EPOCH};

use xfrm::Now;

/// Both clocks of the XFRM databases. The monotonic one goes on while the machine sleeps, as
/// lifetimes do.
pub fn now() -> Now {
    let boot = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let mono_ms = boot.tv_sec.cast_unsigned() * 1000 + boot.tv_nsec.cast_unsigned() / 1_000_000;
    Now { wall_s: wall_s(), mono_ms }
}

/// Seconds of the wall clock.
pub fn wall_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |t| t.as_secs())
}

/// Milliseconds of the wall clock.
pub fn wall_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |t| t.as_millis() as u64)
}
