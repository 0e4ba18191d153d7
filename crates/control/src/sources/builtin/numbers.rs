//! Last sequence numbers, kept beyond the life of their SA.
//!
//! An IKE daemon moves an SA (MOBIKE, a new NAT mapping) by deleting it and adding it again with the
//! same keys, and the number that it carries over may be older than what a worker has sent
//! meanwhile. And a request that was carried out but not answered before a crash comes again. In
//! both cases the same keys go on past the last number, also when the daemon was killed in between.
//! So the vault keeps the last numbers, under a hash of SPI and keys.
//!
//! # When the last number is exact
//!
//! The next SA goes on with the very next number where the last one is known exactly:
//!
//! - **After a deletion**, when the SA is closed: soon, or as soon as its keys come again (`leaving.rs`).
//!   [`LiveNumbers::close`] swaps the number for one beyond all. Every lease is a
//!   compare-and-swap of the same word, and such operations on one word have one order. A lease
//!   before the swap gets numbers up to the one that the swap returns. A lease after it gets none:
//!   the packet is dropped. This holds whichever threads still see the SA, and whatever they have in
//!   flight: a packet that was numbered before may leave later.
//! - **For live numbers without a record**, left by a run that was killed. The number moves before any
//!   of a lease is used, and only that run could move it.
//!
//! In every other case it goes on [`STEP`] past what is remembered:
//!
//! | the daemon was killed | what is remembered | then |
//! | --- | --- | --- |
//! | before the swap | the number at the deletion, as doubtful | the SA goes on by its live numbers, with its record or without; added under another address it goes on `STEP` past the number |
//! | after the swap, before the exact number was saved | the same; the live number is closed | the same, for both |
//! | after the exact number was saved | the number, exact | the next number |
//! | after the SA was added again | the number, which was made doubtful before the SA could be used | with a record it goes on by its live number, without one by that number or `STEP` past the remembered one, whichever is more |
//!
//! `STEP` is more than can be sent under one SA between two lines of this module, on a core that was
//! taken from the control thread meanwhile. It does not depend on how many workers there are: only an
//! SA's home numbers its packets, and of the home and its helpers whichever has the turn. A home
//! moves only while no worker runs, and everything that was numbered has left by then.

use core::hash::Hasher as _;
use core::sync::atomic::Ordering::Relaxed;
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{BuildHasher as _, RandomState};
use std::rc::Rc;

use crypto::Keys;
use esp::LiveNumbers;
use policy::SaId;
use tracing::error;
use vault::{Origin, Record, Vault, VaultError};

/// Most deleted SAs whose last numbers are remembered.
const RETIRED_MAX: usize = 4096;

/// How far past a doubtful number the same keys go on: 70 ms of 15 million packets a second, more than
/// an SA's home and its helpers take turns for.
const STEP: u64 = 1 << 20;

/// First bytes of this module's keys in the vault; those of the XFRM database are lower.
const SECRET: u8 = 0xf0;
const RETIRED: u8 = 0xf1;

/// Follows a number that is exact.
const EXACT: u8 = 1;

/// The last numbers, in the vault and in memory.
pub struct Numbers {
    vault: Rc<RefCell<Vault>>,
    /// The key of the hashes; it lives as long as the vault.
    secret: [u64; 2],
    /// Last numbers of deleted SAs, by fingerprint.
    retired: HashMap<u64, Retired>,
    /// Their fingerprints in the order in which they were retired.
    order: BTreeMap<u64, u64>,
    /// The next place in that order.
    next: u64,
    /// Owner and last number of live numbers that the run before left without a record.
    left: HashMap<u64, u64>,
    /// The last state of what could not be written, by key in the vault.
    unsaved: HashMap<Vec<u8>, Option<Vec<u8>>>,
}

/// The last number under some keys.
#[derive(Clone, Copy, Debug)]
struct Retired {
    sent: u64,
    /// No number above it was handed out.
    is_exact: bool,
    /// Place in the order.
    at: u64,
}

