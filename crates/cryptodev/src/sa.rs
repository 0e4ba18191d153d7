//! The SAs of a device, as queues find them.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use crypto::{Keys, Op, Suite};
use offload::SaHandle;
use zeroize::Zeroizing;

use crate::algorithm::{AAD_LENS, transform};
use crate::sys::{Adapter, KIND_AEAD, Session};

/// One direction of an SA, ready for packets.
pub struct Entry {
    pub handle: SaHandle,
    pub suite: Suite,
    pub op: Op,
    pub salt: Zeroizing<Vec<u8>>,
    /// Without ESN, and with it where that is another one: a combined mode has its additional data's length in the
    /// session.
    sessions: [Option<Arc<Session>>; 2],
}

impl Entry {
    /// Has a device take keys, which fit the suite. `None` if its driver does not, or has no memory.
    pub fn new(
        adapter: &Arc<Adapter>,
        handle: SaHandle,
        suite: Suite,
        op: Op,
        keys: &Keys,
    ) -> Option<Entry> {
        let of = transform(suite, keys.auth.len())?;
        let (cipher, auth) = match suite {
            Suite::AesGmac { .. } => (&[][..], &keys.cipher[..]),
            _ => (&keys.cipher[..], &keys.auth[..]),
        };
        // Not every driver looks at an integrity key's length itself.
        let session = |aad_len| {
            let of = crate::sys::Transform { aad_len, ..of };
            let session = adapter.does(&of).then(|| adapter.session(&of, op, cipher, auth));
            session.flatten().map(Arc::new)
        };
        let sessions = match of.kind {
            KIND_AEAD => [Some(session(AAD_LENS[0])?), Some(session(AAD_LENS[1])?)],
            _ => [Some(session(0)?), None],
        };
        Some(Entry { handle, suite, op, salt: Zeroizing::new(keys.salt.clone()), sessions })
    }

    /// The session for packets with the high half of their number, or without.
    pub fn session(&self, has_high: bool) -> Option<&Arc<Session>> {
        let [plain, esn] = &self.sessions;
        esn.as_ref().filter(|_| has_high).or(plain.as_ref())
    }

    /// True if no packet of it is in the device.
    pub fn is_idle(&self) -> bool {
        self.sessions.iter().flatten().all(|session| Arc::strong_count(session) == 1)
    }
}

/// Places of SAs. Control writes, queues read without a lock.
pub struct Table {
    places: Box<[ArcSwapOption<Entry>]>,
}

impl Table {
    /// With so many places.
    pub fn new(places: usize) -> Table {
        Table { places: (0..places).map(|_| ArcSwapOption::empty()).collect() }
    }

    /// The next handle for a free place, which no SA had before, or `None` if all are taken.
    pub fn next_handle(&self, last: SaHandle) -> Option<SaHandle> {
        let mut handles = (1..=self.places.len() as u32).map(|n| SaHandle(last.0.wrapping_add(n)));
        handles.find(|handle| self.place(*handle).is_some_and(|place| place.load().is_none()))
    }

    /// Puts an SA at its handle's place.
    pub fn put(&self, entry: Entry) {
        if let Some(place) = self.place(entry.handle) {
            place.store(Some(Arc::new(entry)));
        }
    }

    /// Takes it out.
    pub fn take(&self, sa: SaHandle) -> Option<Arc<Entry>> {
        self.find(sa)?;
        self.place(sa)?.swap(None)
    }

    /// The SA, while it is there.
    pub fn find(&self, sa: SaHandle) -> Option<Arc<Entry>> {
        self.place(sa)?.load_full().filter(|entry| entry.handle == sa)
    }

    fn place(&self, sa: SaHandle) -> Option<&ArcSwapOption<Entry>> {
        self.places.get(sa.0 as usize % self.places.len().max(1))
    }
}
