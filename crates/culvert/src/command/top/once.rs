//! `culvert top --once`: the rates of one interval.

use std::collections::HashMap;

use report::Sa;
use serde_json::{Map, Value};

use super::limits::Shares;
use super::sample::Pair;
use super::sdwan::{apps, paths};
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

/// The same as JSON: a list of objects for each sheet, numbers without prefixes. SAs have the share of each of their
/// limits, too.
pub fn json(pair: &Pair<'_>) -> String {
    let rows = |sheet: &Sheet| -> Value {
        let names = || sheet.head.iter().map(|head| name(head));
        let object = |row: &Vec<super::sheet::Cell>| -> Value {
            names().zip(row).map(|(name, cell)| (name, cell.json())).collect::<Map<_, _>>().into()
        };
        sheet.rows.iter().map(object).collect()
    };
    let mut all: Map<String, Value> =
        sheets(pair).iter().map(|sheet| (sheet.title.to_lowercase(), rows(sheet))).collect();
    if let Some(Value::Array(sas)) = all.get_mut("sas") {
        add_limits(sas, pair.seen().sas.as_deref().unwrap_or_default());
    }
    Value::from(all).to_string()
}

/// `"limits": {"soft": {"time": 0.25, "bytes": null, "packets": null}, "hard": ...}`
fn add_limits(rows: &mut [Value], sas: &[Sa]) {
    let by_name: HashMap<(&str, &str), &Sa> =
        sas.iter().map(|sa| ((sa.spi.as_str(), sa.dst.as_str()), sa)).collect();
    for row in rows {
        let name =
            (row["spi"].as_str().unwrap_or_default(), row["dst"].as_str().unwrap_or_default());
        if let Some(sa) = by_name.get(&name) {
            let (soft, hard) = (Shares::soft(sa).json(), Shares::hard(sa).json());
            row["limits"] = serde_json::json!({ "soft": soft, "hard": hard });
        }
    }
}

/// `>RX BIT/S` becomes `rx_bit_per_s`, `>PPS` `pps`.
fn name(head: &str) -> String {
    head.trim_start_matches('>').to_lowercase().replace('/', " per ").replace(' ', "_")
}

fn sheets(pair: &Pair<'_>) -> [Sheet; 8] {
    [
        pair.ports(),
        pair.devices(),
        pair.workers(),
        pair.sas(),
        pair.policies(),
        pair.drops(),
        paths(pair),
        apps(pair),
    ]
}

#[cfg(test)]
mod tests {
    use report::Left;

    use super::*;
    use crate::command::top::sample::tests::looks;

    #[test]
    fn sas_have_their_limits() {
        let (before, mut now) = looks();
        let sa = &mut now.seen.sas.as_mut().expect("listed")[0];
        sa.age_s = 900;
        sa.until_rekey = Left { s: Some(300), packets: Some(1000), ..Left::default() };
        let told: Value = serde_json::from_str(&json(&Pair::new(&before, &now))).expect("JSON");
        let row = &told["sas"][0];
        assert_eq!((&row["soft"], &row["hard"]), (&0.875.into(), &"-".into()), "{row}");
        let soft = serde_json::json!({ "time": 0.75, "bytes": null, "packets": 0.875 });
        assert_eq!(row["limits"]["soft"], soft, "7000 packets are carried, 1000 are left");
        assert_eq!(row["limits"]["hard"]["time"], Value::Null);
        assert!(told["policies"][0].get("limits").is_none());
    }
}
