//! Rate limits as series of metrics.

use crate::report::{Limit, LimitColour};

/// A count of each limit, by colour.
pub fn series(
    limits: &[Limit],
    count: fn(&LimitColour) -> u64,
) -> impl Iterator<Item = (Vec<(&'static str, String)>, u64)> {
    limits.iter().flat_map(move |limit| {
        let colours = [("green", &limit.green), ("yellow", &limit.yellow), ("red", &limit.red)];
        colours.map(|(colour, counted)| {
            let labels = vec![("limit", limit.name.clone()), ("colour", colour.to_owned())];
            (labels, count(counted))
        })
    })
}
