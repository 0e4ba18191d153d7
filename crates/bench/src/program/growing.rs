//! Tables for people who wait: each line is printed as it is measured.

use report::terminal::has_colours;

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
