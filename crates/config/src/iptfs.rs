//! `[[iptfs]]`: the constant rate of SAs of IP-TFS mode, which Linux has no word for.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::rc::Rc;

use policy::{IptfsBreaker, IptfsLosses, IptfsRate, SaConfig};
use serde::Deserialize;

use super::gtpu::Wrong;

/// `[[iptfs]]`: at which rate some SAs send.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IptfsConfig {
    /// The `if_id` of the SAs; all that no other entry names when left out.
    #[serde(default)]
    if_id: Option<u32>,
    /// Thousands of bits a second of outer packets, from their IP header on.
    rate_kbit_s: u64,
    /// True if SAs send slower while packets are lost.
    #[serde(default)]
    congestion_control: bool,
    /// Then not slower than this.
    #[serde(default)]
    least_kbit_s: u64,
    /// Then packets may be marked in place of being dropped.
    #[serde(default)]
    ecn: bool,
    /// Without it: losses that are too many.
    #[serde(default)]
    breaker_loss_percent: Option<u32>,
    /// How long they last until the rate is stopped.
    #[serde(default = "default_after_s")]
    breaker_after_s: u32,
    /// How long it is stopped at least.
    #[serde(default = "default_restart_s")]
    breaker_restart_s: u32,
}

const fn default_after_s() -> u32 {
    10
}

const fn default_restart_s() -> u32 {
    60
}

impl IptfsConfig {
    fn rate(&self) -> IptfsRate {
        let losses = match self.breaker_loss_percent {
            _ if self.congestion_control => IptfsLosses::Followed {
                least_bits_per_s: self.least_kbit_s * 1000,
                has_ecn: self.ecn,
            },
            Some(loss_percent) => IptfsLosses::Broken(IptfsBreaker {
                loss_percent,
                after_s: self.breaker_after_s,
                restart_s: self.breaker_restart_s,
            }),
            None => IptfsLosses::Ignored,
        };
        IptfsRate { bits_per_s: self.rate_kbit_s * 1000, losses }
    }

    /// The first value that cannot be: key, value, what is allowed.
    fn problem(&self) -> Option<(&'static str, String, &'static str)> {
        if !(1..=MAX_KBIT_S).contains(&self.rate_kbit_s) {
            let allowed = "between 1 and 400000000, in kbit/s; without an entry SAs send on demand";
            return Some(("rate_kbit_s", self.rate_kbit_s.to_string(), allowed));
        }
        if self.least_kbit_s > 0
            && !(self.congestion_control && self.least_kbit_s <= self.rate_kbit_s)
        {
            let allowed = "at most rate_kbit_s, with congestion_control";
            return Some(("least_kbit_s", self.least_kbit_s.to_string(), allowed));
        }
        if self.ecn && !self.congestion_control {
            return Some(("ecn", "true".into(), "true with congestion_control only"));
        }
        let percent = self.breaker_loss_percent?;
        if self.congestion_control || !(1..=99).contains(&percent) {
            let allowed = "between 1 and 99, without congestion_control, which follows losses";
            return Some(("breaker_loss_percent", percent.to_string(), allowed));
        }
        let times = [
            ("breaker_after_s", self.breaker_after_s),
            ("breaker_restart_s", self.breaker_restart_s),
        ];
        let wrong = times.into_iter().find(|(_, seconds)| !(3..=86400).contains(seconds));
        wrong.map(|(key, seconds)| (key, seconds.to_string(), "between 3 and 86400, in seconds"))
    }
}

/// Of each entry the first value that cannot be.
pub(super) fn problems(entries: &[IptfsConfig]) -> impl Iterator<Item = Wrong> {
    entries.iter().enumerate().filter_map(|(at, entry)| {
        if let Some((key, value, allowed)) = entry.problem() {
            return Some((at, key, value, allowed));
        }
        let is_second = entries.iter().take(at).any(|before| before.if_id == entry.if_id);
        let text = entry.if_id.map_or_else(|| "all".to_owned(), |id| id.to_string());
        is_second.then_some((at, "if_id", text, "an if_id that no other entry has"))
    })
}

/// 400 Gbit/s in kbit/s: the fastest port that there is.
const MAX_KBIT_S: u64 = 400_000_000;

/// The rates of SAs, by their `if_id`.
#[derive(Clone, Debug, Default)]
pub struct IptfsRates {
    by_if_id: Rc<BTreeMap<u32, IptfsRate>>,
    others: Option<IptfsRate>,
}

