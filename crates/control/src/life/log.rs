//! The log, rate-limited: a repeated error is written once a second.
//!
//! A failure in a loop comes thousands of times a second, and a log that takes all of it fills the
//! disk and hides the rest. So warnings and errors pass a [`Limiter`] on their way out, wherever
//! they come from: of those with the same place in the code and the same text, one a second is
//! written, with the number of those that were left out since the last one.

use core::fmt::{self, Write as _};
use core::hash::{BuildHasher, Hash, Hasher};
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::collections::HashMap;
use std::hash::RandomState;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber, warn};
use tracing_subscriber::filter::{LevelFilter, ParseError, Targets};
use tracing_subscriber::fmt::format::{Format, JsonFields, Writer};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::registry::{LookupSpan, Registry};
use tracing_subscriber::util::SubscriberInitExt;

/// How often the same line may be written.
const INTERVAL: Duration = Duration::from_secs(1);

/// Different lines that are told apart in one interval. Further ones count by their place in the
/// code.
const LINES: usize = 256;

/// The daemon's: one for the process, as its log is.
static LIMITER: OnceLock<Limiter> = OnceLock::new();

/// Begins to write the log to standard error.
///
/// # Errors
/// The level is none.
pub fn init(level: &str, json: bool) -> Result<(), ParseError> {
    let filter: Targets = level.parse()?;
    let most = Layer::<Registry>::max_level_hint(&filter).unwrap_or(LevelFilter::TRACE);
    let limiter = LIMITER.get_or_init(Limiter::default);
    // A line that cannot be written (a terminal that is closed, a full disk) is lost, and nobody to be told of it.
    let builder = tracing_subscriber::fmt()
        .with_max_level(most)
        .with_writer(std::io::stderr)
        .log_internal_errors(false);
    if json {
        let format = Limited { format: Format::default().json(), is_json: true, limiter };
        builder.fmt_fields(JsonFields::new()).event_format(format).finish().with(filter).init();
    } else {
        let is_terminal = std::io::IsTerminal::is_terminal(&std::io::stderr());
        let format = Limited { format: Format::default(), is_json: false, limiter };
        builder.with_ansi(is_terminal).event_format(format).finish().with(filter).init();
    }
    Ok(())
}

/// Reports lines that were left out and have not come again. Called by the control thread's loop.
pub fn tell_left_out() {
    let Some(limiter) = LIMITER.get() else { return };
    for (text, times) in limiter.take_left_out(Instant::now()) {
        warn!(times, "came again: {text}");
    }
}

/// Decides which lines are written.
#[derive(Debug, Default)]
struct Limiter {
    hasher: RandomState,
    lines: Mutex<HashMap<u64, Line>>,
    /// True if left-out lines were not reported yet.
    has_left_out: AtomicBool,
}

/// A line that was written not long ago.
#[derive(Debug)]
struct Line {
    written: Instant,
    text: String,
    left_out: u64,
}

impl Limiter {
    /// Number of like lines that were left out, if a line from this place in the code is to be
    /// written.
    fn pass(&self, place: impl Hash, text: String, now: Instant) -> Option<u64> {
        let key = |parts: &dyn Fn(&mut dyn Hasher)| {
            let mut hasher = self.hasher.build_hasher();
            parts(&mut hasher);
            hasher.finish()
        };
        let place = self.hasher.hash_one(place);
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let mut id = key(&|mut h| (place, &text).hash(&mut h));
        if lines.len() >= LINES && !lines.contains_key(&id) {
            lines.retain(|_, line| line.left_out > 0 || now < line.written + INTERVAL);
            if lines.len() >= LINES {
                id = place;
            }
        }
        if let Some(line) = lines.get_mut(&id) {
            if now < line.written + INTERVAL {
                line.left_out += 1;
                self.has_left_out.store(true, Relaxed);
                return None;
            }
            line.written = now;
            return Some(std::mem::take(&mut line.left_out));
        }
        lines.insert(id, Line { written: now, text, left_out: 0 });
        Some(0)
    }

    /// Left-out lines that are due to be reported.
    fn take_left_out(&self, now: Instant) -> Vec<(String, u64)> {
        if !self.has_left_out.load(Relaxed) {
            return Vec::new();
        }
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let mut told = Vec::new();
        let mut more = false;
        for line in lines.values_mut().filter(|line| line.left_out > 0) {
            if now < line.written + INTERVAL {
                more = true;
                continue;
            }
            line.written = now;
            told.push((line.text.clone(), std::mem::take(&mut line.left_out)));
        }
        self.has_left_out.store(more, Relaxed);
        told
    }
}

