//! Tables for people who wait: each line is printed as it is measured.

use std::io::{self, Write};

use report::terminal::has_colours;
use serde::Serialize;

/// A table whose lines are printed one by one: each column is as wide as its head and its cells so far.
pub struct Growing {
    /// Heads of the columns. Those that start with `>` are aligned to the right.
    head: Vec<String>,
    widths: Vec<usize>,
}

impl Growing {
    /// A table with these columns.
    pub fn new(head: &[&str]) -> Growing {
        let widths = head.iter().map(|head| head.trim_start_matches('>').len()).collect();
        Growing { head: head.iter().map(|head| (*head).to_owned()).collect(), widths }
    }

    /// Makes room for cells that come later.
    pub fn fit(&mut self, cells: &[String]) {
        for (width, cell) in self.widths.iter_mut().zip(cells) {
            *width = cell.chars().count().max(*width);
        }
    }

    /// The line of heads: bold on a terminal.
    pub fn head(&self) -> String {
        let heads: Vec<String> =
            self.head.iter().map(|head| head.trim_start_matches('>').to_owned()).collect();
        let line = self.laid_out(&heads);
        if has_colours() { format!("\u{1b}[1m{line}\u{1b}[0m") } else { line }
    }

    /// One line of the table.
    pub fn line(&mut self, cells: &[String]) -> String {
        self.fit(cells);
        self.laid_out(cells)
    }

    fn laid_out(&self, cells: &[String]) -> String {
        let columns = self.head.iter().zip(&self.widths).zip(cells);
        let cells: Vec<String> = columns
            .map(|((head, width), cell)| match head.starts_with('>') {
                true => format!("{cell:>width$}"),
                false => format!("{cell:<width$}"),
            })
            .collect();
        cells.join("  ").trim_end().to_owned()
    }
}

/// Rows that are printed as they come: lines of a table, or JSON objects.
pub struct Rows {
    table: Growing,
    is_json: bool,
    is_begun: bool,
    result: io::Result<()>,
}

impl Rows {
    /// Rows with these columns, each as wide as its cell in `widest` or wider.
    pub fn new(head: &[&str], widest: &[&str], is_json: bool) -> Rows {
        let mut table = Growing::new(head);
        table.fit(&widest.iter().map(|cell| (*cell).to_owned()).collect::<Vec<_>>());
        Rows { table, is_json, is_begun: false, result: Ok(()) }
    }

    /// Prints a row, whose cells are those of the table.
    pub fn print<R: Serialize>(&mut self, row: &R, cells: impl Fn(&R) -> Vec<String>) {
        let line = match (self.is_json, self.is_begun) {
            (true, _) => serde_json::to_string(row).unwrap_or_default(),
            (false, false) => format!("{}\n{}", self.table.head(), self.table.line(&cells(row))),
            (false, true) => self.table.line(&cells(row)),
        };
        self.is_begun = true;
        let printed = writeln!(io::stdout(), "{line}");
        if self.result.is_ok() {
            self.result = printed;
        }
    }

    /// Ends the table.
    ///
    /// # Errors
    /// The first row that could not be printed, unless nobody reads any more, as with `| head`.
    pub fn finish(self) -> io::Result<()> {
        match self.result {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            result => result,
        }
    }
}
