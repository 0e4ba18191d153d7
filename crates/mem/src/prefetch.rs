//! Prefetch: asks the processor to bring a cache line near, and waits for nothing.
//!
//! A hint: it changes no memory, never faults, and is nothing where there is no instruction for it.

#[cfg(target_arch = "x86_64")]
use core::arch::x86_64::{_MM_HINT_T0, _MM_HINT_T1, _mm_prefetch};

/// The cache that a line is brought into.
///
/// A core has a score of lines under way to its first-level cache, and some processors forget what is asked for
/// beyond that. To the second level there may be more, and they push out nothing that is in use; but it
/// is nearer to memory than to the core, so what was brought there is best asked for once more just before it is
/// needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cache {
    /// For what is read or written next.
    First,
    /// For much at once, and for what much else is done before.
    Second,
}

/// Prefetches the first cache line of a value, to be read or written soon.
#[inline(always)]
pub fn prefetch<T: ?Sized>(value: &T) {
    prefetch_into(Cache::First, value);
}

/// As [`prefetch`], into the cache that the caller names.
#[inline(always)]
pub fn prefetch_into<T: ?Sized>(cache: Cache, value: &T) {
    hint(cache, core::ptr::from_ref(value).cast());
}

/// As [`prefetch_into`], for every cache line of a value.
#[inline(always)]
pub fn prefetch_all_into<T>(cache: Cache, value: &T) {
    each_line(value, |line| hint(cache, line));
}

/// As [`prefetch_all_into`], for lines that this core is about to write and another one wrote last.
#[inline(always)]
pub fn prefetch_all_to_write<T>(value: &T) {
    each_line(value, prefetch_pointer_to_write);
}

#[inline(always)]
fn each_line<T>(value: &T, ask: impl Fn(*const u8)) {
    let start = core::ptr::from_ref(value).cast::<u8>();
    let mut at = 0;
    while at < size_of::<T>() {
        ask(start.wrapping_add(at));
        at += crate::LINE_LEN;
    }
}

/// Prefetches the cache line of `bytes[offset]`; past the end nothing happens.
#[inline(always)]
pub fn prefetch_at(bytes: &[u8], offset: usize) {
    if let Some(byte) = bytes.get(offset) {
        hint(Cache::First, core::ptr::from_ref(byte));
    }
}

/// Prefetches the cache line that a pointer points into. Any address whatever will do, because
/// nothing is read.
#[inline(always)]
pub fn prefetch_pointer<T>(cache: Cache, pointer: *const T) {
    hint(cache, pointer.cast());
}

/// As [`prefetch_pointer`], for a line that this core is about to write and another one wrote last: it
/// comes with the right to be written. Without that the first store waits once more, until the
/// other core has given up its copy.
#[inline(always)]
pub fn prefetch_pointer_to_write<T>(pointer: *const T) {
    let address: *const u8 = pointer.cast();
    #[cfg(target_arch = "x86_64")]
    // SAFETY: as in hint(); processors without the instruction take it for one that does nothing.
    unsafe {
        core::arch::asm!(
            "prefetchw [{0}]",
            in(reg) address,
            options(nostack, preserves_flags, readonly)
        );
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: as in hint().
    unsafe {
        core::arch::asm!(
            "prfm pstl1keep, [{0}]",
            in(reg) address,
            options(nostack, preserves_flags, readonly)
        );
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = address;
}

#[inline(always)]
fn hint(cache: Cache, address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    match cache {
        // SAFETY: a prefetch of any address whatever is allowed: it has no effect that can be seen.
        Cache::First => unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) },
        // SAFETY: as above.
        Cache::Second => unsafe { _mm_prefetch::<_MM_HINT_T1>(address.cast()) },
    }
    #[cfg(target_arch = "aarch64")]
    match cache {
        Cache::First => {
            // SAFETY: as above.
            unsafe {
                core::arch::asm!(
                    "prfm pldl1keep, [{0}]",
                    in(reg) address,
                    options(nostack, preserves_flags, readonly)
                );
            }
        }
        Cache::Second => {
            // SAFETY: as above.
            unsafe {
                core::arch::asm!(
                    "prfm pldl2keep, [{0}]",
                    in(reg) address,
                    options(nostack, preserves_flags, readonly)
                );
            }
        }
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = (cache, address);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_place_will_do() {
        prefetch("");
        prefetch_all_to_write(&[0_u8; 300]);
        for cache in [Cache::First, Cache::Second] {
            prefetch_into(cache, &7_u8);
            prefetch_into::<[u64]>(cache, &[]);
            prefetch_all_into(cache, &[0_u8; 300]);
            prefetch_all_into(cache, &());
        }
        for address in [0, usize::MAX] {
            let pointer = core::ptr::without_provenance::<u8>(address);
            prefetch_pointer(Cache::First, pointer);
            prefetch_pointer(Cache::Second, pointer);
            prefetch_pointer_to_write(pointer);
        }
        let bytes = vec![1_u8; 100];
        for offset in [0, 63, 64, 99, 100, usize::MAX] {
            prefetch_at(&bytes, offset);
        }
        assert_eq!(bytes, vec![1_u8; 100]);
    }
}
