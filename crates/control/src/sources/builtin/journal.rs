//! Writes changes to the vault, and keeps those that it did not take.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use tracing::{error, info};
use vault::{Vault, VaultError};
use xfrm::Change;
use xfrm::codec::Message;

/// The vault's journal, and what it did not take yet.
pub struct Journal {
    vault: Rc<RefCell<Vault>>,
    /// The last state of what could not be written, by key.
    unsaved: HashMap<Vec<u8>, Option<Message>>,
}

impl Journal {
    /// Without unsaved changes.
    pub fn new(vault: Rc<RefCell<Vault>>) -> Journal {
        Journal { vault, unsaved: HashMap::new() }
    }

    /// Writes a change where the next start finds it. One that cannot be written is kept.
    pub fn record(&mut self, change: Change) {
        let key = change.key.to_bytes();
        match self.write(&key, change.record.as_ref()) {
            Ok(()) => drop(self.unsaved.remove(&key)),
            Err(error) => {
                error!(%error, "a restart would not know of this change");
                self.unsaved.insert(key, change.record);
            }
        }
    }

    /// How many changes a restart would not know of.
    pub fn unsaved(&self) -> usize {
        self.unsaved.len()
    }

    /// Tries again what could not be written.
    pub fn retry(&mut self) {
        if self.unsaved.is_empty() {
            return;
        }
        let mut unsaved = std::mem::take(&mut self.unsaved);
        unsaved.retain(|key, record| self.write(key, record.as_ref()).is_err());
        self.unsaved = unsaved;
        if self.unsaved.is_empty() {
            info!("the vault takes changes again, and has all of them");
        }
    }

    fn write(&self, key: &[u8], record: Option<&Message>) -> Result<(), VaultError> {
        let mut vault = self.vault.borrow_mut();
        match record {
            Some(record) => vault.put(key, record),
            None => vault.remove(key),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::open_vault;
    use super::*;
    use xfrm::RecordKey;

    #[test]
    fn what_was_not_written_is_written_later_in_its_last_state() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().join("vault");
        let (vault, _) = open_vault(&dir);
        let mut journal = Journal::new(Rc::new(RefCell::new(vault)));
        let key = RecordKey::Policy(8);
        let put = |len| Change { key, record: Some(Message::new(vec![1; len])) };
        journal.record(put(5));
        journal.record(put(vault::MAX_VALUE_LEN + 1));
        assert_eq!(journal.unsaved(), 1, "what is refused is kept");
        journal.retry();
        assert_eq!(journal.unsaved(), 1);
        journal.record(put(6));
        assert_eq!(journal.unsaved(), 0, "an older state must not come back");
        journal.retry();
        drop(journal);
        let (_, records) = open_vault(&dir);
        assert_eq!(records.iter().map(|r| r.value.len()).collect::<Vec<_>>(), [6]);
    }
}
