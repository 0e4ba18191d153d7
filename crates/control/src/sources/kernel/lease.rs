//! Outbound numbers: how the fast path gets some from the kernel, and gives the rest back.
//!
//! The kernel's own last number always is at or beyond what the fast path may use (its ceiling), so the
//! kernel can go on at any moment, also when this process is killed, and no number is used twice.
//!
//! The kernel may encrypt between two requests. It counts a packet and takes a number under one lock, so
//! its count of packets tells whether it has: a lease with which it came in between is not used.

use std::io;

use policy::SaId;
use xfrm::{Kernel, KernelNumbers};

/// How many numbers a lease has: at 4 million packets a second they last a second.
pub const NUMBERS: u64 = 1 << 22;

/// With fewer left than this a lease is renewed.
pub const RENEW_BELOW: u64 = NUMBERS / 2;

/// How often a lease is tried for, while the kernel encrypts.
const ATTEMPTS: usize = 8;

/// Result of a lease.
pub enum Lease {
    /// The numbers after the first one's `replay.sent`, up to the second, are the fast path's.
    Taken(KernelNumbers, u64),
    /// The SA is not there.
    Gone,
    /// The kernel encrypts by it.
    InUse,
}

/// Takes numbers for an SA that the kernel has used until now, all of them above `sent`, which the fast path has
/// used: whatever somebody has set the kernel's to.
///
/// # Errors
/// The kernel did not answer or did not take them.
pub fn take(kernel: &mut Kernel, id: &SaId, sent: u64, is_esn: bool) -> io::Result<Lease> {
    for _ in 0..ATTEMPTS {
        let Some(mut before) = kernel.numbers(id)? else { return Ok(Lease::Gone) };
        before.replay.sent = before.replay.sent.max(sent);
        if let Some(ceiling) = set(kernel, id, &before, is_esn)? {
            return Ok(Lease::Taken(before, ceiling));
        }
    }
    Ok(Lease::InUse)
}

/// Takes further numbers for an SA that the kernel has not used since `written`.
///
/// # Errors
/// The kernel did not answer or did not take them.
pub fn renew(
    kernel: &mut Kernel,
    id: &SaId,
    written: &KernelNumbers,
    is_esn: bool,
) -> io::Result<Lease> {
    let Some(before) = kernel.numbers(id)? else { return Ok(Lease::Gone) };
    if is_used(&before, written) {
        return Ok(Lease::InUse);
    }
    Ok(match set(kernel, id, &before, is_esn)? {
        Some(ceiling) => Lease::Taken(before, ceiling),
        None => Lease::InUse,
    })
}

/// True if the kernel has encrypted since it was told these numbers.
pub fn is_used(now: &KernelNumbers, written: &KernelNumbers) -> bool {
    now.replay.sent != written.replay.sent || now.counters.packets != written.counters.packets
}

/// The last number of an SA (RFC 4303 section 3.3.3).
pub fn last_number(is_esn: bool) -> u64 {
    if is_esn { u64::MAX } else { u64::from(u32::MAX) }
}

/// Moves the kernel's number on by a lease; returns where to, `None` if the kernel came in between.
fn set(
    kernel: &mut Kernel,
    id: &SaId,
    before: &KernelNumbers,
    is_esn: bool,
) -> io::Result<Option<u64>> {
    let mut leased = before.clone();
    leased.replay.sent = before.replay.sent.saturating_add(NUMBERS).min(last_number(is_esn));
    if !kernel.set_replay(id, &leased)? {
        return Ok(None);
    }
    let after = kernel.numbers(id)?;
    let is_exact = after.is_some_and(|after| !is_used(&after, &leased));
    Ok(is_exact.then_some(leased.replay.sent))
}

/// Gives the numbers after `last` back, up to those of `leased`, which the kernel was told last with the counts that it
/// has. Whatever it has used meanwhile, or was set to, it goes on past that and past `last`. May be called again after
/// an error.
///
/// # Errors
/// The kernel did not answer or did not take them.
pub fn give_back(
    kernel: &mut Kernel,
    id: &SaId,
    leased: &KernelNumbers,
    last: u64,
    is_esn: bool,
) -> io::Result<()> {
    for attempt in 1..=ATTEMPTS {
        let Some(before) = kernel.numbers(id)? else { return Ok(()) };
        let used = before.counters.packets.saturating_sub(leased.counters.packets);
        let mut exact = before.clone();
        exact.replay.sent = match used {
            0 if before.replay.sent == leased.replay.sent => last,
            0 => before.replay.sent.max(last),
            // They may lie beyond the lease, although it was told `last` since.
            used => before.replay.sent.max(leased.replay.sent.saturating_add(used)),
        };
        if attempt == ATTEMPTS {
            // It encrypts all the time: beyond what it may use in between.
            exact.replay.sent = exact.replay.sent.saturating_add(NUMBERS);
        }
        exact.replay.sent = exact.replay.sent.min(last_number(is_esn));
        if exact.replay.sent == before.replay.sent || !kernel.set_replay(id, &exact)? {
            return Ok(());
        }
        let Some(after) = kernel.numbers(id)? else { return Ok(()) };
        let between = after.counters.packets.saturating_sub(before.counters.packets);
        // Each of these came after it was told. One that came before has a number that is not in this sum.
        if after.replay.sent == exact.replay.sent.saturating_add(between) {
            return Ok(());
        }
    }
    Ok(())
}
