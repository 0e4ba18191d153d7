//! When a device that failed is tried again.

/// Up, or down until the next try. The pause doubles with each failure that follows soon.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    /// When it is tried again, while it is down.
    retry_ms: Option<u64>,
    /// Failures since it last stayed up for long.
    failures: u32,
    /// When it last came up.
    up_ms: u64,
}

impl Recovery {
    /// True if the device is in use.
    pub fn is_up(&self) -> bool {
        self.retry_ms.is_none()
    }

    /// True if the device is down, and due for a try.
    pub fn is_due(&self, now_ms: u64) -> bool {
        self.retry_ms.is_some_and(|at| at <= now_ms)
    }

    /// Notes a failure, in use or in a try. Returns the pause until the next try, in milliseconds.
    pub fn fail(&mut self, now_ms: u64) -> u64 {
        let has_stayed = self.is_up() && now_ms.saturating_sub(self.up_ms) >= LONG_MS;
        self.failures = if has_stayed { 0 } else { self.failures };
        let pause_ms = FIRST_PAUSE_MS.checked_shl(self.failures).unwrap_or(LONG_MS).min(LONG_MS);
        self.failures = self.failures.saturating_add(1).min(MOST_DOUBLINGS);
        self.retry_ms = Some(now_ms.saturating_add(pause_ms));
        pause_ms
    }

    /// Notes a try that worked.
    pub fn succeed(&mut self, now_ms: u64) {
        self.retry_ms = None;
        self.up_ms = now_ms;
    }
}

const FIRST_PAUSE_MS: u64 = 1000;
/// The longest pause, and for how long a device has to work for what was before to be forgotten.
const LONG_MS: u64 = 60_000;
const MOST_DOUBLINGS: u32 = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_until_it_stays_up() {
        let mut recovery = Recovery::default();
        assert!(recovery.is_up() && !recovery.is_due(u64::MAX));
        let mut now_ms = 0;
        let mut pauses = Vec::new();
        for _ in 0..9 {
            let pause_ms = recovery.fail(now_ms);
            assert!(!recovery.is_up() && !recovery.is_due(now_ms));
            now_ms += pause_ms;
            assert!(recovery.is_due(now_ms));
            pauses.push(pause_ms / 1000);
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
        recovery.succeed(now_ms);
        assert!(recovery.is_up());
        // Soon again, then after a long time.
        assert_eq!(recovery.fail(now_ms + 10), 60_000);
        recovery.succeed(now_ms);
        assert_eq!(recovery.fail(now_ms + 60_000), 1000);
        (0..100).for_each(|_| assert!(recovery.fail(u64::MAX) <= 60_000));
    }
}
