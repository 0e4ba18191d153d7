//! How a packet came to be resolved.

use arrayvec::ArrayVec;
use esp::Sa;
use policy::{MAX_BUNDLE, SaEntry};

use crate::model::{Meta, Origin, Outers, is_function};
use crate::view::View;

/// How a packet came to be resolved.
#[derive(Clone)]
pub(crate) enum Entry<'s> {
    /// Received by an Ethernet port.
    Port {
        /// The port's interface.
        ifindex: u32,
        /// The mark that a rule gives it, or 0.
        mark: u32,
        /// True if the frame was sent to more than one station.
        is_to_many: bool,
    },
    /// Decrypted by these SAs.
    Decrypted {
        /// The interface that the ESP packet came in by.
        ifindex: u32,
        /// The mark that a rule gives it, or 0.
        mark: u32,
        /// The SAs that it came through, the outermost first; none if one has been removed since.
        via: ArrayVec<&'s SaEntry<Sa>, MAX_BUNDLE>,
    },
    /// Comes out of a step of SRv6.
    Stepped {
        /// Where the function stands, see [`crate::tables::segments`].
        index: u32,
        /// The mark that a rule gives it, or 0.
        mark: u32,
        /// True if it came under protection.
        is_protected: bool,
        /// By these SAs; none if one has been removed since.
        via: ArrayVec<&'s SaEntry<Sa>, MAX_BUNDLE>,
    },
    /// On its way out: from Linux, made by the worker, or held before.
    Outbound(Origin),
}

impl<'s> Entry<'s> {
    /// How a classified packet came.
    pub(crate) fn of(view: &'s View, meta: &Meta, held: Option<&'s SaEntry<Sa>>) -> Entry<'s> {
        let ifindex = meta.ingress.ifindex;
        let is_stepped = is_function(ifindex);
        match meta.ingress.via() {
            None if is_stepped => {
                let (mark, via) = (meta.ingress.mark, ArrayVec::new());
                Entry::Stepped { index: ifindex, mark, is_protected: false, via }
            }
            Some(via) => {
                let reader = &view.reader;
                let outers = meta.outers().into_iter().flat_map(Outers::iter);
                let sas = outers.map(|sa| reader.sa(sa));
                let sas = sas.chain([held.or_else(|| reader.sa(via))]);
                let mut all = ArrayVec::new();
                // As many as a bundle has.
                let is_whole = sas.map(|sa| all.try_push(sa?).ok()).all(|sa| sa.is_some());
                if !is_whole {
                    all.clear();
                }
                let mark = meta.ingress.mark;
                match is_stepped {
                    true => Entry::Stepped { index: ifindex, mark, is_protected: true, via: all },
                    false => Entry::Decrypted { ifindex, mark, via: all },
                }
            }
            None if let Some(origin) = view.origin_of_linux(ifindex, meta.ingress.mark) => {
                Entry::Outbound(origin)
            }
            None => Entry::Port { ifindex, mark: meta.ingress.mark, is_to_many: !meta.has_flow },
        }
    }
}
