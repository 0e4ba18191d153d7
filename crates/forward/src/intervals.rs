//! Longest-prefix match by binary search over disjoint intervals.
//!
//! Nested prefixes are flattened once, when the table is built, into intervals of addresses that
//! share their longest match: `n` prefixes make at most `2n + 1` intervals. A look-up finds the
//! last interval that begins at or below the address. Only the beginnings are searched, in one
//! dense array; an index by the address's top bits cuts the search short in big tables.

/// An address as an unsigned number.
pub trait Address: Copy + Ord {
    /// Bits in an address.
    const BITS: u32;
    /// The lowest address.
    const MIN: Self;

    /// The first and the last address of the prefix; a length above [`Address::BITS`] is that.
    fn range(self, prefix_len: u8) -> (Self, Self);
    /// The next address, or `None` after the last.
    fn next(self) -> Option<Self>;
    /// The top `bits` bits; `bits` is 0 to 16.
    fn top(self, bits: u32) -> usize;
}

macro_rules! address {
    ($type:ty) => {
        impl Address for $type {
            const BITS: u32 = <$type>::BITS;
            const MIN: Self = 0;

            fn range(self, prefix_len: u8) -> (Self, Self) {
                let host = <$type>::MAX.checked_shr(prefix_len.into()).unwrap_or(0);
                (self & !host, self | host)
            }

            fn next(self) -> Option<Self> {
                self.checked_add(1)
            }

            fn top(self, bits: u32) -> usize {
                self.checked_shr(<$type>::BITS - bits).unwrap_or(0) as usize
            }
        }
    };
}

address!(u32);
address!(u128);

/// No prefix holds the interval's addresses.
const NOTHING: u32 = u32::MAX;
/// Tables with fewer intervals than this have no index: a handful of steps find the interval.
const INDEX_FROM: usize = 64;
/// Bits of the largest index: 65537 entries of 4 bytes.
const INDEX_MAX_BITS: u32 = 16;

/// The table. Values are small numbers that mean something to the caller.
#[derive(Clone, Debug)]
pub struct Intervals<A> {
    /// Where each interval begins, ascending; the first is the lowest address.
    starts: Box<[A]>,
    /// The value of each interval.
    values: Box<[u32]>,
    /// Bits of the address that the index goes by; 0 for no index.
    index_bits: u32,
    /// For each value of the top bits, how many intervals begin below it; one more at the end.
    index: Box<[u32]>,
}

impl<A: Address> Intervals<A> {
    /// Builds the table from prefixes and their values. Of several values for one prefix, the
    /// first given counts. Values are below `u32::MAX`.
    pub fn new(prefixes: impl IntoIterator<Item = (A, u8, u32)>) -> Self {
        let mut sorted: Vec<(A, u8, A, u32)> = prefixes
            .into_iter()
            .map(|(address, len, value)| {
                let len = len.min(A::BITS as u8);
                let (first, last) = address.range(len);
                (first, len, last, value)
            })
            .collect();
        // Outer prefixes before the inner ones that begin with them; the sort is stable.
        sorted.sort_by_key(|(first, len, _, _)| (*first, *len));
        sorted.dedup_by_key(|(first, len, _, _)| (*first, *len));

        let mut out: Vec<(A, u32)> = vec![(A::MIN, NOTHING)];
        let mut open: Vec<(A, u32)> = Vec::new();
        for (first, _, last, value) in sorted {
            close(&mut open, &mut out, |end| end < first);
            put(&mut out, first, value);
            open.push((last, value));
        }
        close(&mut open, &mut out, |_| true);

        let (starts, values): (Vec<A>, Vec<u32>) = out.into_iter().unzip();
        let index_bits = match starts.len() {
            0..INDEX_FROM => 0,
            len => len.ilog2().min(INDEX_MAX_BITS),
        };
        let mut index = Vec::new();
        if index_bits > 0 {
            for top in 0..=1usize << index_bits {
                index.push(starts.partition_point(|s| s.top(index_bits) < top) as u32);
            }
        }
        Self { starts: starts.into(), values: values.into(), index_bits, index: index.into() }
    }

    /// The value of the longest prefix that holds the address.
    pub fn find(&self, address: A) -> Option<u32> {
        let (mut from, mut to) = (0, self.starts.len());
        if self.index_bits > 0 {
            let top = address.top(self.index_bits);
            from = *self.index.get(top)? as usize;
            to = *self.index.get(top + 1)? as usize;
        }
        // Every interval before `from` begins at or below the address, so an empty range leaves
        // the last one before it.
        let upto = from + self.starts.get(from..to)?.partition_point(|s| *s <= address);
        self.values.get(upto.checked_sub(1)?).copied().filter(|v| *v != NOTHING)
    }
}

