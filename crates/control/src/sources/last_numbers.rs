//! The alarm before an SA's numbers run out.
//!
//! Numbers never cycle (RFC 4303 §3.3.3): without extended numbers an SA ends after 2^32 packets, which
//! takes minutes at high rates, and an IKE daemon that sets no limit by packets would not know. So where
//! a sixteenth of the numbers is left, the owner gets a soft EXPIRE, as for a limit of its own.

use std::sync::atomic::Ordering::Relaxed;

use esp::Sa;
use policy::SaConfig;

/// An SA's configuration with a soft limit where its numbers get few, unless it has a lower one.
pub fn with_alarm(config: &SaConfig, sa: &Sa) -> SaConfig {
    let mut config = config.clone();
    if !config.params.esn {
        let packets = sa.live().packets().load(Relaxed);
        let alarm = packets.saturating_add(sa.numbers_until_low());
        config.limits.soft_packets = config.limits.soft_packets.min(alarm);
    }
    config
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use crypto::Provider;
    use engine_openssl::OpensslProvider;
    use esp::{LiveNumbers, NumbersLeft};
    use policy::{Databases, SaState, Volume, VolumeLimits};

    use super::*;
    use crate::sources::testing::{HERE, THERE, config, keys};

    fn sa(esn: bool, sent: u64, packets: u64) -> (SaConfig, Sa) {
        let mut config = config(1, (HERE, THERE), 1);
        config.params.esn = esn;
        let params = &config.params;
        let session = OpensslProvider::new().unwrap().session(params.suite, &keys()).unwrap();
        let sa = Sa::new(params.clone(), session, LiveNumbers::on_heap(32)).unwrap();
        sa.live().sent().store(sent, Relaxed);
        sa.live().packets().store(packets, Relaxed);
        (config, sa)
    }

    #[test]
    fn the_owner_hears_before_the_numbers_end() {
        // After a restart numbers are ahead of packets.
        let (config, esp) = sa(false, 1 << 20, 1000);
        let config = with_alarm(&config, &esp);
        let mut databases = Databases::new();
        databases.add_sa(config.clone(), esp).unwrap();
        let entry: Arc<_> = databases.sa(&config.id()).unwrap();
        let left = (u32::MAX - u32::MAX / 16) as u64 - (1 << 20);
        assert_eq!(entry.check_volume(0, 1000 + left - 1), Volume::Within);
        assert_eq!(entry.check_volume(0, 1000 + left), Volume::SoftReached);
        // Told once; the SA goes on meanwhile.
        assert_eq!(entry.check_volume(0, 1000 + left + 1), Volume::Within);
        assert_eq!(entry.state(), SaState::Dying);
        entry.esp.live().sent().store(left + (1 << 20), Relaxed);
        assert!(matches!(entry.esp.numbers_left(), NumbersLeft::Low { .. }));
    }

    #[test]
    fn a_limit_that_comes_first_stays_and_extended_numbers_need_none() {
        let (mut config, esp) = sa(false, 0, 0);
        config.limits.soft_packets = 5;
        assert_eq!(with_alarm(&config, &esp).limits.soft_packets, 5);
        let (config, esp) = sa(true, 0, 0);
        assert_eq!(with_alarm(&config, &esp).limits, VolumeLimits::NONE);
        // None is left: at once.
        let (config, esp) = sa(false, u64::from(u32::MAX), 7);
        assert_eq!(with_alarm(&config, &esp).limits.soft_packets, 7);
    }
}
