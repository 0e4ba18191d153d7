//! The answers of several tables for a node's addresses: intervals, each with the first answer there is.

use std::collections::BTreeMap;

use crate::address::Address;
use crate::trie::{HOLE, MOST_INTERVALS, NOTHING, Place, SHORT_BITS, Short};

/// The prefixes of one table, by their first address and length, with their values: above
/// [`NOTHING`] and below [`UNKNOWN`](crate::trie::UNKNOWN), or [`HOLE`].
pub type Prefixes<A> = BTreeMap<(A, u8), u32>;

/// One table of several that a trie answers for.
pub struct Layer<'p, A> {
    /// Prefixes of the layer's table.
    pub prefixes: &'p Prefixes<A>,
    /// Prefixes of this length or shorter are holes.
    pub suppress: Option<u8>,
    /// Prefixes shorter than this stand beside the nodes.
    pub(crate) shortest: u32,
}

impl<'p, A> Layer<'p, A> {
    /// The prefixes of a table, of which those of `suppress` bits and fewer are holes.
    pub const fn new(prefixes: &'p Prefixes<A>, suppress: Option<u8>) -> Self {
        Self { prefixes, suppress, shortest: 0 }
    }
}

impl<A: Address> Layer<'_, A> {
    /// True if the layer's short prefixes stand beside the nodes.
    pub(crate) const fn is_last(&self) -> bool {
        self.shortest > 0
    }

    fn value(&self, len: u8, value: u32) -> u32 {
        if self.suppress.is_some_and(|most| len <= most) { HOLE } else { value }
    }

    /// The longest prefix that holds all of `first/depth` and is longer than `above`, or `cover`.
    pub(crate) fn cover(&self, first: A, above: u32, depth: u32, cover: u32) -> u32 {
        let lens = (self.shortest.max(above + 1)..=depth).rev().map(|len| len as u8);
        let mut found =
            lens.filter_map(|len| Some((len, *self.prefixes.get(&(first.first(len), len))?)));
        found.next().map_or(cover, |(len, value)| self.value(len, value))
    }

    /// The intervals that the next `bits` bits make of the addresses `base/depth`, by prefixes
    /// that do not reach below them; the values that have longer prefixes are put into `deeper`.
    /// `None` when there are far more than a node takes and `bits` is 16.
    fn flatten(
        &self,
        base: A,
        depth: u32,
        bits: u32,
        cover: u32,
        deeper: &mut Vec<u32>,
    ) -> Option<Intervals> {
        let most = if bits == 16 { 2 * MOST_INTERVALS } else { usize::MAX };
        let end = (base.last(depth as u8), u8::MAX);
        let mut out = Intervals::new(cover);
        let mut open: Vec<(u32, u32)> = Vec::new();
        let mut rest = self.prefixes.range((base, depth as u8 + 1)..=end);
        let mut groups = 0;
        while let Some((&(first, len), &value)) = rest.next() {
            if u32::from(len) < self.shortest {
                continue;
            }
            let key = u32::from(first.pair(depth)) >> (16 - bits);
            let inside = u32::from(len) - depth;
            if inside > bits {
                deeper.push(key);
                groups += 1;
                let group = base.with(depth, bits, key);
                match group.last((depth + bits) as u8).next() {
                    Some(next) if (next, 0) <= end => rest = self.prefixes.range((next, 0)..=end),
                    _ => break,
                }
            } else {
                out.close(&mut open, cover, |last| last < key);
                let value = self.value(len, value);
                out.put(key, value);
                open.push((key + ((1 << (bits - inside)) - 1), value));
            }
            if out.0.len() > most || groups > MOST_INTERVALS {
                return None;
            }
        }
        out.close(&mut open, cover, |last| last < (1 << bits) - 1);
        Some(out)
    }
}

/// Intervals of 8 or 16 bits, by where they begin, ascending from 0; two that touch differ.
#[derive(Clone)]
struct Intervals(Vec<(u32, u32)>);

impl Intervals {
    fn new(value: u32) -> Self {
        Self(vec![(0, value)])
    }

    /// Begins an interval, in the place of one that begins there too.
    fn put(&mut self, start: u32, value: u32) {
        if self.0.last().is_some_and(|(s, _)| *s == start) {
            self.0.pop();
        }
        if self.0.last().is_none_or(|(_, v)| *v != value) {
            self.0.push((start, value));
        }
    }

    /// Ends the innermost open prefixes while `ended` says so; what is around them resumes.
    fn close(&mut self, open: &mut Vec<(u32, u32)>, cover: u32, ended: impl Fn(u32) -> bool) {
        while let Some((last, _)) = open.pop_if(|(last, _)| ended(*last)) {
            self.put(last + 1, open.last().map_or(cover, |(_, value)| *value));
        }
    }

    fn at(&self, key: u32) -> u32 {
        let after = self.0.partition_point(|(start, _)| *start <= key);
        after.checked_sub(1).and_then(|i| self.0.get(i)).map_or(NOTHING, |(_, value)| *value)
    }

