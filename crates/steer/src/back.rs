//! Loads the program that returns packets to the interface that they came in by, and keeps its
//! table.
//!
//! The program (`bpf/back.bpf.c`) runs at the private interface's tc ingress hook. It is attached by
//! a tcx link (Linux 6.6 and later), or else as a filter of the qdisc `clsact`; both go with the
//! interface.

use core::fmt;

use aya::maps::{Array, MapData};
use aya::programs::tc::{self, NlOptions, TcAttachOptions};
use aya::programs::{LinkOrder, ProgramError, SchedClassifier, TcAttachType};
use aya::{Ebpf, EbpfLoader};

use crate::error::{SteerError, chain, load_hint, short};

/// One past the highest tag.
pub const TAGS: u16 = 64;

/// The program on the private interface. Dropping it detaches it: Linux then drops packets with a
/// tag.
pub struct GiveBack {
    interface: String,
    /// `struct port` of the program: interface and mark.
    ports: Array<MapData, [u32; 2]>,
    /// The mark of returned packets.
    mark: u32,
    // Keeps the program loaded and attached.
    _program: Ebpf,
}

impl GiveBack {
    /// Loads the program and attaches it to the private interface, with an empty table. Packets that
    /// it returns get `mark`.
    ///
    /// # Errors
    ///
    /// [`SteerError`] says what failed and what to do. Nothing stays attached then.
    pub fn load_and_attach(interface: &str, mark: u32) -> Result<Self, SteerError> {
        let load_error = |reason: String| SteerError::Load {
            interface: interface.to_owned(),
            hint: load_hint(&reason),
            reason: short(&reason),
        };
        let mut program = EbpfLoader::new()
            .load(&crate::BACK_OBJECT.0)
            .map_err(|error| load_error(chain(&error)))?;
        let ports = program.take_map(TABLE).ok_or_else(|| load_error(format!("no {TABLE}")))?;
        let ports = Array::try_from(ports).map_err(|error| load_error(chain(&error)))?;
        let classifier: &mut SchedClassifier = program
            .program_mut("give_back")
            .ok_or_else(|| load_error("no program give_back in the object".to_owned()))?
            .try_into()
            .map_err(|error: ProgramError| load_error(chain(&error)))?;
        classifier.load().map_err(|error| load_error(chain(&error)))?;
        attach(classifier, interface).map_err(|error| SteerError::Classifier {
            interface: interface.to_owned(),
            reason: chain(&error),
        })?;
        Ok(Self { interface: interface.to_owned(), ports, mark, _program: program })
    }

    /// Packets with this tag are received by this interface from now on; they are dropped with 0.
    ///
    /// # Errors
    ///
    /// [`SteerError::Table`] for a tag that is 0 or too high, and when the kernel refuses.
    pub fn set(&mut self, tag: u16, ifindex: u32) -> Result<(), SteerError> {
        let refused = |reason| {
            let interface = self.interface.clone();
            SteerError::Table { interface, table: TABLE, reason }
        };
        if tag == 0 || tag >= TAGS {
            return Err(refused(format!("{tag} is no tag")));
        }
        let entry = match ifindex {
            0 => [0, 0],
            _ => [ifindex, self.mark],
        };
        self.ports.set(tag.into(), entry, 0).map_err(|error| refused(chain(&error)))
    }
}

impl fmt::Debug for GiveBack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GiveBack({})", self.interface)
    }
}

fn attach(classifier: &mut SchedClassifier, interface: &str) -> Result<(), ProgramError> {
    let direct = TcAttachOptions::TcxOrder(LinkOrder::first());
    if classifier.attach_with_options(interface, TcAttachType::Ingress, direct).is_ok() {
        return Ok(());
    }
    // It may exist already. Any other error shows when the filter is attached.
    let _ = tc::qdisc_add_clsact(interface);
    let filter = TcAttachOptions::Netlink(NlOptions { priority: 1, ..NlOptions::default() });
    classifier.attach_with_options(interface, TcAttachType::Ingress, filter).map(drop)
}

/// The map's name.
const TABLE: &str = "back_ports";
