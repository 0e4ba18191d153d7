//! Tables of the file and their keys, as the types that read them know.

use serde::de::DeserializeOwned;

use super::document::Document;
use super::shape;

/// No key of ours: who reads it names those that there are.
const NONE: &str = "no_such_key";

/// A table with its keys.
pub(super) struct Table {
    /// Name, without brackets; empty for the keys above all tables.
    pub(super) name: String,
    /// Heading as the file writes it: `[tun]`, `[[port]]`, `[device.NAME]`.
    pub(super) heading: String,
    /// Keys of the table.
    pub(super) keys: Vec<&'static str>,
}

/// All tables of a file's type; the keys above them come last.
pub(super) fn tables<T: DeserializeOwned>() -> Vec<Table> {
    let top = known::<T>(&format!("{NONE} = 1")).unwrap_or_default();
    let (mut tables, mut alone) = (Vec::new(), Vec::new());
    for name in top {
        let headings = [format!("[{name}]"), format!("[[{name}]]"), format!("[{name}.NAME]")];
        match headings.into_iter().find_map(|heading| table::<T>(name, heading)) {
            Some(mut table) => {
                // Names of devices are anybody's.
                if !table.heading.ends_with(".NAME]") {
                    tables.extend(inner::<T>(&mut table));
                }
                tables.push(table);
            }
            None => alone.push(*name),
        }
    }
    tables.push(Table { name: String::new(), heading: String::new(), keys: alone });
    tables
}

/// The table of a heading, if there is one.
fn table<T: DeserializeOwned>(name: &str, heading: String) -> Option<Table> {
    let keys = known::<T>(&format!("{heading}\n{NONE} = 1"))?;
    Some(Table { name: name.to_owned(), heading, keys: keys.to_vec() })
}

/// Takes the keys out of a table that are tables of their own, as `[paths.clear]`.
fn inner<T: DeserializeOwned>(outer: &mut Table) -> Vec<Table> {
    let mut found = Vec::new();
    let Table { name, keys, .. } = outer;
    keys.retain(|key| {
        let name = format!("{name}.{key}");
        let table = table::<T>(&name, format!("[{name}]"));
        let is_key = table.is_none();
        found.extend(table);
        is_key
    });
    found
}

/// Headings of the tables that have a key, if they are few: `[[path]]`. None if it is anybody's, or nobody's.
pub(super) fn owners<T: DeserializeOwned>(key: &str) -> Vec<String> {
    let mut owners: Vec<String> = tables::<T>()
        .into_iter()
        .filter(|table| !table.name.is_empty() && table.keys.contains(&key))
        .map(|table| table.heading)
        .collect();
    if owners.len() > MOST {
        owners.clear();
    }
    owners
}

/// Tables that are named as owners of a key: of more it says nothing.
const MOST: usize = 3;

fn known<T: DeserializeOwned>(text: &str) -> Option<&'static [&'static str]> {
    shape::known_beside::<T>(&Document::read(text).0)
}

#[cfg(test)]
mod tests {
    use super::owners;
    use crate::Config;

    #[test]
    fn keys_have_their_tables() {
        for (key, tables) in [
            ("interval_ms", &["[[path]]", "[device.NAME]"][..]),
            ("reflector", &["[paths]"]),
            ("weights", &["[[steer]]"]),
            ("at", &["[paths.clear]"]),
            ("frames", &["[worker]"]),
            ("colour", &[]),
            // Of many tables.
            ("interface", &[]),
        ] {
            let mut found = owners::<Config>(key);
            found.sort();
            assert_eq!(found, tables, "{key}");
        }
    }
}
