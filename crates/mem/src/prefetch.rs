//! Prefetch: asks the processor to bring a cache line near, and waits for nothing.
//!
//! A hint: it changes no memory, never faults, and is nothing where there is no instruction for it.

/// Prefetches the first cache line of a value, to be read or written soon.
#[inline(always)]
pub fn prefetch<T: ?Sized>(value: &T) {
    hint(core::ptr::from_ref(value).cast());
}

/// Prefetches every cache line of a value.
#[inline(always)]
pub fn prefetch_all<T>(value: &T) {
    each_line(value, hint);
}

/// As [`prefetch_all`], for lines that this core is about to write and another one wrote last.
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
        hint(core::ptr::from_ref(byte));
    }
}

/// Prefetches the cache line that a pointer points into. Any address whatever will do, because
/// nothing is read.
#[inline(always)]
pub fn prefetch_pointer<T>(pointer: *const T) {
    hint(pointer.cast());
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

/// As [`prefetch_pointer`], into the second-level cache only: for what much else will be done before, which would
/// push it out of the first.
#[inline(always)]
pub fn prefetch_pointer_for_later<T>(pointer: *const T) {
    let address: *const u8 = pointer.cast();
    #[cfg(target_arch = "x86_64")]
    // SAFETY: as in hint().
    unsafe {
        core::arch::x86_64::_mm_prefetch(address.cast(), core::arch::x86_64::_MM_HINT_T1);
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: as in hint().
    unsafe {
        core::arch::asm!(
            "prfm pldl2keep, [{0}]",
            in(reg) address,
            options(nostack, preserves_flags, readonly)
        );
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = address;
}

#[inline(always)]
fn hint(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch of any address whatever is allowed: it has no effect that can be seen.
    unsafe {
        core::arch::x86_64::_mm_prefetch(address.cast(), core::arch::x86_64::_MM_HINT_T0);
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: as above.
    unsafe {
        core::arch::asm!(
            "prfm pldl1keep, [{0}]",
            in(reg) address,
            options(nostack, preserves_flags, readonly)
        );
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = address;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_place_will_do() {
        prefetch(&7_u8);
        prefetch::<[u64]>(&[]);
        prefetch_all(&[0_u8; 300]);
        prefetch_all(&());
        prefetch_all_to_write(&[0_u8; 300]);
        prefetch("");
        prefetch_pointer_to_write(core::ptr::null::<u64>());
        prefetch_pointer_to_write(core::ptr::without_provenance::<u8>(usize::MAX));
        prefetch_pointer(core::ptr::null::<u64>());
        prefetch_pointer(core::ptr::without_provenance::<u8>(usize::MAX));
        prefetch_pointer_for_later(core::ptr::null::<u64>());
        prefetch_pointer_for_later(core::ptr::without_provenance::<u8>(usize::MAX));
        let bytes = vec![1_u8; 100];
        for offset in [0, 63, 64, 99, 100, usize::MAX] {
            prefetch_at(&bytes, offset);
        }
        assert_eq!(bytes, vec![1_u8; 100]);
    }
}
