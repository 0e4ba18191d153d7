//! Between the words of `offload` and those of the gateway.

use crypto::Suite;
use offload::{Attribute, Capabilities, Failure, Invalid, Live, NewSa, Placement, PutError};
use outcome::DropReason;

use crate::entries::{SaUse, TableError};
use crate::registers::{Drop, POLICY_BITS, REPLAY_WINDOW, SA_BITS};
use crate::sa::{Sa, SaError};

/// Capabilities of the gateway.
pub(crate) fn capabilities() -> Capabilities {
    let suites = Suite::all().filter(|suite| Sa::has(*suite)).collect();
    Capabilities {
        placement: Placement::Packet,
        suites,
        has_tunnel: true,
        has_transport: true,
        has_ah: false,
        has_mixed_families: false,
        has_esn: true,
        has_udp_encap: false,
        has_tfc: false,
        has_flags: false,
        has_scopes: false,
        has_sa_selectors: false,
        replay_windows: 1..=REPLAY_WINDOW,
        most_volume: (1 << 48) - 1,
        most_reqid: (1 << SA_BITS) - 1,
        most_priority: u32::MAX,
        most_sas: 1 << SA_BITS,
        most_addresses: usize::MAX,
        most_policies: 1 << POLICY_BITS,
        is_ordered: false,
        most_packet_len: 65_535,
        has_options: true,
        has_fragments: false,
    }
}

/// The gateway's form of an SA's numbers.
pub(crate) fn used(live: &Live) -> SaUse {
    // Nothing was received before the first number.
    let word = |place: usize| live.received.get(place).copied().unwrap_or(u64::MAX);
    let window = match live.number {
        0 => 1,
        _ => u128::from(word(1)) << 64 | u128::from(word(0)) | 1,
    };
    SaUse { number: live.number, window, bytes: live.bytes, packets: live.packets }
}

pub(crate) fn live(used: &SaUse) -> Live {
    Live {
        number: used.number,
        received: vec![used.window as u64, (used.window >> 64) as u64],
        bytes: used.bytes,
        packets: used.packets,
    }
}

/// Error for parameters that [`Capabilities::check_sa`] lets through, and the gateway does not.
pub(crate) fn sa_error(error: SaError, new: &NewSa<'_>) -> PutError {
    let suite = new.config.params.suite;
    match error {
        SaError::KeyLen { .. } | SaError::Auth if !new.keys.fit(suite) => Invalid::Keys.into(),
        SaError::KeyLen { len, .. } => PutError::Unsupported(Attribute::AuthKey(len)),
        SaError::Suite(_) | SaError::Auth => PutError::Unsupported(Attribute::Suite(suite)),
        SaError::Feature(_) => PutError::Unsupported(Attribute::Flags),
        SaError::Window(len) => PutError::Unsupported(Attribute::ReplayWindow(len)),
        SaError::Family(..) => PutError::Unsupported(Attribute::Families),
        SaError::Reqid(reqid) => PutError::Unsupported(Attribute::Reqid(reqid.into())),
        SaError::Limit(limit) => PutError::Unsupported(Attribute::Limit(limit)),
        SaError::HashKey => Failure::Broken("the hash key could not be computed").into(),
    }
}

pub(crate) fn table_error(error: TableError) -> PutError {
    match error {
        TableError::Full { what, most } => PutError::Full { what, most },
        TableError::SpiTaken(_) | TableError::SelectorTaken(_) => Invalid::Exists.into(),
        TableError::Selector => Invalid::Selector.into(),
        TableError::Missing { .. } | TableError::InUse(_) | TableError::Action(..) => {
            Invalid::PolicySa.into()
        }
        // The SA was checked before.
        TableError::Sa(_) => Failure::Broken("an SA that was checked is refused").into(),
        TableError::NotAGateway(_) | TableError::Version { .. } | TableError::Sizes { .. } => {
            Failure::Gone.into()
        }
        TableError::Stuck => Failure::Unresponsive.into(),
        TableError::Random => Failure::Broken("the kernel gives no random bytes for IVs").into(),
    }
}

/// The software path's word for a drop.
pub(crate) fn drop_reason(reason: Drop, inbound: bool) -> DropReason {
    let by = |out, back| if inbound { back } else { out };
    match reason {
        Drop::Header => DropReason::MalformedIp,
        Drop::TooLong => by(DropReason::OutTooBig, DropReason::MalformedIp),
        Drop::NoPolicy | Drop::Policy => by(DropReason::OutPolicyBlock, DropReason::InPolicyBlock),
        Drop::Mismatch => DropReason::InPolicy,
        Drop::NoSa => by(DropReason::OutNoState, DropReason::InNoState),
        Drop::HardLimit => by(DropReason::OutStateExpired, DropReason::InStateExpired),
        Drop::Numbers => DropReason::OutSequenceExhausted,
        Drop::ReplayLate => DropReason::InReplayOld,
        Drop::Replay => DropReason::InReplayDuplicate,
        Drop::Integrity => DropReason::InIntegrity,
        Drop::Padding => DropReason::InPadding,
        Drop::Inner => DropReason::InInnerHeader,
        Drop::Fragment => by(DropReason::OutMode, DropReason::FragmentTooLong),
        Drop::Short => DropReason::MalformedEsp,
        Drop::Unsupported => by(DropReason::OutUnsupported, DropReason::InCrypto),
    }
}
