//! How much of its limits an SA has used, and when it comes to their end.

use serde_json::{Value, json};

use report::{Left, Sa};

/// Shares of limits of one kind that are used, from 0 to 1; none where there is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Shares {
    /// Of the time.
    pub time: Option<f64>,
    /// Of the bytes.
    pub bytes: Option<f64>,
    /// Of the packets.
    pub packets: Option<f64>,
}

impl Shares {
    /// Of the limits at which the IKE daemon is told to rekey.
    pub fn soft(sa: &Sa) -> Shares {
        Shares::of(sa, &sa.until_rekey)
    }

    /// Of the limits at which the SA is gone.
    pub fn hard(sa: &Sa) -> Shares {
        Shares::of(sa, &sa.until_expiry)
    }

    fn of(sa: &Sa, left: &Left) -> Shares {
        Shares {
            time: left.s.map(|left| share(sa.age_s, left)),
            bytes: left.bytes.map(|left| share(sa.bytes, left)),
            packets: left.packets.map(|left| share(sa.packets, left)),
        }
    }

    /// Each, by name.
    pub fn all(&self) -> [(&'static str, Option<f64>); 3] {
        [("time", self.time), ("bytes", self.bytes), ("packets", self.packets)]
    }

    /// The largest of them.
    pub fn most(&self) -> Option<f64> {
        self.all().into_iter().filter_map(|(_, share)| share).reduce(f64::max)
    }

    /// As an object; null where there is no limit.
    pub fn json(&self) -> Value {
        json!({ "time": self.time, "bytes": self.bytes, "packets": self.packets })
    }
}

/// Nothing left is all of it, however much that is.
fn share(used: u64, left: u64) -> f64 {
    if left == 0 { 1.0 } else { used as f64 / (used as f64 + left as f64) }
}

/// In how many seconds the first of limits is reached: by time, or at these rates by volume.
pub fn due(left: &Left, packets: f64, bytes: f64) -> Option<u64> {
    let at_rate = |left: Option<u64>, rate: f64| match left {
        Some(0) => Some(0),
        left => left.filter(|_| rate > 0.0).map(|left| (left as f64 / rate) as u64),
    };
    let all = [left.s, at_rate(left.packets, packets), at_rate(left.bytes, bytes)];
    all.into_iter().flatten().min()
}

/// A bar with its percentage: `[#######---]  72%`
pub fn bar(share: f64) -> String {
    let full = ((share * BAR_LEN as f64) as usize).min(BAR_LEN);
    format!("[{}{}] {:>4}", "#".repeat(full), "-".repeat(BAR_LEN - full), percent(share))
}

const BAR_LEN: usize = 10;

/// In whole percent; 100 only where nothing is left.
pub fn percent(share: f64) -> String {
    format!("{}%", (share * 100.0) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sa() -> Sa {
        let until_rekey = Left { s: Some(25), bytes: None, packets: Some(300) };
        let until_expiry = Left { s: Some(75), bytes: Some(0), packets: None };
        Sa { age_s: 75, packets: 100, bytes: 9000, until_rekey, until_expiry, ..Sa::default() }
    }

    #[test]
    fn shares_by_what_is_used_and_what_is_left() {
        let soft = Shares::soft(&sa());
        assert_eq!(soft, Shares { time: Some(0.75), bytes: None, packets: Some(0.25) });
        assert_eq!(soft.most(), Some(0.75));
        let hard = Shares::hard(&sa());
        assert_eq!(hard, Shares { time: Some(0.5), bytes: Some(1.0), packets: None });
        assert_eq!(hard.most(), Some(1.0), "what is used up counts");
        assert_eq!(Shares::hard(&Sa::default()).most(), None, "no limit");
        let json = soft.json();
        assert_eq!((&json["time"], &json["bytes"]), (&json!(0.75), &Value::Null));
    }

    #[test]
    fn the_first_limit_counts() {
        let left = Left { s: Some(90), packets: Some(500), bytes: Some(1000) };
        assert_eq!(due(&left, 0.0, 0.0), Some(90), "nothing is carried");
        assert_eq!(due(&left, 100.0, 1.0), Some(5));
        assert_eq!(due(&left, 1.0, 1000.0), Some(1));
        assert_eq!(due(&Left { bytes: Some(0), ..left }, 0.0, 0.0), Some(0), "it is reached");
        assert_eq!(due(&Left::default(), 9.0, 9.0), None);
    }

    #[test]
    fn bars_are_full_only_at_the_end() {
        assert_eq!(bar(0.0), "[----------]   0%");
        assert_eq!(bar(0.728), "[#######---]  72%");
        assert_eq!(bar(0.999), "[#########-]  99%");
        assert_eq!(bar(1.0), "[##########] 100%");
    }
}
