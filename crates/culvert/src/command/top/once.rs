//! `culvert top --once`: the rates of one interval.

use serde_json::{Map, Value};

use super::sample::Pair;
use super::sheet::Sheet;
use crate::table::table;

/// All sheets as tables, one below the other; those without rows are left out.
pub fn text(pair: &Pair<'_>) -> String {
    let sheets = sheets(pair).into_iter().filter(|sheet| !sheet.rows.is_empty());
    let tables = sheets.map(|sheet| {
        let rows = sheet.rows.iter().map(|row| row.iter().map(|cell| cell.text.clone()).collect());
        table(&sheet.head, rows.collect::<Vec<Vec<String>>>())
    });
    tables.collect::<Vec<_>>().join("\n\n")
}

/// The same as JSON: a list of objects for each sheet, numbers without prefixes.
pub fn json(pair: &Pair<'_>) -> String {
    let rows = |sheet: &Sheet| -> Value {
        let names = || sheet.head.iter().map(|head| name(head));
        let object = |row: &Vec<super::sheet::Cell>| -> Value {
            names().zip(row).map(|(name, cell)| (name, cell.json())).collect::<Map<_, _>>().into()
        };
        sheet.rows.iter().map(object).collect()
    };
    let all: Map<String, Value> =
        sheets(pair).iter().map(|sheet| (sheet.title.to_lowercase(), rows(sheet))).collect();
    Value::from(all).to_string()
}

/// `>RX BIT/S` becomes `rx_bit_per_s`, `>PPS` `pps`.
fn name(head: &str) -> String {
    head.trim_start_matches('>').to_lowercase().replace('/', " per ").replace(' ', "_")
}

fn sheets(pair: &Pair<'_>) -> [Sheet; 5] {
    [pair.ports(), pair.workers(), pair.sas(), pair.policies(), pair.drops()]
}
