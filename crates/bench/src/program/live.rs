//! Rows of `culvert-bench` as they come, and on a terminal where the run is.

use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use bench::row::{COLUMNS, Column, columns};
use bench::{Listener, Row};

use super::growing::Growing;

/// Prints rows as a table that grows, or as JSON objects, one a line.
pub struct Live {
    json: bool,
    /// Set when nobody reads any more, so that the run ends.
    stop: Arc<AtomicBool>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Name of the bench that runs.
    name: &'static str,
    columns: Vec<Column>,
    table: Option<Growing>,
}

impl Live {
    /// `stop` is set when standard output is closed, as `| head` does.
    pub fn new(json: bool, stop: Arc<AtomicBool>) -> Live {
        Live { json, stop, state: Mutex::default() }
    }

    /// A benchmark begins: a table of its own, under these lines.
    pub fn start(&self, name: &'static str, about: &str) {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) =
            State { name, ..State::default() };
        if !self.json {
            self.print(&format!("{about}\n\n"));
        }
    }

    /// The benchmark has ended, so that something else may be printed.
    pub fn end(&self) {
        clear_progress();
    }

    /// Prints at once: who waits for the next row sees this one.
    fn print(&self, text: &str) {
        let mut out = io::stdout().lock();
        if out.write_all(text.as_bytes()).and_then(|()| out.flush()).is_err() {
            self.stop.store(true, Relaxed);
        }
    }
}

impl Listener for Live {
    fn begins(&self, what: &str, number: usize, of: usize) {
        if io::stderr().is_terminal() {
            let name = self.state.lock().unwrap_or_else(PoisonError::into_inner).name;
            let line: String =
                format!("{name}: {what} ({number} of {of})").chars().take(79).collect();
            // Nothing is lost if it cannot be shown.
            let _ = write!(io::stderr(), "\r\u{1b}[K{line}");
        }
    }

    fn done(&self, rows: &[Row]) {
        clear_progress();
        let text = match self.json {
            true => rows
                .iter()
                .filter_map(|row| serde_json::to_string(row).ok())
                .fold(String::new(), |text, row| text + &row + "\n"),
            false => self.state.lock().unwrap_or_else(PoisonError::into_inner).lines(rows),
        };
        self.print(&text);
    }
}

impl State {
    /// The rows' lines, under a head where they need columns that were not there yet.
    fn lines(&mut self, rows: &[Row]) -> String {
        let is_in =
            |columns: &[Column], head: &str| columns.iter().any(|(other, _)| *other == head);
        let used = columns(rows);
        let mut text = String::new();
        let is_new = used.iter().any(|(head, _)| !is_in(&self.columns, head));
        if is_new {
            let all =
                COLUMNS.iter().filter(|(head, _)| is_in(&self.columns, head) || is_in(&used, head));
            self.columns = all.copied().collect();
        }
        let cells: Vec<Vec<String>> = rows
            .iter()
            .map(|row| {
                let cell = |(_, cell): &Column| cell(row).unwrap_or_else(|| "-".to_owned());
                self.columns.iter().map(cell).collect()
            })
            .collect();
        if is_new {
            let heads: Vec<&str> = self.columns.iter().map(|(head, _)| *head).collect();
            let mut table = Growing::new(&heads);
            cells.iter().for_each(|cells| table.fit(cells));
            let gap = if self.table.is_some() { "\n" } else { "" };
            text = format!("{gap}{}\n", table.head());
            self.table = Some(table);
        }
        for cells in &cells {
            if let Some(table) = &mut self.table {
                text += &(table.line(cells) + "\n");
            }
        }
        text
    }
}

fn clear_progress() {
    if io::stderr().is_terminal() {
        let _ = write!(io::stderr(), "\r\u{1b}[K");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(suite: &str, mpps: f64) -> Row {
        Row { suite: Some(suite.to_owned()), mpps_median: Some(mpps), ..Row::default() }
    }

    #[test]
    fn rows_come_under_one_head_as_long_as_they_have_its_columns() {
        let mut state = State::default();
        assert_eq!(state.lines(&[row("a", 1.0)]), "SUITE  MPPS\na      1.00\n");
        assert_eq!(state.lines(&[row("bb", 10.0)]), "bb     10.00\n");
        let longer = state.lines(&[row("aes128gcm16", 2.0)]);
        assert_eq!(longer, "aes128gcm16   2.00\n");
        assert_eq!(state.lines(&[row("c", 3.0)]), "c             3.00\n");
    }

    #[test]
    fn a_column_that_was_not_there_gives_a_new_head_and_stays() {
        let mut state = State::default();
        state.lines(&[row("a", 1.0)]);
        let more = Row { size_bytes: Some(64), ..row("b", 2.0) };
        assert_eq!(state.lines(&[more]), "\nSUITE  BYTES  MPPS\nb         64  2.00\n");
        assert_eq!(state.lines(&[row("c", 3.0)]), "c          -  3.00\n");
    }

    #[test]
    fn rows_that_belong_together_have_one_head_of_all_their_columns() {
        let more = Row { gain_median: Some(2.0), ..row("b", 2.0) };
        let text = State::default().lines(&[row("a", 1.0), more]);
        assert_eq!(text, "SUITE  MPPS    GAIN\na      1.00       -\nb      2.00  2.00 x\n");
    }
}
