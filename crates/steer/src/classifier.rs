//! Programs on the private interface: loaded and attached.
//!
//! A program is attached by a link of its own (Linux 6.6 and later), or else by a filter of the qdisc
//! `clsact`; both go with the interface.

use aya::maps::{Array, MapData};
use aya::programs::tc::{self, NlOptions, TcAttachOptions};
use aya::programs::{LinkOrder, ProgramError, SchedClassifier, TcAttachType};
use aya::{Ebpf, EbpfLoader, Pod};

use crate::Aligned;
use crate::again::load_again;
use crate::error::{SteerError, chain, load_hint, short};

/// Loads an object whose only program is `name`, and attaches that to an interface where it receives or
/// sends. Dropping the result detaches it.
pub(crate) fn load_and_attach(
    object: &Aligned<[u8]>,
    name: &str,
    interface: &str,
    at: TcAttachType,
) -> Result<Ebpf, SteerError> {
    let mut object = load(object, name, interface)?;
    attach_to(&mut object, name, interface, at)?;
    Ok(object)
}

/// Loads an object whose only program is `name`; for that interface, as errors tell.
pub(crate) fn load(
    object: &Aligned<[u8]>,
    name: &str,
    interface: &str,
) -> Result<Ebpf, SteerError> {
    let load_error = |reason: String| load_error(interface, &reason);
    let mut object =
        EbpfLoader::new().load(&object.0).map_err(|error| load_error(chain(&error)))?;
    program(&mut object, name)
        .and_then(|classifier| load_again(|| classifier.load()).map_err(|error| chain(&error)))
        .map_err(load_error)?;
    Ok(object)
}

/// Attaches the loaded program to an interface, before those that are there.
pub(crate) fn attach_to(
    object: &mut Ebpf,
    name: &str,
    interface: &str,
    at: TcAttachType,
) -> Result<(), SteerError> {
    let classifier = program(object, name).map_err(|reason| load_error(interface, &reason))?;
    attach(classifier, interface, at).map_err(|error| SteerError::Classifier {
        interface: interface.to_owned(),
        reason: chain(&error),
    })
}

/// A map of an object.
pub(crate) fn take_array<V: Pod>(
    object: &mut Ebpf,
    name: &'static str,
    interface: &str,
) -> Result<Array<MapData, V>, SteerError> {
    let unusable = |reason| table_error(interface, name, reason);
    let map = object.take_map(name).ok_or_else(|| unusable("not there".to_owned()))?;
    Array::try_from(map).map_err(|error| unusable(chain(&error)))
}

/// A table of a program's could not be changed or read.
pub(crate) fn table_error(interface: &str, table: &'static str, reason: String) -> SteerError {
    SteerError::Table { interface: interface.to_owned(), table, reason }
}

fn program<'o>(object: &'o mut Ebpf, name: &str) -> Result<&'o mut SchedClassifier, String> {
    let program = object.program_mut(name);
    let program = program.ok_or_else(|| format!("no program {name} in the object"))?;
    program.try_into().map_err(|error: ProgramError| chain(&error))
}

/// A program could not be loaded.
pub(crate) fn load_error(interface: &str, reason: &str) -> SteerError {
    SteerError::Load {
        interface: interface.to_owned(),
        hint: load_hint(reason),
        reason: short(reason),
    }
}

fn attach(
    classifier: &mut SchedClassifier,
    interface: &str,
    at: TcAttachType,
) -> Result<(), ProgramError> {
    let direct = TcAttachOptions::TcxOrder(LinkOrder::first());
    if classifier.attach_with_options(interface, at, direct).is_ok() {
        return Ok(());
    }
    // If it is there already, fine; if it cannot be, the filter says so.
    let _ = tc::qdisc_add_clsact(interface);
    let filter = TcAttachOptions::Netlink(NlOptions { priority: 1, ..NlOptions::default() });
    classifier.attach_with_options(interface, at, filter).map(drop)
}
