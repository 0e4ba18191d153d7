//! Families of what was told row by row.

use std::collections::BTreeMap;
use std::fmt;

use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, NoLabelSet};
use prometheus_client::metrics::MetricType;

/// A counter of each row: name, text, and value.
pub type Count<R> = (&'static str, &'static str, fn(&R) -> u64);

/// Writes a family for each counter, with a series for each row.
///
/// # Errors
/// The text cannot be written.
pub fn counts<R, L: EncodeLabelSet>(
    encoder: &mut DescriptorEncoder<'_>,
    counts: &[Count<R>],
    rows: &[R],
    labels: fn(&R) -> L,
) -> fmt::Result {
    for (name, text, count) in counts {
        let mut family = encoder.encode_descriptor(name, text, None, MetricType::Counter)?;
        for row in rows {
            family
                .encode_family(&labels(row))?
                .encode_counter::<NoLabelSet, u64, u64>(&count(row), None)?;
        }
    }
    Ok(())
}

/// Writes one family with a series for each kind.
///
/// # Errors
/// The text cannot be written.
pub fn kinds(
    encoder: &mut DescriptorEncoder<'_>,
    (name, text): (&str, &str),
    kinds: &BTreeMap<String, u64>,
) -> fmt::Result {
    let mut family = encoder.encode_descriptor(name, text, None, MetricType::Counter)?;
    for (kind, count) in kinds {
        family
            .encode_family(&[("kind", kind.clone())])?
            .encode_counter::<NoLabelSet, u64, u64>(count, None)?;
    }
    Ok(())
}
