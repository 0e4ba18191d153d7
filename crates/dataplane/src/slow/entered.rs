//! How a packet came to the slow path.

use crate::model::{FirstPorts, Meta, Origin};

/// How a packet came to the slow path.
#[derive(Clone, Copy)]
pub(super) enum Entered<'m> {
    /// Classified: it arrived, or was decrypted. Of a fragment, its packet's ports if they are known.
    Arrived(&'m Meta, Option<FirstPorts>),
    /// No port received it now: it was held, or the worker made it.
    Again(Origin, Option<FirstPorts>),
}

impl Entered<'_> {
    pub(super) fn ports(self) -> Option<FirstPorts> {
        match self {
            Entered::Arrived(_, ports) | Entered::Again(_, ports) => ports,
        }
    }
}