impl IptfsRates {
    /// Rates, by the entries of the file.
    pub fn new(entries: &[IptfsConfig]) -> IptfsRates {
        let named = entries.iter().filter_map(|entry| Some((entry.if_id?, entry.rate())));
        let others = entries.iter().find(|entry| entry.if_id.is_none());
        IptfsRates { by_if_id: Rc::new(named.collect()), others: others.map(IptfsConfig::rate) }
    }

    /// An SA with its rate, if it is of the mode and has one.
    pub fn applied<'c>(&self, config: &'c SaConfig) -> Cow<'c, SaConfig> {
        let rate = self.by_if_id.get(&config.if_id).copied().or(self.others);
        if config.iptfs.is_none() || rate.is_none() {
            return Cow::Borrowed(config);
        }
        let mut config = config.clone();
        if let Some(settings) = &mut config.iptfs {
            settings.rate = rate;
        }
        Cow::Owned(config)
    }
}

#[cfg(test)]
mod tests {
    use crypto::Suite;
    use esp::SaParams;
    use policy::Iptfs;

    use super::*;

    fn sa() -> SaConfig {
        let ends = ([192, 0, 2, 1].into(), [192, 0, 2, 2].into());
        SaConfig::plain(SaParams::tunnel(Suite::None, 0x101, ends))
    }

    fn parse(text: &str) -> Vec<IptfsConfig> {
        let text = format!("name = \"a\"\n{text}");
        toml::from_str::<super::super::Config>(&text).expect("sound").iptfs
    }

    #[test]
    fn an_if_id_has_its_own_rate() {
        let rates = IptfsRates::new(&parse(
            "[[iptfs]]\nrate_kbit_s = 1000\n[[iptfs]]\nif_id = 7\nrate_kbit_s = 20\ncongestion_control = false\n",
        ));
        let of = |if_id, iptfs| {
            let config = SaConfig { if_id, iptfs, ..sa() };
            rates.applied(&config).iptfs.as_ref().and_then(|settings| settings.rate)
        };
        let rate = |bits_per_s| Some(IptfsRate::constant(bits_per_s));
        let settings = || Some(Box::new(Iptfs::default()));
        assert_eq!(of(0, settings()), rate(1_000_000));
        assert_eq!(of(7, settings()), rate(20_000));
        assert_eq!(of(7, None), None, "another mode");
        let none = IptfsRates::new(&[]);
        let config = SaConfig { iptfs: settings(), ..sa() };
        assert_eq!(*none.applied(&config), config, "on demand");
    }

    #[test]
    fn losses_are_met_as_an_entry_says() {
        let losses = |line: &str| {
            let entries = parse(&format!("[[iptfs]]\nrate_kbit_s = 50\n{line}\n"));
            entries[0].rate().losses
        };
        assert_eq!(losses(""), IptfsLosses::Ignored);
        assert_eq!(
            losses("congestion_control = true\nleast_kbit_s = 2\necn = true"),
            IptfsLosses::Followed { least_bits_per_s: 2000, has_ecn: true }
        );
        let breaker = IptfsBreaker { loss_percent: 7, after_s: 10, restart_s: 90 };
        assert_eq!(
            losses("breaker_loss_percent = 7\nbreaker_restart_s = 90"),
            IptfsLosses::Broken(breaker)
        );
    }

    #[test]
    fn what_cannot_be_is_named() {
        let wrong = |text: &str| problems(&parse(text)).next().map(|(at, key, ..)| (at, key));
        assert_eq!(wrong("[[iptfs]]\nrate_kbit_s = 5\n"), None);
        assert_eq!(wrong("[[iptfs]]\nrate_kbit_s = 0\n"), Some((0, "rate_kbit_s")));
        for (line, key) in [
            ("congestion_control = true\nleast_kbit_s = 5\necn = true", None),
            ("least_kbit_s = 2", Some("least_kbit_s")),
            ("congestion_control = true\nleast_kbit_s = 6", Some("least_kbit_s")),
            ("ecn = true", Some("ecn")),
            ("breaker_loss_percent = 100", Some("breaker_loss_percent")),
            ("congestion_control = true\nbreaker_loss_percent = 9", Some("breaker_loss_percent")),
            ("breaker_loss_percent = 9\nbreaker_after_s = 2", Some("breaker_after_s")),
            ("breaker_loss_percent = 9\nbreaker_restart_s = 0", Some("breaker_restart_s")),
        ] {
            let text = format!("[[iptfs]]\nrate_kbit_s = 5\n{line}\n");
            assert_eq!(wrong(&text), key.map(|key| (0, key)), "{line}");
        }
        let twice = "[[iptfs]]\nrate_kbit_s = 5\n[[iptfs]]\nrate_kbit_s = 5\n";
        assert_eq!(wrong(twice), Some((1, "if_id")));
    }
}
