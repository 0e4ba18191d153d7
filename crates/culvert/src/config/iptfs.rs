//! `[[iptfs]]`: the constant rate of SAs of IP-TFS mode, which Linux has no word for.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::rc::Rc;

use policy::{IptfsRate, SaConfig};
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
    /// Whether they send slower while packets are lost. The data path does not: only false is taken.
    #[serde(default)]
    congestion_control: bool,
}

impl IptfsConfig {
    fn rate(&self) -> IptfsRate {
        IptfsRate {
            bits_per_s: self.rate_kbit_s * 1000,
            is_congestion_controlled: self.congestion_control,
        }
    }
}

/// The first value that cannot be.
pub(super) fn problem(entries: &[IptfsConfig]) -> Option<Wrong> {
    for (at, entry) in entries.iter().enumerate() {
        if !(1..=MAX_KBIT_S).contains(&entry.rate_kbit_s) {
            let allowed = "between 1 and 400000000, in kbit/s; without an entry SAs send on demand";
            return Some((at, "rate_kbit_s", entry.rate_kbit_s.to_string(), allowed));
        }
        if entry.congestion_control {
            let allowed = "false: the rate does not follow losses yet";
            return Some((at, "congestion_control", "true".into(), allowed));
        }
        if entries.iter().take(at).any(|before| before.if_id == entry.if_id) {
            let text = entry.if_id.map_or_else(|| "all".to_owned(), |id| id.to_string());
            return Some((at, "if_id", text, "an if_id that no other entry has"));
        }
    }
    None
}

/// 400 Gbit/s.
const MAX_KBIT_S: u64 = 400_000_000;

/// The rates of SAs, by their `if_id`.
#[derive(Clone, Debug, Default)]
pub struct IptfsRates {
    by_if_id: Rc<BTreeMap<u32, IptfsRate>>,
    others: Option<IptfsRate>,
}

impl IptfsRates {
    /// As configured.
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
        let rate = |bits_per_s| Some(IptfsRate { bits_per_s, is_congestion_controlled: false });
        let settings = || Some(Box::new(Iptfs::default()));
        assert_eq!(of(0, settings()), rate(1_000_000));
        assert_eq!(of(7, settings()), rate(20_000));
        assert_eq!(of(7, None), None, "another mode");
        let none = IptfsRates::new(&[]);
        let config = SaConfig { iptfs: settings(), ..sa() };
        assert_eq!(*none.applied(&config), config, "on demand");
    }

    #[test]
    fn what_cannot_be_is_named() {
        let wrong = |text| problem(&parse(text)).map(|(at, key, ..)| (at, key));
        assert_eq!(wrong("[[iptfs]]\nrate_kbit_s = 5\n"), None);
        assert_eq!(wrong("[[iptfs]]\nrate_kbit_s = 0\n"), Some((0, "rate_kbit_s")));
        let controlled = "[[iptfs]]\nrate_kbit_s = 5\ncongestion_control = true\n";
        assert_eq!(wrong(controlled), Some((0, "congestion_control")));
        let twice = "[[iptfs]]\nrate_kbit_s = 5\n[[iptfs]]\nrate_kbit_s = 5\n";
        assert_eq!(wrong(twice), Some((1, "if_id")));
    }
}
