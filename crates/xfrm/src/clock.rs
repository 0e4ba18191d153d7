//! Time as an argument.

/// A moment, on both clocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// Seconds since 1970.
    pub wall_s: u64,
    /// Milliseconds of the monotonic clock; it must also count while the machine sleeps
    /// (`CLOCK_BOOTTIME`).
    pub mono_ms: u64,
}

impl Now {
    /// The monotonic clock's reading, in milliseconds, at a wall-clock second, which is taken as
    /// signed; negative before that clock's start.
    pub fn mono_of(self, wall_s: u64) -> i64 {
        let ago_s = self.wall_s.cast_signed().saturating_sub(wall_s.cast_signed());
        self.mono_ms.cast_signed().saturating_sub(ago_s.saturating_mul(1000))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wall_seconds_on_the_monotonic_clock() {
        let now = Now { wall_s: 1000, mono_ms: 5000 };
        assert_eq!(now.mono_of(1000), 5000);
        assert_eq!(now.mono_of(998), 3000);
        assert_eq!(now.mono_of(900), -95_000);
        assert_eq!(now.mono_of(1001), 6000);
        // Wall-clock seconds are signed, as on Linux.
        assert_eq!(now.mono_of(u64::MAX), 5000 - 1_001_000);
    }
}
