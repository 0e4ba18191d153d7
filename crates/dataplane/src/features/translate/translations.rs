//! How flows of Linux's connections are translated: what their plans have no room for.
//!
//! A plan says where it stands here ([`TranslationSlot`]); each place of the flow cache has one. A connection that
//! ends voids the plans of its two directions, and no other: [`conntrack::Binding::is_live`].

use crate::model::{Action, Translation, TranslationSlot};
use conntrack::{Found, Rewrite};

/// An entry of the table.
pub(crate) struct FlowTranslation {
    serial: u32,
    /// Action after the translation: the packet is forwarded or sealed.
    pub(crate) beneath: Action,
    /// The connection in Linux's table.
    pub(crate) found: Found,
    /// Translation of its packets. `None`: they stay as they are.
    pub(crate) rewrite: Option<Rewrite>,
}

/// The entries of one thread. They take memory with the first one.
#[derive(Default)]
pub(crate) struct Translations {
    places: Vec<Option<FlowTranslation>>,
    serial: u32,
}

impl Translations {
    /// Keeps a decision for the flow at a place of the flow cache, which has so many.
    pub(crate) fn keep(
        &mut self,
        place: usize,
        places: usize,
        translation: &Translation,
    ) -> Option<TranslationSlot> {
        if self.places.is_empty() {
            self.places.resize_with(places, || None);
        }
        self.serial = self.serial.wrapping_add(1);
        let serial = self.serial;
        let Translation { draft, found, rewrite } = translation;
        let (beneath, found) = (draft.action, found.clone());
        *self.places.get_mut(place)? =
            Some(FlowTranslation { serial, beneath, found, rewrite: *rewrite });
        Some(TranslationSlot { place: place as u32, serial })
    }

    /// The translation of a plan that refers to this slot.
    pub(crate) fn get(&self, slot: TranslationSlot) -> Option<&FlowTranslation> {
        let kept = self.places.get(slot.place as usize)?.as_ref()?;
        (kept.serial == slot.serial).then_some(kept)
    }
}
