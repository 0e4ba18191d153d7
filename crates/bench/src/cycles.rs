//! The processor's time-stamp counter.

/// The counter now; `None` on processors without one that programs may read.
///
/// It runs at its own constant rate, whatever the core's clock: cycles by it are time.
#[cfg(target_arch = "x86_64")]
#[allow(
    unsafe_code,
    reason = "one instruction without operands, which the language has no name for"
)]
pub fn now() -> Option<u64> {
    // SAFETY: RDTSC reads a register, touches no memory, and every x86-64 processor has it.
    Some(unsafe { core::arch::x86_64::_rdtsc() })
}

/// The counter now; `None` on processors without one that programs may read.
#[cfg(not(target_arch = "x86_64"))]
pub fn now() -> Option<u64> {
    None
}