impl Numbers {
    /// Restores what an earlier run remembered.
    pub fn new(vault: Rc<RefCell<Vault>>, records: &[Record]) -> Numbers {
        let find = records.iter().find(|r| r.key == [SECRET]);
        let secret = find.and_then(|r| Some([word(&r.value, 0)?, word(&r.value, 8)?]));
        let is_new = secret.is_none();
        let secret = secret.unwrap_or_else(|| [0, 1].map(|n: u64| RandomState::new().hash_one(n)));
        let retired = records.iter().filter(|r| r.key.first() == Some(&RETIRED));
        // A value that ends with the number is doubtful: earlier versions wrote nothing else.
        let is_exact = |value: &[u8]| value.get(8) == Some(&EXACT);
        let retired = retired
            .filter_map(|r| Some((word(&r.key, 1)?, word(&r.value, 0)?, is_exact(&r.value))));
        let mut numbers = Numbers {
            vault,
            secret,
            retired: HashMap::new(),
            order: BTreeMap::new(),
            next: 0,
            left: HashMap::new(),
            unsaved: HashMap::new(),
        };
        retired.for_each(|(fingerprint, sent, exact)| numbers.note(fingerprint, sent, exact));
        if is_new {
            numbers.save(&[SECRET], Some(&secret.map(u64::to_be_bytes).concat()));
        }
        numbers
    }

    /// True if a record of the vault is this module's.
    pub fn is_ours(record: &Record) -> bool {
        record.key.first().is_some_and(|kind| *kind >= SECRET)
    }

    /// A hash of SPI and keys, the same in later runs.
    pub fn fingerprint(&self, spi: u32, keys: &Keys) -> u64 {
        self.hash(&[&spi.to_be_bytes(), &keys.cipher, &keys.salt, &keys.auth])
    }

    /// The owner id under which the vault keeps an SA's live numbers. It depends on the keys too:
    /// whatever is lost of the journal, an SA never gets the live numbers of other keys.
    pub fn owner(&self, id: &SaId, keys: &Keys) -> u64 {
        let id = xfrm::RecordKey::Sa(*id).to_bytes();
        self.hash(&[&id, &keys.cipher, &keys.salt, &keys.auth])
    }

    /// The number past which these keys go on, for an SA that is about to be added; 0 if nothing is
    /// remembered. From now on what is remembered is doubtful.
    pub fn resume(&mut self, fingerprint: u64, owner: u64) -> u64 {
        let retired = self.retired.get(&fingerprint).copied();
        let last = retired.map_or(0, |r| match r.is_exact {
            true => r.sent,
            false => r.sent.saturating_add(STEP),
        });
        let last = last.max(self.left.get(&owner).copied().unwrap_or(0));
        if retired.is_some() {
            self.remember(fingerprint, last, false);
        }
        last
    }

    /// Begins to retire an SA that is deleted; false if nothing need be remembered of it, and it is closed.
    pub fn begin_to_retire(&mut self, fingerprint: u64, live: &LiveNumbers) -> bool {
        let sent = live.sent().load(Relaxed);
        if sent == 0 && live.edge().load(Relaxed) > 0 {
            // An inbound SA: it never sends.
            live.close();
            return false;
        }
        // Swap and save cannot be one step: a crash between them finds this.
        if sent != 0 {
            self.remember(fingerprint, sent, false);
        }
        true
    }

    /// Closes the live numbers of an SA that was deleted, so that no more are leased, and remembers
    /// the last one.
    pub fn retire(&mut self, fingerprint: u64, live: &LiveNumbers) {
        let last = live.close();
        if last != 0 {
            self.remember(fingerprint, last, true);
        }
    }

