//! The offload device of a request (`xfrm_dev_state_add`).

use super::direction::direction_of;
use super::fields::if_id_of;
use crate::codec::{Attributes, Offload, attr, constant as c};
use crate::failure::Failure;

/// The device that a new SA's owner wants for its crypto, or for all of it. Whether there is such a device is the data path's
/// matter, and whether it takes the SA: software does the crypto else, as on Linux, and the SA is refused where the device was to
/// do all. What Linux asks before it looks for the device is asked here.
pub(super) fn wanted(a: &Attributes<'_>) -> Result<Option<Offload>, Failure> {
    let Some(offload) = a.value::<Offload>(attr::OFFLOAD_DEV) else { return Ok(None) };
    let flags = offload.flags;
    if flags & !(c::OFFLOAD_IPV6 | c::OFFLOAD_INBOUND | c::OFFLOAD_PACKET) != 0 {
        return Err(Failure::OffloadFlags);
    }
    let expected = match flags & c::OFFLOAD_INBOUND {
        0 => c::SA_DIR_OUT,
        _ => c::SA_DIR_IN,
    };
    if direction_of(a).is_some_and(|direction| direction != expected) {
        return Err(Failure::OffloadDirection);
    }
    if a.value::<u32>(attr::TFCPAD).is_some_and(|len| len != 0) {
        return Err(Failure::OffloadTfc);
    }
    if flags & c::OFFLOAD_INBOUND != 0 && if_id_of(a) != 0 {
        return Err(Failure::OffloadIfId);
    }
    let flags = flags & (c::OFFLOAD_INBOUND | c::OFFLOAD_PACKET);
    Ok(Some(Offload { flags, ..offload }))
}

/// The device that a new policy's owner wants for it (`xfrm_dev_policy_add`): for packet offload, as there is no other of
/// policies.
pub(super) fn wanted_for_policy(a: &Attributes<'_>) -> Result<Option<Offload>, Failure> {
    let Some(offload) = a.value::<Offload>(attr::OFFLOAD_DEV) else { return Ok(None) };
    match offload.flags {
        c::OFFLOAD_PACKET => Ok(Some(offload)),
        _ => Err(Failure::OffloadFlags),
    }
}
