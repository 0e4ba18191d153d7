//! Rate limits as series of metrics.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};

use report::{Limit, LimitColour, LimitWaiting};

const US_PER_S: f64 = 1e6;

/// Names and values of a series' labels.
type Labels = Vec<(&'static str, String)>;

/// A count of each limit, by colour.
pub fn series(
    limits: &[Limit],
    count: fn(&LimitColour) -> u64,
) -> impl Iterator<Item = (Labels, u64)> {
    limits.iter().flat_map(move |limit| {
        let colours = [("green", &limit.green), ("yellow", &limit.yellow), ("red", &limit.red)];
        colours.map(|(colour, counted)| {
            let labels = vec![("limit", limit.name.clone()), ("colour", colour.to_owned())];
            (labels, count(counted))
        })
    })
}

/// A count of each class of limits that shape.
pub fn of_classes(
    limits: &[Limit],
    count: fn(&LimitWaiting) -> u64,
) -> impl Iterator<Item = (Labels, u64)> {
    classes(limits).map(move |(labels, of)| (labels, count(of)))
}

fn classes(limits: &[Limit]) -> impl Iterator<Item = (Labels, &LimitWaiting)> {
    limits.iter().flat_map(|limit| {
        limit
            .waiting
            .iter()
            .map(|of| (vec![("limit", limit.name.clone()), ("class", of.class.to_string())], of))
    })
}

/// Registers how long packets have waited, by limit and class.
pub fn register_delays(registry: &mut Registry, limits: &[Limit]) {
    let all = classes(limits).map(|(labels, of)| (labels, of.total_us, of.gone)).collect();
    registry.register_collector(Box::new(Delays(all)));
}

/// Sum in microseconds and count of the packets that have waited: a histogram of one bucket, as there is no other
/// kind for the two.
#[derive(Debug)]
struct Delays(Vec<(Labels, u64, u64)>);

impl Collector for Delays {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut encoder = encoder.encode_descriptor(
            "limit_delay",
            "How long packets have waited for tokens that did and went on",
            Some(&Unit::Seconds),
            MetricType::Histogram,
        )?;
        for (labels, total_us, count) in &self.0 {
            let all = [(f64::INFINITY, *count)];
            encoder.encode_family(labels)?.encode_histogram::<NoLabelSet>(
                *total_us as f64 / US_PER_S,
                *count,
                &all,
                None,
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::families::exposition;
    use super::*;
    use crate::command::collect::Seen;

    #[test]
    fn what_waits_is_told_by_class() {
        let of = |class: &str, gone| LimitWaiting {
            class: class.into(),
            now: 3,
            gone,
            dropped: 2,
            total_us: 250_000 * gone,
            ..LimitWaiting::default()
        };
        let shaped = Limit {
            name: "site".into(),
            waiting: vec![of("urgent", 6), of("usual", 0)],
            ..Limit::default()
        };
        let policed = Limit { name: "total".into(), ..Limit::default() };
        let seen = Seen { limits: vec![shaped, policed], ..Seen::default() };
        let text = exposition(&seen).unwrap();
        for line in [
            "# TYPE culvert_limit_delay_seconds histogram",
            "culvert_limit_delay_seconds_sum{limit=\"site\",class=\"urgent\"} 1.5",
            "culvert_limit_delay_seconds_count{limit=\"site\",class=\"urgent\"} 6",
            "culvert_limit_delay_seconds_count{limit=\"site\",class=\"usual\"} 0",
            "culvert_limit_waiting_packets{limit=\"site\",class=\"urgent\"} 3",
            "culvert_limit_queue_drops_total{limit=\"site\",class=\"usual\"} 2",
        ] {
            assert!(text.lines().any(|other| other == line), "{line}\n{text}");
        }
        let policed: Vec<_> = text.lines().filter(|line| line.contains("\"total\"")).collect();
        assert!(policed.iter().all(|line| line.contains("colour=")), "{policed:?}");
    }
}
