//! Rows of cells, sorted and filtered.

use report::units::{rate, si, span};
use std::cmp::Ordering;

use super::limits::percent;

/// A cell: what is shown, and what it is sorted by.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// Text of the cell.
    pub text: String,
    value: Option<f64>,
    /// The least comes first.
    is_least_first: bool,
}

impl Cell {
    /// A cell with a text.
    pub fn text(text: &str) -> Cell {
        Cell { text: text.into(), value: None, is_least_first: false }
    }

    /// A cell with a count.
    pub fn count(count: u64) -> Cell {
        Cell {
            text: if count < 1_000_000 { count.to_string() } else { si(count) },
            value: Some(count as f64),
            ..Cell::text("")
        }
    }

    /// Packets a second.
    pub fn packets(per_second: f64) -> Cell {
        Cell { text: rate(per_second), value: Some(per_second), ..Cell::text("") }
    }

    /// Bits a second, of bytes a second.
    pub fn bits(bytes_per_second: f64) -> Cell {
        Cell::packets(bytes_per_second * 8.0)
    }

    /// In how many seconds something is due, if it ever is; the soonest comes first.
    pub fn due(seconds: Option<u64>) -> Cell {
        let Some(seconds) = seconds else { return Cell::text("-") };
        Cell { text: span(seconds), value: Some(seconds as f64), is_least_first: true }
    }

    /// A share, from 0 to 1, of something that there may not be.
    pub fn share(share: Option<f64>) -> Cell {
        let Some(share) = share else { return Cell::text("-") };
        Cell { text: percent(share), value: Some(share), ..Cell::text("") }
    }

    /// A number with its text.
    pub fn number(text: String, value: f64) -> Cell {
        Cell { text, value: Some(value), ..Cell::text("") }
    }

    fn compare(&self, other: &Cell) -> Ordering {
        match (self.value, other.value) {
            (Some(a), Some(b)) if self.is_least_first => a.total_cmp(&b),
            // The most first.
            (Some(a), Some(b)) => b.total_cmp(&a),
            // What has no value is last.
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => self.text.cmp(&other.text),
        }
    }

    /// As JSON: a number, whole where it is one, or a text.
    pub fn json(&self) -> serde_json::Value {
        match self.value {
            None => self.text.clone().into(),
            Some(value) if value.fract() == 0.0 && value.abs() < WHOLE => (value as i64).into(),
            Some(value) => value.into(),
        }
    }
}

/// Below this every whole number has a floating-point one.
const WHOLE: f64 = (1_u64 << 53) as f64;

/// A table of the screen.
#[derive(Clone, Debug)]
pub struct Sheet {
    /// Name of the listed things.
    pub title: &'static str,
    /// Of each column; one that begins with `>` is aligned to the right.
    pub head: Vec<&'static str>,
    /// Rows, from the top.
    pub rows: Vec<Vec<Cell>>,
    /// Columns that are left out first where there is no room.
    pub spare: &'static [usize],
}

impl Sheet {
    /// A table of these rows.
    pub fn new(
        title: &'static str,
        head: &[&'static str],
        rows: impl IntoIterator<Item = Vec<Cell>>,
    ) -> Sheet {
        Sheet { title, head: head.to_vec(), rows: rows.into_iter().collect(), spare: &[] }
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
    fn the_soonest_is_first_and_what_never_comes_last() {
        let row = |name: &str, s| vec![Cell::text(name), Cell::due(s)];
        let rows = [row("never", None), row("late", Some(90)), row("soon", Some(5))];
        let mut sheet = Sheet::new("test", &["NAME", ">ENDS"], rows);
        sheet.sort(1, false);
        assert_eq!(names(&sheet), ["soon", "late", "never"]);
        sheet.sort(1, true);
        assert_eq!(names(&sheet), ["never", "late", "soon"]);
        assert_eq!(Cell::share(Some(0.5)).json(), 0.5);
        assert_eq!(Cell::count(24).json().to_string(), "24");
        assert_eq!(Cell::packets(2.5).json().to_string(), "2.5");
        assert_eq!(Cell::share(None).json(), "-");
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