    fn remember(&mut self, fingerprint: u64, sent: u64, is_exact: bool) {
        let key = |fingerprint: u64| [&[RETIRED][..], &fingerprint.to_be_bytes()].concat();
        let is_full = self.retired.len() >= RETIRED_MAX;
        if is_full
            && !self.retired.contains_key(&fingerprint)
            && let Some((_, oldest)) = self.order.pop_first()
        {
            self.retired.remove(&oldest);
            self.save(&key(oldest), None);
        }
        self.note(fingerprint, sent, is_exact);
        let mut value = sent.to_be_bytes().to_vec();
        value.extend(is_exact.then_some(EXACT));
        self.save(&key(fingerprint), Some(&value));
    }

    /// Puts a number last in the order.
    fn note(&mut self, fingerprint: u64, sent: u64, is_exact: bool) {
        let new = Retired { sent, is_exact, at: self.next };
        let old = self.retired.insert(fingerprint, new);
        if let Some(old) = old {
            self.order.remove(&old.at);
        }
        self.order.insert(self.next, fingerprint);
        self.next += 1;
    }

    /// Releases the live numbers of SAs without a record, and remembers the last ones.
    pub fn sweep(&mut self, keep: &HashSet<u64>) -> usize {
        let mut vault = self.vault.borrow_mut();
        let orphans: Vec<_> = vault.owners().filter(|(owner, _)| !keep.contains(owner)).collect();
        for (owner, len) in orphans {
            if let Ok(grant) = vault.live_numbers(owner, len)
                && grant.origin == Origin::Kept
                && let Some(live) = LiveNumbers::in_memory(grant.memory, 0)
                // When it was closed, its last number was remembered.
                && let sent = live.sent().load(Relaxed)
                && sent != LiveNumbers::CLOSED
            {
                self.left.insert(owner, sent);
            }
        }
        vault.sweep(keep)
    }

    fn hash(&self, parts: &[&[u8]]) -> u64 {
        #[expect(
            deprecated,
            reason = "the one hash of the standard library that is fixed: SipHash-2-4 with a key"
        )]
        let mut hasher = core::hash::SipHasher::new_with_keys(self.secret[0], self.secret[1]);
        for part in parts {
            hasher.write(&(part.len() as u64).to_be_bytes());
            hasher.write(part);
        }
        hasher.finish()
    }

    /// Writes a change; one that cannot be written is kept for [`Numbers::retry`].
    fn save(&mut self, key: &[u8], value: Option<&[u8]>) {
        match self.write(key, value) {
            Ok(()) => drop(self.unsaved.remove(key)),
            Err(error) => {
                error!(%error, "after a crash the last number of an SA would not be known");
                self.unsaved.insert(key.to_vec(), value.map(<[u8]>::to_vec));
            }
        }
    }

    /// How many changes a restart would not know of.
    pub fn unsaved(&self) -> usize {
        self.unsaved.len()
    }

    /// Tries again what could not be written.
    pub fn retry(&mut self) {
        let mut unsaved = std::mem::take(&mut self.unsaved);
        unsaved.retain(|key, value| self.write(key, value.as_deref()).is_err());
        self.unsaved = unsaved;
    }

    fn write(&self, key: &[u8], value: Option<&[u8]>) -> Result<(), VaultError> {
        let mut vault = self.vault.borrow_mut();
        match value {
            Some(value) => vault.put(key, value),
            None => vault.remove(key),
        }
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().map(|word| u64::from_be_bytes(*word))
}

#[cfg(test)]
mod tests {
    use super::super::testing::open_vault;
    use super::*;

    fn keys(byte: u8) -> Keys {
        Keys { cipher: vec![byte; 16], salt: vec![byte; 4], auth: Vec::new() }
    }

    fn id() -> SaId {
        let mark = policy::Mark::default();
        SaId { dst: [192, 0, 2, 1].into(), spi: 7, protocol: 50, mark }
    }

    /// The live numbers of an SA that has sent so many packets.
    fn sent(count: u64) -> LiveNumbers {
        let live = LiveNumbers::on_heap(0);
        live.sent().store(count, Relaxed);
        live
    }

