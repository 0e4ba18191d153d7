//! A packet in the slow path, and how it came there.

use std::borrow::Cow;

use esp::Sa;
use io::Packet;
use policy::Reader;
use wire::Headers;

use crate::burst::classify::meta_of;
use crate::features::limit::Grant;
use crate::model::{Again, Arrived, FirstPorts, Handed, Meta, Origin};

/// How a packet came to the slow path.
#[derive(Clone, Copy)]
pub(super) enum Entered<'m> {
    /// Classified: it arrived, or was decrypted. Of a fragment, its packet's ports if they are known.
    Arrived(&'m Meta, Option<FirstPorts>),
    /// No port received it now: it was held, or the worker made it.
    Again(Origin, Option<FirstPorts>),
}

/// A packet that was resolved.
pub(super) struct Resolved<'m> {
    pub(super) packet: Packet,
    /// Headers that it was resolved by: those of a fragment may have its packet's ports.
    pub(super) h: &'m Headers,
    pub(super) entered: Entered<'m>,
    /// Tokens of a limit, if it has waited for some. Policies have counted it then.
    pub(super) grant: Option<Grant>,
}

impl<'m> Resolved<'m> {
    /// Its metadata, as actions look at them. `is_marked`: its headers may have another DSCP than when it came.
    pub(super) fn meta(&self, is_marked: bool) -> Cow<'m, Meta> {
        match self.entered {
            Entered::Arrived(meta, _) if is_marked => Cow::Owned(meta.with_headers(self.h)),
            Entered::Arrived(meta, _) => Cow::Borrowed(meta),
            Entered::Again(..) => Cow::Owned(meta_of(self.h)),
        }
    }
}

/// A packet as another worker, or a later burst, takes it over.
pub(super) fn handed(reader: &Reader<Sa>, packet: Packet, entered: Entered<'_>) -> Handed {
    match entered {
        Entered::Arrived(meta, ports) => {
            Handed::Arrived(Arrived { ports, ..Arrived::new(reader, packet, meta) })
        }
        Entered::Again(origin, ports) => {
            Handed::Again(Again { packet, origin, ports, is_of_other: false })
        }
    }
}