/// Ends the innermost open prefixes while `ended` says so; what is around them resumes.
fn close<A: Address>(open: &mut Vec<(A, u32)>, out: &mut Vec<(A, u32)>, ended: impl Fn(A) -> bool) {
    while let Some((last, _)) = open.last().copied() {
        if !ended(last) {
            return;
        }
        open.pop();
        if let Some(after) = last.next() {
            put(out, after, open.last().map_or(NOTHING, |(_, v)| *v));
        }
    }
}

/// Begins an interval; one that begins at the same address is replaced, one with the same value
/// goes on.
fn put<A: Address>(out: &mut Vec<(A, u32)>, start: A, value: u32) {
    if out.last().is_some_and(|(s, _)| *s == start) {
        out.pop();
    }
    if out.last().is_none_or(|(_, v)| *v != value) {
        out.push((start, value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The definition: of all prefixes that hold the address, the longest; the first of equals.
    fn slow<A: Address>(prefixes: &[(A, u8, u32)], address: A) -> Option<u32> {
        let mut best: Option<(u8, u32)> = None;
        for (prefix, len, value) in prefixes {
            let (first, last) = prefix.range(*len);
            let len = (*len).min(A::BITS as u8);
            if first <= address && address <= last && best.is_none_or(|(l, _)| len > l) {
                best = Some((len, *value));
            }
        }
        best.map(|(_, value)| value)
    }

    #[test]
    fn empty_and_whole() {
        let none = Intervals::<u32>::new([]);
        assert_eq!(none.find(0), None);
        assert_eq!(none.find(u32::MAX), None);
        let all = Intervals::<u32>::new([(0, 0, 7)]);
        assert_eq!((all.find(0), all.find(u32::MAX)), (Some(7), Some(7)));
        let last = Intervals::<u32>::new([(u32::MAX, 32, 9)]);
        assert_eq!((last.find(u32::MAX - 1), last.find(u32::MAX)), (None, Some(9)));
    }

    #[test]
    fn nested_prefixes_that_end_together() {
        let t = Intervals::<u32>::new([(0, 0, 1), (0xff00_0000, 8, 2), (0xffff_ff00, 24, 3)]);
        assert_eq!(t.find(0xfeff_ffff), Some(1));
        assert_eq!(t.find(0xff00_0000), Some(2));
        assert_eq!(t.find(0xffff_ffff), Some(3));
    }

    #[test]
    fn big_tables_use_the_index() {
        let prefixes: Vec<_> = (0..1000u32).map(|i| (i << 20 | 0x1000, 24, i)).collect();
        let t = Intervals::new(prefixes.iter().copied());
        assert!(t.index_bits > 0);
        for (address, _, value) in &prefixes {
            assert_eq!(t.find(*address), Some(*value));
            assert_eq!(t.find(*address + 255), Some(*value));
            assert_eq!(t.find(*address + 256), None);
            assert_eq!(t.find(*address - 1), None);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]

        #[test]
        fn equals_the_definition_v4(
            prefixes in prop::collection::vec((any::<u32>(), 0u8..40, 0u32..50), 0..150),
            addresses in prop::collection::vec(any::<u32>(), 20),
            narrow: bool,
        ) {
            // Narrow: everything in few bits, so that prefixes nest and touch.
            let squeeze = |a: u32| if narrow { (a & 0x7) << 29 | a & 0x3 } else { a };
            let prefixes: Vec<_> = prefixes.iter().map(|(a, l, v)| (squeeze(*a), *l, *v)).collect();
            let table = Intervals::new(prefixes.iter().copied());
            let edges = prefixes.iter().flat_map(|(a, l, _)| {
                let (first, last) = a.range(*l);
                [first, last, first.wrapping_sub(1), last.wrapping_add(1)]
            });
            for address in addresses.iter().map(|a| squeeze(*a)).chain(edges) {
                prop_assert_eq!(table.find(address), slow(&prefixes, address), "{:#x}", address);
            }
        }

        #[test]
        fn equals_the_definition_v6(
            prefixes in prop::collection::vec((any::<u128>(), 0u8..130, 0u32..50), 0..100),
            addresses in prop::collection::vec(any::<u128>(), 10),
        ) {
            let table = Intervals::new(prefixes.iter().copied());
            let edges = prefixes.iter().flat_map(|(a, l, _)| {
                let (first, last) = a.range(*l);
                [first, last, first.wrapping_sub(1), last.wrapping_add(1)]
            });
            for address in addresses.iter().copied().chain(edges) {
                prop_assert_eq!(table.find(address), slow(&prefixes, address), "{:#x}", address);
            }
        }
    }
}
