//! Tables of findings for the tests of the checks.

use super::facts::{Facts, healthy};
use super::finding::{Finding, Outcome};

/// How to spoil a healthy machine, the check that must say so, how, and with which words.
pub type Row = (fn(&mut Facts), &'static str, Outcome, &'static [&'static str]);

/// Spoils a healthy machine as each row says, and has `check` judge it.
///
/// # Panics
/// When no finding of the row's check has the outcome and all of the words, or when another check
/// is not content.
pub fn assert_rows(check: fn(&Facts) -> Vec<Finding>, rows: &[Row]) {
    for (i, (spoil, name, result, words)) in rows.iter().enumerate() {
        let mut facts = healthy();
        spoil(&mut facts);
        let findings = check(&facts);
        let fits = |f: &Finding| {
            let text = format!("{f:?}");
            f.check == *name && f.result == *result && words.iter().all(|w| text.contains(w))
        };
        assert!(findings.iter().any(fits), "row {i}: {words:?} not in {findings:#?}");
        let others = findings.iter().filter(|f| f.check != *name);
        let others: Vec<_> = others.filter(|f| f.result != Outcome::Ok).collect();
        assert!(others.is_empty(), "row {i}: {others:#?}");
    }
}