    #[test]
    fn one_that_sent_nothing_or_only_received_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        life(&dir.path().join("vault"), |numbers| {
            let inbound = sent(0);
            inbound.edge().store(7, Relaxed);
            for live in [sent(0), inbound] {
                if numbers.begin_to_retire(9, &live) {
                    numbers.retire(9, &live);
                }
                assert_eq!(live.sent().load(Relaxed), LiveNumbers::CLOSED);
            }
            assert!(numbers.retired.is_empty());
        });
    }

    /// One run of the daemon, which ends as if killed.
    fn life<T>(dir: &std::path::Path, run: impl FnOnce(&mut Numbers) -> T) -> T {
        let (vault, records) = open_vault(dir);
        run(&mut Numbers::new(Rc::new(RefCell::new(vault)), &records))
    }

    #[test]
    fn the_same_keys_go_on_after_a_crash_between_deletion_and_addition() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().join("vault");
        life(&dir, |numbers| {
            let fingerprint = numbers.fingerprint(7, &keys(1));
            numbers.retire(fingerprint, &sent(100));
            numbers.retire(fingerprint, &sent(90_000));
        });
        life(&dir, |numbers| {
            let mut resume = |spi, byte| numbers.resume(numbers.fingerprint(spi, &keys(byte)), 0);
            assert_eq!((resume(7, 2), resume(8, 1)), (0, 0));
            assert_eq!(resume(7, 1), 90_000, "it was deleted in order");
            // It was added, and what it sent since then is not known.
            assert_eq!(resume(7, 1), 90_000 + STEP);
        });
        life(&dir, |numbers| {
            let fingerprint = numbers.fingerprint(7, &keys(1));
            assert_eq!(numbers.resume(fingerprint, 0), 90_000 + 2 * STEP);
            numbers.retire(fingerprint, &sent(2_000_000));
            assert_eq!(numbers.resume(fingerprint, 0), 2_000_000);
        });
    }

    #[test]
    fn what_is_under_way_when_an_sa_is_deleted_counts_for_the_next_with_its_keys() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().join("vault");
        life(&dir, |numbers| {
            let live = sent(100);
            assert!(numbers.begin_to_retire(9, &live));
            live.sent().store(103, Relaxed);
            numbers.retire(9, &live);
            assert_eq!(numbers.resume(9, 0), 103);
            assert!(numbers.begin_to_retire(9, &sent(200)));
        });
        // Killed before it was closed.
        life(&dir, |numbers| assert_eq!(numbers.resume(9, 0), 200 + STEP));
    }

    #[test]
    fn an_sa_that_was_not_recorded_goes_on_when_it_comes_again() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().join("vault");
        let len = LiveNumbers::needed(64);
        life(&dir, |numbers| {
            let owner = numbers.owner(&id(), &keys(1));
            let grant = numbers.vault.borrow_mut().live_numbers(owner, len).unwrap();
            LiveNumbers::in_memory(grant.memory, 64).unwrap().sent().store(300, Relaxed);
        });
        life(&dir, |numbers| {
            assert_eq!(numbers.sweep(&HashSet::new()), 1);
            assert_eq!(numbers.resume(0, numbers.owner(&id(), &keys(1))), 300);
            assert_eq!(numbers.resume(0, numbers.owner(&id(), &keys(2))), 0);
        });
    }

    #[test]
    fn live_numbers_never_come_back_to_other_keys() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().join("vault");
        let of = |byte| life(&dir, |numbers| numbers.owner(&id(), &keys(byte)));
        assert_eq!(of(1), of(1));
        assert_ne!(of(1), of(2));
    }

    #[test]
    fn the_oldest_are_forgotten() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().join("vault");
        let max = RETIRED_MAX as u64;
        life(&dir, |numbers| (0..=max).for_each(|n| numbers.retire(n, &sent(n + 1))));
        life(&dir, |numbers| {
            assert_eq!((numbers.retired.len(), numbers.order.len()), (RETIRED_MAX, RETIRED_MAX));
            assert_eq!(numbers.resume(0, 0), 0);
            assert_eq!(numbers.resume(max, 0), max + 1);
        });
    }
}
