//! Rows of cells, sorted and filtered.

use std::cmp::Ordering;

use crate::table::{rate, si, span};

/// A cell: what is shown, and what it is sorted by.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// What is shown.
    pub text: String,
    value: Option<f64>,
}

impl Cell {
    /// A text.
    pub fn text(text: &str) -> Cell {
        Cell { text: text.into(), value: None }
    }

    /// A count.
    pub fn count(count: u64) -> Cell {
        Cell {
            text: if count < 1_000_000 { count.to_string() } else { si(count) },
            value: Some(count as f64),
        }
    }

    /// Packets a second.
    pub fn packets(per_second: f64) -> Cell {
        Cell { text: rate(per_second), value: Some(per_second) }
    }

    /// Bits a second, of bytes a second.
    pub fn bits(bytes_per_second: f64) -> Cell {
        Cell::packets(bytes_per_second * 8.0)
    }

    /// A time span, in seconds.
    pub fn age(seconds: u64) -> Cell {
        Cell { text: span(seconds), value: Some(seconds as f64) }
    }

    fn compare(&self, other: &Cell) -> Ordering {
        match (self.value, other.value) {
            // The most first.
            (Some(a), Some(b)) => b.total_cmp(&a),
            _ => self.text.cmp(&other.text),
        }
    }

    /// As JSON: a number, or a text.
    pub fn json(&self) -> serde_json::Value {
        self.value.map_or_else(|| self.text.clone().into(), Into::into)
    }
}

/// A table.
#[derive(Clone, Debug)]
pub struct Sheet {
    /// What it is of.
    pub title: &'static str,
    /// Of each column; one that begins with `>` is aligned to the right.
    pub head: Vec<&'static str>,
    /// The rows.
    pub rows: Vec<Vec<Cell>>,
}

impl Sheet {
    /// A table of these rows.
    pub fn new(
        title: &'static str,
        head: &[&'static str],
        rows: impl IntoIterator<Item = Vec<Cell>>,
    ) -> Sheet {
        Sheet { title, head: head.to_vec(), rows: rows.into_iter().collect() }
    }

    /// Sorts by a column, stably, so that rows that are alike keep their places.
    pub fn sort(&mut self, column: usize, reversed: bool) {
        self.rows.sort_by(|a, b| {
            let order = match (a.get(column), b.get(column)) {
                (Some(a), Some(b)) => a.compare(b),
                _ => Ordering::Equal,
            };
            if reversed { order.reverse() } else { order }
        });
    }

    /// Keeps the rows in which some cell has a text.
    pub fn filter(&mut self, text: &str) {
        self.rows.retain(|row| row.iter().any(|cell| cell.text.contains(text)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sheet() -> Sheet {
        let row = |name: &str, pps: f64| vec![Cell::text(name), Cell::packets(pps)];
        Sheet::new("test", &["NAME", ">PPS"], [row("b", 2.0), row("a", 900.0), row("c", 12_000.0)])
    }

    fn names(sheet: &Sheet) -> Vec<&str> {
        sheet.rows.iter().map(|row| row[0].text.as_str()).collect()
    }

    #[test]
    fn numbers_are_sorted_as_numbers_the_most_first() {
        let mut sheet = sheet();
        sheet.sort(1, false);
        assert_eq!(names(&sheet), ["c", "a", "b"]);
        sheet.sort(1, true);
        assert_eq!(names(&sheet), ["b", "a", "c"]);
        sheet.sort(0, false);
        assert_eq!(names(&sheet), ["a", "b", "c"]);
        sheet.sort(9, false);
        assert_eq!(names(&sheet), ["a", "b", "c"]);
    }

    #[test]
    fn a_filter_looks_at_every_cell() {
        let mut sheet = sheet();
        sheet.filter("900");
        assert_eq!(names(&sheet), ["a"]);
        sheet.filter("x");
        assert!(sheet.rows.is_empty());
    }
}
