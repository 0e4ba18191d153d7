//! The histogram of how long packets were in the fast path, by worker.
//!
//! The daemon has counted into ranges already, so what the library's own histogram would do with each packet is done:
//! its numbers are encoded as they are.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};

use report::{Latency, Stats};

const NS_PER_S: f64 = 1e9;

/// Registers the metrics of latency.
pub fn register(registry: &mut Registry, stats: &Stats) {
    let of_workers = stats.by_worker.iter().map(|worker| worker.latency.clone()).collect();
    registry.register_collector(Box::new(Histogram(of_workers)));
}

/// One for each worker, by number.
#[derive(Debug)]
struct Histogram(Vec<Latency>);

impl Collector for Histogram {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut encoder = encoder.encode_descriptor(
            "latency",
            "How long packets were here, from a port to a port; of one in about a thousand",
            Some(&Unit::Seconds),
            MetricType::Histogram,
        )?;
        for (worker, latency) in self.0.iter().enumerate() {
            let bound = |ns: Option<u64>| ns.map_or(f64::INFINITY, |ns| ns as f64 / NS_PER_S);
            let ranges = latency.ranges.iter();
            let ranges: Vec<_> = ranges.map(|r| (bound(r.up_to_ns), r.packets)).collect();
            let sum_s = latency.sum_ns as f64 / NS_PER_S;
            encoder
                .encode_family(&[("worker", worker.to_string())])?
                .encode_histogram::<NoLabelSet>(sum_s, latency.sampled, &ranges, None)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use report::LatencyRange;

    use super::*;
    use prometheus_client::encoding::text::encode;

    #[test]
    fn ranges_become_buckets_that_add_up() {
        let range = |up_to_ns, packets| LatencyRange { up_to_ns, packets };
        let latency = Latency {
            sampled: 7,
            sum_ns: 5_500_000,
            ranges: vec![range(Some(2_000), 4), range(Some(5_000_000), 2), range(None, 1)],
            ..Latency::default()
        };
        let by_worker = vec![Stats { latency, ..Stats::default() }];
        let mut registry = Registry::with_prefix("culvert");
        register(&mut registry, &Stats { by_worker, ..Stats::default() });
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with("# HELP")).collect();
        let expected = [
            "# TYPE culvert_latency_seconds histogram",
            "# UNIT culvert_latency_seconds seconds",
            "culvert_latency_seconds_sum{worker=\"0\"} 0.0055",
            "culvert_latency_seconds_count{worker=\"0\"} 7",
            "culvert_latency_seconds_bucket{le=\"0.000002\",worker=\"0\"} 4",
            "culvert_latency_seconds_bucket{le=\"0.005\",worker=\"0\"} 6",
            "culvert_latency_seconds_bucket{le=\"+Inf\",worker=\"0\"} 7",
            "# EOF",
        ];
        assert_eq!(lines, expected);
    }
}
