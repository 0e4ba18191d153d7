//! Code paths of the library: one function for each generation of processors.

use core::ffi::c_int;

use ipsec_mb_sys as sys;

/// A code path of the library. The default is the best that the processor has; the others are for tests, so that a
/// fault of one generation's code is found on another generation's processor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CodePath {
    /// One of `ARCH_*`, or 0 for the best.
    pub(crate) arch: c_int,
    /// `FLAG_*` bits: instructions that are left out.
    pub(crate) flags: u64,
}

impl CodePath {
    /// Every path that the library can be told to take. A processor may lack instructions of some.
    pub fn all() -> impl Iterator<Item = CodePath> {
        const ARCHS: [c_int; 4] = [sys::ARCH_SSE, sys::ARCH_AVX, sys::ARCH_AVX2, sys::ARCH_AVX512];
        const FLAGS: [u64; 4] =
            [0, sys::FLAG_SHANI_OFF, sys::FLAG_GFNI_OFF, sys::FLAG_SHANI_OFF | sys::FLAG_GFNI_OFF];
        ARCHS.into_iter().flat_map(|arch| FLAGS.map(|flags| CodePath { arch, flags }))
    }
}