/// A format that leaves out what comes too often.
struct Limited<F> {
    format: F,
    is_json: bool,
    limiter: &'static Limiter,
}

impl<S, N, F> FormatEvent<S, N> for Limited<F>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let metadata = event.metadata();
        // Other levels are no errors, and who asks for details wants all of them.
        if *metadata.level() > Level::WARN {
            return self.format.format_event(context, writer, event);
        }
        let mut text = Text::default();
        event.record(&mut text);
        let left_out = self.limiter.pass(metadata.callsite(), text.0, Instant::now());
        match left_out {
            // Nothing written: nothing is put out.
            None => Ok(()),
            Some(0) => self.format.format_event(context, writer, event),
            Some(left_out) => {
                let mut line = String::new();
                self.format.format_event(context, Writer::new(&mut line), event)?;
                let line = line.trim_end();
                match line.strip_suffix('}').filter(|_| self.is_json) {
                    Some(open) => writeln!(writer, "{open},\"left_out\":{left_out}}}"),
                    None => writeln!(writer, "{line} (and {left_out} times more since the last)"),
                }
            }
        }
    }
}

/// Text of an event: the message, then the other fields.
#[derive(Debug, Default)]
struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Into a string: cannot fail.
        let _ = match field.name() {
            "message" => {
                let rest = std::mem::take(&mut self.0);
                write!(self.0, "{value:?}{rest}")
            }
            name => write!(self.0, " {name}={value:?}"),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn the_filter_that_documents_name_is_this_crates() {
        let documents = [
            include_str!("../../../../docs/reference/configuration.md"),
            include_str!("../../../../packaging/culvert.toml"),
        ];
        for document in documents {
            let words = document.split(['"', '`']);
            let filters: Vec<&str> = words.filter(|word| word.ends_with("=debug,info")).collect();
            assert!(!filters.is_empty());
            for filter in filters {
                let targets: Targets = filter.parse().unwrap();
                assert!(targets.would_enable(module_path!(), &Level::DEBUG), "{filter}");
                assert!(!targets.would_enable("xfrm::database", &Level::DEBUG), "{filter}");
                assert!(targets.would_enable("xfrm::database", &Level::INFO), "{filter}");
            }
        }
    }

    #[test]
    fn the_same_line_is_written_once_a_second() {
        let limiter = Limiter::default();
        let start = Instant::now();
        let mut written = Vec::new();
        for ms in 0..3500_u32 {
            written.extend(limiter.pass("here", "no descriptors".into(), start + MS * ms));
        }
        assert_eq!(written, [0, 999, 999, 999]);
        // Another text, or another place, is another line.
        assert_eq!(limiter.pass("here", "no memory".into(), start), Some(0));
        assert_eq!(limiter.pass("there", "no descriptors".into(), start), Some(0));
    }

    #[test]
    fn what_was_left_out_is_told_when_it_does_not_come_again() {
        let limiter = Limiter::default();
        let start = Instant::now();
        for _ in 0..5 {
            limiter.pass("here", "no descriptors".into(), start);
        }
        assert!(limiter.take_left_out(start + MS).is_empty());
        assert_eq!(limiter.take_left_out(start + INTERVAL), [("no descriptors".into(), 4)]);
        assert!(limiter.take_left_out(start + 2 * INTERVAL).is_empty());
        assert_eq!(limiter.pass("here", "no descriptors".into(), start + 3 * INTERVAL), Some(0));
    }

    #[test]
    fn a_flood_of_different_lines_is_bounded_too() {
        let limiter = Limiter::default();
        let start = Instant::now();
        let lines = (0..100_000).map(|n| limiter.pass("here", format!("client {n}"), start));
        assert_eq!(lines.flatten().count(), LINES + 1);
        let told = limiter.take_left_out(start + INTERVAL);
        assert_eq!(told.len(), 1);
        assert_eq!(told[0].1 as usize, 100_000 - LINES - 1);
        // Later there is room for others again.
        assert_eq!(limiter.pass("here", "client 1".into(), start + 3 * INTERVAL), Some(0));
        assert_eq!(limiter.pass("here", "new".into(), start + 3 * INTERVAL), Some(0));
        assert!(limiter.lines.lock().unwrap().len() <= LINES + 1);
    }
}
