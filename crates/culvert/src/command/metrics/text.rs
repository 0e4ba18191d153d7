//! The other forms of an exposition: Prometheus's own text, and JSON.
//!
//! The library writes OpenMetrics alone. Both differ little: in OpenMetrics a family of counters goes by a name without
//! `_total`, there are units, and there is an end.

use serde_json::{Value, json};

/// Prometheus's text format 0.0.4 of an exposition in OpenMetrics.
pub fn prometheus(openmetrics: &str) -> String {
    let mut text = String::new();
    for family in families(openmetrics) {
        // A counter's name is that of its series.
        let name = match family.kind {
            "counter" => format!("{}_total", family.name),
            _ => family.name.to_owned(),
        };
        text += &format!("# HELP {name} {}\n# TYPE {name} {}\n", family.help, family.kind);
        for sample in family.samples {
            text += sample;
            text.push('\n');
        }
    }
    text
}

/// A list of families, each with its `samples`: their name, labels and value.
pub fn json(openmetrics: &str) -> String {
    let families = families(openmetrics).into_iter().map(|family| {
        let samples = family.samples.iter().filter_map(|line| sample(line)).collect::<Vec<_>>();
        json!({
            "name": family.name,
            "type": family.kind,
            "help": family.help,
            "unit": family.unit,
            "samples": samples,
        })
    });
    families.collect::<Value>().to_string()
}

/// Series of one name, or of a histogram.
#[derive(Default)]
struct Family<'t> {
    name: &'t str,
    help: &'t str,
    kind: &'t str,
    unit: Option<&'t str>,
    samples: Vec<&'t str>,
}

fn families(openmetrics: &str) -> Vec<Family<'_>> {
    let mut families: Vec<Family<'_>> = Vec::new();
    for line in openmetrics.lines() {
        let mut words = line.splitn(4, ' ');
        let (first, what, name, rest) = (words.next(), words.next(), words.next(), words.next());
        if first != Some("#") {
            if let Some(family) = families.last_mut() {
                family.samples.push(line);
            }
            continue;
        }
        let (Some(what), Some(name), Some(rest)) = (what, name, rest) else { continue };
        if families.last().is_none_or(|family| family.name != name) {
            families.push(Family { name, ..Family::default() });
        }
        let Some(family) = families.last_mut() else { continue };
        match what {
            "HELP" => family.help = rest,
            "TYPE" => family.kind = rest,
            "UNIT" => family.unit = Some(rest),
            _ => {}
        }
    }
    families
}

/// Reads a line such as `name{label="value",...} value`.
fn sample(line: &str) -> Option<Value> {
    let (series, value) = line.rsplit_once(' ')?;
    let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
    let labels: serde_json::Map<_, _> = labels_of(labels.strip_suffix('}')?)
        .into_iter()
        .map(|(label, value)| (label, Value::String(value)))
        .collect();
    // Infinity is no number of JSON's.
    let value = value.parse().map_or_else(|_| value.into(), Value::Number);
    Some(json!({ "name": name, "labels": labels, "value": value }))
}

/// The labels of a series. In their values `\`, `"` and line feeds are written with a `\` before them.
fn labels_of(text: &str) -> Vec<(String, String)> {
    let mut labels = Vec::new();
    let mut rest = text;
    while let Some((label, after)) = rest.split_once("=\"") {
        let mut value = String::new();
        let mut letters = after.char_indices();
        let mut end = after.len();
        while let Some((at, letter)) = letters.next() {
            match letter {
                '"' => {
                    end = at + 1;
                    break;
                }
                '\\' => match letters.next() {
                    Some((_, 'n')) => value.push('\n'),
                    other => value.extend(other.map(|(_, letter)| letter)),
                },
                letter => value.push(letter),
            }
        }
        labels.push((label.trim_start_matches(',').to_owned(), value));
        rest = after.get(end..).unwrap_or_default();
    }
    labels
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
# HELP culvert_drops Dropped packets by reason.
# TYPE culvert_drops counter
culvert_drops_total{reason=\"in-integrity\"} 7
# HELP culvert_uptime_seconds Since the daemon started.
# TYPE culvert_uptime_seconds gauge
# UNIT culvert_uptime_seconds seconds
culvert_uptime_seconds 12
# HELP culvert_odd Odd.
# TYPE culvert_odd gauge
culvert_odd{a=\"x \\\"y\\\\\\n,\",le=\"+Inf\"} 0.5
# EOF
";

    #[test]
    fn counters_have_their_series_name_and_there_is_no_end() {
        let text = prometheus(TEXT);
        assert!(text.starts_with(
            "# HELP culvert_drops_total Dropped packets by reason.\n# TYPE culvert_drops_total counter\n\
             culvert_drops_total{reason=\"in-integrity\"} 7\n# HELP culvert_uptime_seconds"
        ));
        assert!(!text.contains("# UNIT") && !text.contains("# EOF"), "{text}");
        assert!(text.ends_with("culvert_odd{a=\"x \\\"y\\\\\\n,\",le=\"+Inf\"} 0.5\n"), "{text}");
    }

    #[test]
    fn json_has_labels_and_numbers() {
        let all: Value = serde_json::from_str(&json(TEXT)).expect("JSON");
        assert_eq!(
            all[0]["samples"][0],
            json!({ "name": "culvert_drops_total", "labels": { "reason": "in-integrity" }, "value": 7 })
        );
        assert_eq!(
            (&all[1]["unit"], &all[1]["samples"][0]["value"]),
            (&json!("seconds"), &json!(12))
        );
        assert_eq!(all[2]["samples"][0]["labels"], json!({ "a": "x \"y\\\n,", "le": "+Inf" }));
        assert_eq!(all[2]["samples"][0]["value"], 0.5);
    }
}
