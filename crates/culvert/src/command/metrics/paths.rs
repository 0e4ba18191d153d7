//! Measured paths as series of metrics.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};

use report::{MeasuredPath, MeasuredPaths, TrafficLoss};

use super::rows::{Count, counts};

const MS_PER_S: f64 = 1e3;

/// Registers paths and the reflector.
pub fn register(registry: &mut Registry, paths: &MeasuredPaths) {
    registry.register_collector(Box::new(Paths(paths.clone())));
}

/// All that is measured, as it was told.
#[derive(Debug)]
struct Paths(MeasuredPaths);

/// A gauge of each path: name, text, unit, and value. `None` while nothing is known.
type Gauge = (&'static str, &'static str, Option<Unit>, fn(&MeasuredPath) -> Option<f64>);

const GAUGES: [Gauge; 7] = [
    ("path_delay", "Median of a path's delays, there and back", Some(Unit::Seconds), |path| {
        answered(path, path.delay_ms / MS_PER_S)
    }),
    (
        "path_delay_p99",
        "99th percentile of a path's delays, there and back",
        Some(Unit::Seconds),
        |path| answered(path, path.delay_p99_ms / MS_PER_S),
    ),
    (
        "path_jitter",
        "95th percentile of a path's delays less the shortest",
        Some(Unit::Seconds),
        |path| answered(path, path.jitter_ms / MS_PER_S),
    ),
    ("path_loss", "Share of a path's probes that was lost", Some(Unit::Ratios), |path| {
        (path.window > 0).then_some(path.loss_percent / 100.0)
    }),
    (
        "path_loss_away",
        "Share of a path's packets of the last second that was lost on the way to the far end",
        Some(Unit::Ratios),
        |path| traffic(path.away),
    ),
    (
        "path_loss_back",
        "Share of a path's packets of the last second that was lost on the way back",
        Some(Unit::Ratios),
        |path| traffic(path.back),
    ),
    ("path_penalty", "Cost of a path and penalty of its state: the least is best", None, |path| {
        Some(path.penalty as f64)
    }),
];

const COUNTS: [Count<MeasuredPath>; 2] = [
    ("path_probes", "Probes of a path", |path| path.sent),
    ("path_replies", "Probes of a path that were answered", |path| path.answered),
];

/// Loss of packets, where there were any.
fn traffic(loss: Option<TrafficLoss>) -> Option<f64> {
    loss.filter(|loss| loss.sent > 0).map(|loss| loss.loss_percent / 100.0)
}

/// A measure of replies, where the window has any.
fn answered(path: &MeasuredPath, value: f64) -> Option<f64> {
    (path.window > path.lost).then_some(value)
}

