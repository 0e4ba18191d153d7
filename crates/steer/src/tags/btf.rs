//! The number of a function among the kernel's types (BTF), by which programs call it.
//!
//! ```text
//!   header   magic 16, version 8, flags 8, its length 32, and of each section offset and length, 32 each
//!   types    name 32, kind and count 32, size or type 32, then what the kind says; numbered from 1 on
//!   strings  names, each ended by a zero
//! ```
//!
//! In the machine's byte order. aya's parser makes objects of all 100 000 types, which takes longer than all else that
//! a port's start does.

/// The number of the function of this name. `None` if it is not there, or if a type is of an unknown kind.
pub(super) fn function(btf: &[u8], name: &str) -> Option<u32> {
    if u16::from_ne_bytes(btf.first_chunk().copied()?) != MAGIC {
        return None;
    }
    let section = |offset: usize| {
        let start = (word(btf, HEADER_LEN_AT)? as usize).checked_add(word(btf, offset)? as usize)?;
        btf.get(start..)?.get(..word(btf, offset + 4)? as usize)
    };
    let (mut types, strings) = (section(TYPES_AT)?, section(STRINGS_AT)?);
    let is_named = |at: u32| {
        let rest = strings.get(at as usize..).and_then(|text| text.strip_prefix(name.as_bytes()));
        rest.is_some_and(|rest| rest.first() == Some(&0))
    };
    let mut number = 1;
    while !types.is_empty() {
        let info = word(types, 4)?;
        let (kind, count) = (info >> 24 & 0x1f, (info & 0xffff) as usize);
        if kind == FUNC && is_named(word(types, 0)?) {
            return Some(number);
        }
        types = types.get(TYPE_LEN + rest_len(kind, count)?..)?;
        number += 1;
    }
    None
}

/// Bytes behind a type of this kind.
fn rest_len(kind: u32, count: usize) -> Option<usize> {
    match kind {
        // A pointer, a forward declaration, a typedef, a qualifier, a function, a float, a type's tag.
        2 | 7..=12 | 16 | 18 => Some(0),
        // An integer, a variable, a declaration's tag.
        1 | 14 | 17 => Some(4),
        // An array.
        3 => Some(12),
        // A structure, a union, a section, an enumeration of 64 bits.
        4 | 5 | 15 | 19 => Some(12 * count),
        // An enumeration, a prototype.
        6 | 13 => Some(8 * count),
        _ => None,
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..)?.first_chunk().copied()?))
}

const MAGIC: u16 = 0xeb9f;
const HEADER_LEN_AT: usize = 4;
const TYPES_AT: usize = 8;
const STRINGS_AT: usize = 16;
const TYPE_LEN: usize = 12;
const FUNC: u32 = 12;

#[cfg(test)]
mod tests {
    use super::*;

    /// Types of each kind with what follows them, then a function `one`.
    fn types(kinds: &[(u32, usize)]) -> Vec<u8> {
        let strings = b"\0oneself\0one\0";
        let mut types: Vec<u32> = Vec::new();
        for &(kind, count) in kinds {
            types.extend([1, kind << 24 | count as u32, 0]);
            types.resize(types.len() + rest_len(kind, count).expect("known") / 4, 0xffff_ffff);
        }
        types.extend([1, FUNC << 24, 0]);
        types.extend([9, 4 << 24, 0]);
        types.extend([9, FUNC << 24, 0]);
        let types_len = types.len() as u32 * 4;
        let mut btf = MAGIC.to_ne_bytes().to_vec();
        btf.extend([1, 0]);
        for value in [24, 0, types_len, types_len, strings.len() as u32] {
            btf.extend(u32::to_ne_bytes(value));
        }
        btf.extend(types.into_iter().flat_map(u32::to_ne_bytes));
        btf.extend(strings);
        btf
    }

    #[test]
    fn a_function_is_found_by_its_whole_name() {
        let kinds: Vec<(u32, usize)> = (1..=19).map(|kind| (kind, 3)).collect();
        let btf = types(&kinds);
        assert_eq!(function(&btf, "oneself"), Some(12), "the function among the kinds");
        assert_eq!(function(&btf, "one"), Some(22), "no other name's beginning, no structure");
        assert_eq!(function(&btf, "two"), None);
        for len in 0..btf.len() {
            assert_eq!(function(&btf[..len], "one"), None, "cut to {len}");
        }
        assert_eq!(function(&types(&[(4, 65535)]), "oneself"), Some(2));
    }

    #[test]
    fn an_unknown_kind_ends_the_search() {
        let mut btf = types(&[(2, 0)]);
        btf[24 + 4..24 + 8].copy_from_slice(&(20u32 << 24).to_ne_bytes());
        assert_eq!(function(&btf, "one"), None);
        btf[0] = 0;
        assert_eq!(function(&btf, "one"), None);
    }
}
