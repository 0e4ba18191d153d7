//! The keys that a configuration can have, held against the example that shows all of them and the reference that
//! explains them.

use std::collections::BTreeSet;

use super::Config;
use super::keys::{Table, tables};

const EXAMPLE: &str = include_str!("../../../packaging/example.toml");
const REFERENCE: &str = include_str!("../../../docs/reference/configuration.md");

/// Every key of the schema: `name`, `port.interface`, `device.kind`.
fn schema() -> BTreeSet<String> {
    let keys = |table: Table| table.keys.into_iter().map(move |key| in_table(&table.name, key));
    tables::<Config>().into_iter().flat_map(keys).collect()
}

/// The words in back quotes.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// The name of the table of `[tun]`, `[[port]]`, `[paths.clear]`, `[device.nic0]`.
fn table(heading: &str) -> Option<&str> {
    let inner = heading.strip_prefix('[')?.trim_start_matches('[').split(']').next()?;
    // Devices have names of their own.
    Some(if inner.starts_with("device.") { "device" } else { inner })
}

fn in_table(table: &str, key: &str) -> String {
    if table.is_empty() { key.to_owned() } else { format!("{table}.{key}") }
}

/// The keys of the example, also those that stand behind a `#` because another one excludes them.
fn example() -> BTreeSet<String> {
    let is_key = |word: &str| {
        word.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
    };
    let mut keys = BTreeSet::new();
    let mut current = "";
    for line in EXAMPLE.lines() {
        let line = line.strip_prefix("# ").unwrap_or(line);
        if let Some(table) = table(line) {
            current = table;
        } else if let Some((key, _)) = line.split_once(" = ")
            && is_key(key)
        {
            keys.insert(in_table(current, key));
        }
    }
    keys
}

/// The keys that the reference has a row for.
fn reference() -> BTreeSet<String> {
    let mut keys = BTreeSet::new();
    let (mut current, mut is_of_keys) = ("", false);
    let section = REFERENCE.split("\n## Keys\n").nth(1).expect("a section of keys");
    for line in section.split("\n## ").next().unwrap_or_default().lines() {
        if let Some(heading) = line.strip_prefix("### ") {
            let tables: Vec<_> = quoted(heading).filter_map(table).collect();
            // Rows of several tables name theirs.
            current = if tables.len() == 1 { tables[0] } else { "" };
        } else if let Some(row) = line.strip_prefix("| ") {
            let first = row.split(" |").next().unwrap_or_default();
            is_of_keys |= first == "key";
            if is_of_keys {
                keys.extend(quoted(first).map(|key| in_table(current, key)));
            }
        } else {
            is_of_keys = false;
        }
    }
    keys
}

fn assert_same(what: &str, found: &BTreeSet<String>) {
    let schema = schema();
    let missing: Vec<_> = schema.difference(found).collect();
    let unknown: Vec<_> = found.difference(&schema).collect();
    assert!(
        missing.is_empty() && unknown.is_empty(),
        "{what} lacks {missing:?}; no such keys: {unknown:?}"
    );
}

#[test]
fn the_schema_is_known() {
    let keys = schema();
    for key in ["name", "port.interface", "worker.crypto_cpus", "device.kind", "limit.each"] {
        assert!(keys.contains(key), "{key}");
    }
}

#[test]
fn the_example_has_every_key() {
    assert_same("packaging/example.toml", &example());
}

#[test]
fn the_reference_has_every_key() {
    assert_same("docs/reference/configuration.md", &reference());
}

#[test]
fn the_example_is_valid() {
    let config = Config::parse(EXAMPLE, "packaging/example.toml".as_ref());
    assert!(config.is_ok(), "{}", config.err().map(|e| e.to_string()).unwrap_or_default());
}