/// Labels of a path's series.
fn labels(path: &MeasuredPath) -> [(&'static str, String); 2] {
    [("path", path.name.clone()), ("dscp", path.dscp.to_string())]
}

impl Collector for Paths {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let MeasuredPaths { paths, reflector, clear_reflector } = &self.0;
        if !paths.is_empty() {
            for (name, text, unit, value) in GAUGES {
                let kind = MetricType::Gauge;
                let mut family = encoder.encode_descriptor(name, text, unit.as_ref(), kind)?;
                for (path, value) in paths.iter().filter_map(|path| Some((path, value(path)?))) {
                    family.encode_family(&labels(path))?.encode_gauge(&value)?;
                }
            }
            let mut states = encoder.encode_descriptor(
                "path_state",
                "State of a path: 1 for the one that it has",
                None,
                MetricType::Gauge,
            )?;
            for path in paths {
                let [name, dscp] = labels(path);
                let all = [name, dscp, ("state", path.state.name().to_owned())];
                states.encode_family(&all)?.encode_gauge(&1u32)?;
            }
            counts(&mut encoder, &COUNTS, paths, labels)?;
            let text = "Replies of a path that measured nothing, by kind";
            let mut family =
                encoder.encode_descriptor("path_refused", text, None, MetricType::Counter)?;
            for path in paths {
                for (kind, count) in &path.refused {
                    let [name, dscp] = labels(path);
                    family
                        .encode_family(&[name, dscp, ("kind", kind.clone())])?
                        .encode_counter::<NoLabelSet, u64, u64>(count, None)?;
                }
            }
        }
        let reflectors = [("tunnel", reflector), ("clear", clear_reflector)];
        let reflectors = || reflectors.iter().filter_map(|(way, it)| Some((*way, it.as_ref()?)));
        if reflectors().next().is_some() {
            let text = "Probes of others that were sent back";
            let mut family =
                encoder.encode_descriptor("path_reflected", text, None, MetricType::Counter)?;
            for (way, reflector) in reflectors() {
                family
                    .encode_family(&[("way", way)])?
                    .encode_counter::<NoLabelSet, u64, u64>(&reflector.reflected, None)?;
            }
            let text = "Probes of others that were not sent back, and less usual reflections";
            let mut family = encoder.encode_descriptor(
                "path_reflector_refused",
                text,
                None,
                MetricType::Counter,
            )?;
            for (way, reflector) in reflectors() {
                for (kind, count) in &reflector.refused {
                    family
                        .encode_family(&[("way", way), ("kind", kind)])?
                        .encode_counter::<NoLabelSet, u64, u64>(count, None)?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use report::ReflectorCounts;

    use super::super::families::exposition;
    use super::*;
    use crate::command::collect::Seen;

    #[test]
    fn paths_are_told_by_name_and_class() {
        let refused = [("late".to_owned(), 4)].into();
        let path = MeasuredPath {
            name: "hq".into(),
            dscp: 46,
            state: report::PathState::Bad,
            penalty: 1_000_010,
            sent: 120,
            answered: 100,
            window: 100,
            lost: 5,
            loss_percent: 5.0,
            back: Some(TrafficLoss { sent: 500, lost: 10, loss_percent: 2.0 }),
            delay_ms: 31.25,
            refused,
            ..MeasuredPath::default()
        };
        let silent = MeasuredPath { name: "lte".into(), lost: 100, ..path.clone() };
        let reflector = Some(ReflectorCounts { port: 862, reflected: 9, ..Default::default() });
        let refused = [("unnamed".to_owned(), 2)].into();
        let clear_reflector = Some(ReflectorCounts { port: 862, reflected: 7, refused });
        let paths = MeasuredPaths { paths: vec![path, silent], reflector, clear_reflector };
        let text = exposition(&Seen { paths, ..Seen::default() }).unwrap();
        for line in [
            "culvert_path_delay_seconds{path=\"hq\",dscp=\"46\"} 0.03125",
            "culvert_path_loss_ratios{path=\"hq\",dscp=\"46\"} 0.05",
            "culvert_path_loss_back_ratios{path=\"hq\",dscp=\"46\"} 0.02",
            "culvert_path_penalty{path=\"hq\",dscp=\"46\"} 1000010.0",
            "culvert_path_state{path=\"hq\",dscp=\"46\",state=\"bad\"} 1",
            "culvert_path_probes_total{path=\"lte\",dscp=\"46\"} 120",
            "culvert_path_refused_total{path=\"hq\",dscp=\"46\",kind=\"late\"} 4",
            "culvert_path_reflected_total{way=\"tunnel\"} 9",
            "culvert_path_reflected_total{way=\"clear\"} 7",
            "culvert_path_reflector_refused_total{way=\"clear\",kind=\"unnamed\"} 2",
        ] {
            assert!(text.lines().any(|other| other == line), "{line}\n{text}");
        }
        assert!(!text.contains("culvert_path_loss_away_ratios{"), "{text}");
        assert!(!text.contains("culvert_path_delay_seconds{path=\"lte\""), "{text}");
        let none = exposition(&Seen::default()).unwrap();
        assert!(!none.contains("culvert_path"), "{none}");
    }
}
