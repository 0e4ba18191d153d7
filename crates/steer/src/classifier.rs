//! Programs on the private interface: loaded and attached.
//!
//! A program is attached by a link of its own (Linux 6.6 and later), or else by a filter of the qdisc
//! `clsact`; both go with the interface.

use aya::programs::tc::{self, NlOptions, TcAttachOptions};
use aya::programs::{LinkOrder, ProgramError, SchedClassifier, TcAttachType};
use aya::{Ebpf, EbpfLoader};

use crate::Aligned;
use crate::error::{SteerError, chain, load_hint, short};

/// Loads an object whose only program is `name`, and attaches that to an interface where it receives or
/// sends. Dropping the result detaches it.
pub(crate) fn load_and_attach(
    object: &Aligned<[u8]>,
    name: &str,
    interface: &str,
    at: TcAttachType,
) -> Result<Ebpf, SteerError> {
    let load_error = |reason: String| SteerError::Load {
        interface: interface.to_owned(),
        hint: load_hint(&reason),
        reason: short(&reason),
    };
    let mut object =
        EbpfLoader::new().load(&object.0).map_err(|error| load_error(chain(&error)))?;
    let classifier: &mut SchedClassifier = object
        .program_mut(name)
        .ok_or_else(|| load_error(format!("no program {name} in the object")))?
        .try_into()
        .map_err(|error: ProgramError| load_error(chain(&error)))?;
    classifier.load().map_err(|error| load_error(chain(&error)))?;
    attach(classifier, interface, at).map_err(|error| SteerError::Classifier {
        interface: interface.to_owned(),
        reason: chain(&error),
    })?;
    Ok(object)
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