    /// These intervals, filled from `below` where they have no answer.
    fn over(&self, below: &Self) -> Self {
        let mut out = Self(Vec::with_capacity(self.0.len() + below.0.len()));
        let (mut upper, mut lower) = (self.0.iter().peekable(), below.0.iter().peekable());
        let (mut a, mut b) = (NOTHING, NOTHING);
        while let Some(start) =
            [upper.peek(), lower.peek()].into_iter().flatten().map(|i| i.0).min()
        {
            if let Some((_, value)) = upper.next_if(|i| i.0 == start) {
                a = *value;
            }
            if let Some((_, value)) = lower.next_if(|i| i.0 == start) {
                b = *value;
            }
            out.put(start, if has_answer(a) { a } else { b });
        }
        out
    }
}

const fn has_answer(value: u32) -> bool {
    value != NOTHING && value != HOLE
}

/// The first answer of the layers, for addresses in which they have one value each.
pub(crate) fn first_answer(values: &[u32]) -> Place {
    let answer = values.iter().copied().find(|v| has_answer(*v));
    // Set if the last layer's short prefixes are to be asked.
    Place::leaf(answer.or(values.last().copied()).unwrap_or(NOTHING))
}

/// The layers' answers for a node's addresses, as one list of intervals each.
pub(crate) struct Flat {
    layers: Vec<Intervals>,
    /// The values of the next bits that have longer prefixes, ascending.
    pub(crate) deeper: Vec<u32>,
}

impl Flat {
    pub(crate) fn values_at(&self, key: u32) -> Vec<u32> {
        self.layers.iter().map(|layer| layer.at(key)).collect()
    }

    pub(crate) fn is_deeper(&self, key: u32) -> bool {
        self.deeper.binary_search(&key).is_ok()
    }
}
/// The layers as nodes have them: without the short prefixes of the last one.
pub(crate) fn without_short<'p, A>(layers: &[Layer<'p, A>]) -> Vec<Layer<'p, A>> {
    let mut bare: Vec<Layer<'p, A>> =
        layers.iter().map(|layer| Layer::new(layer.prefixes, layer.suppress)).collect();
    if let Some(last) = bare.last_mut() {
        last.shortest = SHORT_BITS + 1;
    }
    bare
}

/// The values of the last layer's short prefixes, of each first byte's longest.
pub(crate) fn short_values<A: Address>(layers: &[Layer<'_, A>]) -> Short {
    let mut values = [NOTHING; 1 << SHORT_BITS];
    let Some(layer) = layers.last() else { return values };
    for len in 0..=SHORT_BITS {
        let step = 1 << (SHORT_BITS - len);
        for (number, values) in values.chunks_mut(step).enumerate() {
            let first = A::MIN.with(0, SHORT_BITS, (number * step) as u32);
            if let Some(value) = layer.prefixes.get(&(first, len as u8)) {
                values.fill(layer.value(len as u8, *value));
            }
        }
    }
    values
}

pub(crate) fn root_covers<A: Address>(layers: &[Layer<'_, A>]) -> Vec<u32> {
    let all = |layer: &Layer<'_, A>| {
        let value = layer.prefixes.get(&(A::MIN, 0)).filter(|_| layer.shortest == 0).copied();
        value.map_or(NOTHING, |value| layer.value(0, value))
    };
    layers.iter().map(all).collect()
}

pub(crate) fn flatten<A: Address>(
    layers: &[Layer<'_, A>],
    base: A,
    depth: u32,
    bits: u32,
    covers: &[u32],
) -> Option<Flat> {
    let mut deeper = Vec::new();
    let layers = layers.iter().zip(covers);
    let layers = layers
        .map(|(layer, cover)| layer.flatten(base, depth, bits, *cover, &mut deeper))
        .collect::<Option<_>>()?;
    deeper.sort_unstable();
    deeper.dedup();
    Some(Flat { layers, deeper })
}

/// The intervals of all layers together, with a piece of its own for each value that goes deeper;
/// `None` if they are too many for a node.
pub(crate) fn merge(flat: &Flat) -> Option<Vec<(u32, Place)>> {
    let mut layers = flat.layers.iter().rev();
    let last = layers.next().cloned().unwrap_or_else(|| Intervals::new(NOTHING));
    let all = layers.fold(last, |below, layer| layer.over(&below));
    let mut places = Vec::with_capacity(all.0.len() + 2 * flat.deeper.len());
    let mut deeper = flat.deeper.iter().copied().peekable();
    let mut starts = all.0.iter().copied().peekable();
    while let Some((start, value)) = starts.next() {
        let end = starts.peek().map_or(1 << 16, |(next, _)| *next);
        let mut at = start;
        while let Some(key) = deeper.next_if(|key| *key < end) {
            if at < key {
                places.push((at, Place::leaf(value)));
            }
            places.push((key, Place::leaf(value)));
            at = key + 1;
        }
        if at < end {
            places.push((at, Place::leaf(value)));
        }
    }
    (places.len() <= MOST_INTERVALS).then_some(places)
}
