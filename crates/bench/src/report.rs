//! A report: what was measured, on what, how to repeat it; as text, as JSON, and as charts.

use core::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value, json};

use crate::benches::Bench;
use crate::machine;
use crate::row::{Row, columns};

/// Result of one benchmark.
pub struct Part {
    /// The benchmark that gave it.
    pub bench: Bench,
    /// The rows, or the reason that there are none.
    pub rows: Result<Vec<Row>, String>,
}

/// Everything that one run gave.
pub struct Report {
    /// The crypto engine: name, version, code path.
    pub engine: String,
    /// How to get the same again.
    pub command: String,
    /// How many repetitions of what length.
    pub repetitions: String,
    /// How long it all took.
    pub took: Duration,
    /// Results by benchmark.
    pub parts: Vec<Part>,
}

impl Report {
    /// Writes `DATE-PROCESSOR.md`, `DATE-PROCESSOR.json` and a folder of charts; returns the path
    /// of the text.
    ///
    /// # Errors
    /// When the directory cannot be written.
    pub fn write(&self, directory: &Path) -> io::Result<PathBuf> {
        let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |t| t.as_secs());
        let date = date(seconds / 86_400);
        let name = format!("{date}-{}", machine::processor_slug());
        let charts = directory.join(&name);
        // Those of an earlier report of the same day are not this one's.
        match fs::remove_dir_all(&charts) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
            _ => fs::create_dir_all(&charts)?,
        }
        for part in &self.parts {
            for chart in part.charts() {
                fs::write(charts.join(format!("{}.svg", chart.name)), chart.svg())?;
            }
        }
        let facts = machine::describe();
        let mut json = serde_json::to_string_pretty(&self.json(&date, &facts))?;
        json.push('\n');
        fs::write(directory.join(format!("{name}.json")), json)?;
        let path = directory.join(format!("{name}.md"));
        fs::write(&path, self.markdown(&date, &name, &facts))?;
        Ok(path)
    }

    fn json(&self, date: &str, facts: &[(&'static str, String)]) -> Value {
        let machine: Map<String, Value> =
            facts.iter().map(|(name, value)| ((*name).to_owned(), json!(value))).collect();
        let rows: Vec<&Row> = self.parts.iter().flat_map(|p| p.rows.as_deref()).flatten().collect();
        json!({
            "date": date,
            "engine": self.engine,
            "command": self.command,
            "repetitions": self.repetitions,
            "machine": machine,
            "rows": rows,
        })
    }

    fn markdown(&self, date: &str, name: &str, facts: &[(&'static str, String)]) -> String {
        let mut out = format!("# Benchmarks of {date}\n\n");
        // A String takes everything: the results say nothing.
        let _ = writeln!(
            out,
            "Made by `{}` in {:.0} minutes: {}. The same figures for programs are in\n\
             [{name}.json]({name}.json).\n",
            self.command,
            (self.took.as_secs_f64() / 60.0).ceil(),
            self.repetitions
        );
        out.push_str(METHOD);
        out.push_str("\n## Machine\n\n| | |\n| --- | --- |\n");
        for (name, value) in facts {
            let _ = writeln!(out, "| {name} | {} |", value.replace('|', "\\|"));
        }
        let _ = writeln!(out, "| crypto | {} |", self.engine);
        for part in &self.parts {
            let _ = writeln!(out, "\n## `{}`\n\n{}\n", part.bench.name(), part.bench.about());
            match &part.rows {
                Err(reason) => {
                    let _ = writeln!(out, "Not measured: {reason}.");
                }
                Ok(rows) => table(&mut out, rows),
            }
            for chart in part.charts() {
                let _ = writeln!(out, "\n![{}]({name}/{}.svg)", chart.title, chart.name);
            }
        }
        out
    }
}

impl Part {
    fn charts(&self) -> Vec<crate::plot::Chart> {
        self.rows.as_ref().map_or_else(|_| Vec::new(), |rows| self.bench.charts(rows))
    }
}

/// A table of the columns that the rows use.
fn table(out: &mut String, rows: &[Row]) {
    let columns = columns(rows);
    let line = |out: &mut String, cells: &mut dyn Iterator<Item = String>| {
        for cell in cells {
            let _ = write!(out, "| {cell} ");
        }
        out.push_str("|\n");
    };
    line(out, &mut columns.iter().map(|(head, _)| head.trim_start_matches('>').to_lowercase()));
    let rule = |head: &str| if head.starts_with('>') { "---:" } else { "---" };
    line(out, &mut columns.iter().map(|(head, _)| rule(head).to_owned()));
    for row in rows {
        line(out, &mut columns.iter().map(|(_, cell)| cell(row).unwrap_or_default()));
    }
}

/// A day since 1970-01-01 as `YYYY-MM-DD` (Gregorian).
fn date(day: u64) -> String {
    // Years that begin in March have the leap day at their end; the first is that of year 0.
    let day = day + 719_468;
    let (era, day) = (day / 146_097, day % 146_097);
    let year_of_era = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day + 2) / 153;
    let day = day - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

const METHOD: &str = "\
Packets are UDP in IPv4; sizes are those of the inner IP packet. What is timed is the daemon's own
worker, with nothing switched off that a gateway has on; what is not timed is what a network card
and the peers do: writing packets, and sealing those that arrive under ESP. The packets under way
lie in 16 MiB of buffers, unless `--frames` says otherwise, in random order. Rates are medians of the
repetitions, with the slowest and the fastest; cycles are those of the time-stamp counter, which is a
clock. Ratios compare what was measured in turns within one run: on a shared machine they say more
than the rates.
";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Direction;

    #[test]
    fn dates_are_right() {
        assert_eq!(date(0), "1970-01-01");
        assert_eq!(date(31 + 27), "1970-02-28");
        assert_eq!(date(31 + 28), "1970-03-01");
        assert_eq!(date(11_016), "2000-02-29");
        assert_eq!(date(11_017), "2000-03-01");
        assert_eq!(date(20_453), "2025-12-31");
        assert_eq!(date(47_541), "2100-03-01");
    }

    #[test]
    fn a_report_has_text_data_and_charts() {
        let row = Row {
            bench: "esp",
            suite: Some("aes128gcm16".into()),
            direction: Some(Direction::Inbound),
            size_bytes: Some(64),
            mpps_median: Some(1.25),
            ..Row::default()
        };
        let report = Report {
            engine: "none".into(),
            command: "make bench".into(),
            repetitions: "5 x 200 ms".into(),
            took: Duration::from_secs(61),
            parts: vec![
                Part { bench: Bench::Esp, rows: Ok(vec![row]) },
                Part { bench: Bench::Peer, rows: Err("it is not there".into()) },
            ],
        };
        let directory = std::env::temp_dir().join(format!("bench-report-{}", std::process::id()));
        fs::create_dir(&directory).unwrap();
        let path = report.write(&directory).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains("| suite | direction | bytes | mpps |"), "{text}");
        assert!(text.contains("| aes128gcm16 | inbound | 64 | 1.25 |"), "{text}");
        assert!(text.contains("Not measured: it is not there."), "{text}");
        assert!(text.contains("in 2 minutes"), "{text}");
        let json = fs::read_to_string(path.with_extension("json")).unwrap();
        let json: Value = serde_json::from_str(&json).unwrap();
        assert_eq!(json["rows"][0]["mpps_median"], 1.25);
        assert_eq!(json["rows"][0]["peer_mpps"], Value::Null);
        assert!(path.with_extension("").join("esp-aes128gcm16.svg").exists());
        fs::remove_dir_all(&directory).unwrap();
    }
}
