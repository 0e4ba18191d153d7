//! Tables for people: aligned columns, a bold head on a terminal, nothing else.

use std::io::IsTerminal;

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use report::terminal::has_colours;

/// Columns of the terminal that the output goes to; none for a file or pipe, which get all of a table.
pub fn terminal_width() -> Option<usize> {
    let is_terminal = std::io::stdout().is_terminal();
    let size = is_terminal.then(|| ratatui::crossterm::terminal::size().ok()).flatten();
    size.map(|(columns, _)| usize::from(columns)).filter(|columns| *columns > 0)
}

/// As [`table`], no wider than `width`: columns are left out, in the order of `spare`, until it fits, and the line
/// below says which, and that `all` shows them.
pub fn table_within(
    width: Option<usize>,
    head: &[&str],
    rows: impl IntoIterator<Item = Vec<String>>,
    spare: &[&str],
    all: &str,
) -> String {
    let rows: Vec<Vec<String>> = rows.into_iter().collect();
    let name = |head: &str| head.trim_start_matches('>').to_owned();
    let mut kept: Vec<usize> = (0..head.len()).collect();
    let mut left_out: Vec<String> = Vec::new();
    if let Some(width) = width {
        let widths: Vec<usize> = head
            .iter()
            .enumerate()
            .map(|(i, head)| {
                let cells =
                    rows.iter().filter_map(|row| row.get(i)).map(|cell| cell.chars().count());
                cells.max().unwrap_or(0).max(name(head).len())
            })
            .collect();
        let total = |kept: &[usize]| {
            let gaps = 2 * kept.len().saturating_sub(1);
            kept.iter().filter_map(|i| widths.get(*i)).sum::<usize>() + gaps
        };
        for column in spare {
            if total(&kept) <= width {
                break;
            }
            kept.retain(|i| head.get(*i).is_none_or(|head| name(head) != *column));
            left_out.push((*column).to_owned());
        }
    }
    let pick = |row: Vec<String>| -> Vec<String> {
        kept.iter().filter_map(|i| row.get(*i).cloned()).collect()
    };
    let head: Vec<&str> = kept.iter().filter_map(|i| head.get(*i).copied()).collect();
    let text = table(&head, rows.into_iter().map(pick));
    match left_out.is_empty() {
        true => text,
        false => format!("{text}\n\nnot shown for want of width: {} ({all})", left_out.join(", ")),
    }
}

/// Lays rows out under a head. Columns whose head starts with `>` are aligned to the right.
pub fn table(head: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(head.iter().map(|h| h.trim_start_matches('>').to_owned()));
    for row in rows {
        table.add_row(row);
    }
    for (i, h) in head.iter().enumerate() {
        if let Some(column) = table.column_mut(i) {
            column.set_padding((0, 2));
            if h.starts_with('>') {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
    }
    let text: Vec<String> = table.lines().map(|l| l.trim_end().to_owned()).collect();
    match text.split_first() {
        Some((first, rest)) if has_colours() => {
            let mut out = format!("\u{1b}[1m{first}\u{1b}[0m");
            for line in rest {
                out.push('\n');
                out.push_str(line);
            }
            out
        }
        _ => text.join("\n"),
    }
}

/// Names and values, a pair on each line, the values aligned.
pub fn pairs<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let pairs: Vec<(&str, &str)> = pairs.into_iter().collect();
    let width = pairs.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let lines: Vec<String> =
        pairs.iter().map(|(name, value)| format!("  {name:<width$}  {value}")).collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aligned_and_trimmed() {
        let text = table(
            &["NAME", ">COUNT"],
            [vec!["a".into(), "1".into()], vec!["longer".into(), "1000".into()]],
        );
        assert_eq!(text, "NAME    COUNT\na           1\nlonger   1000");
    }

    #[test]
    fn a_table_stays_within_its_width() {
        let head = ["NAME", "STATE", "MAC", ">RX"];
        let row = || ["wan", "up", "02:00:00:00:00:01", "12"].map(String::from).to_vec();
        let within =
            |width| table_within(width, &head, [row()], &["MAC", "STATE"], "`culvert port -v`");
        let whole = "NAME  STATE  MAC                RX\nwan   up     02:00:00:00:00:01  12";
        assert_eq!(within(None), whole);
        assert_eq!(within(Some(34)), whole);
        let narrow = "NAME  STATE  RX\nwan   up     12\n\n\
                      not shown for want of width: MAC (`culvert port -v`)";
        assert_eq!(within(Some(33)), narrow);
        assert!(within(Some(12)).starts_with("NAME  RX\nwan   12\n"), "{}", within(Some(12)));
        // What cannot be spared stays, whatever the width.
        assert!(within(Some(1)).starts_with("NAME  RX\n"));
    }
}
