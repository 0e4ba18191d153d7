//! The marks that SAs give to what they decrypt, which Linux has to be told of.

use std::collections::BTreeMap;

use policy::{Marks, SaConfig};

/// The marks that SAs set, and how many set each.
#[derive(Debug, Default)]
pub struct SetMarks {
    users: BTreeMap<Marks, usize>,
    has_changed: bool,
}

/// Marks that an SA gives to the packets that it decrypts.
fn marks_of(config: &SaConfig) -> Marks {
    Marks { mark: config.set_mark.set_in(0), if_id: config.if_id }
}

impl SetMarks {
    /// An SA came.
    pub fn add(&mut self, config: &SaConfig) {
        let marks = marks_of(config);
        if marks.mark != 0 {
            let users = self.users.entry(marks).or_default();
            *users += 1;
            self.has_changed |= *users == 1;
        }
    }

    /// An SA went.
    pub fn remove(&mut self, config: &SaConfig) {
        let marks = marks_of(config);
        if let Some(users) = self.users.get_mut(&marks) {
            *users -= 1;
            if *users == 0 {
                self.users.remove(&marks);
                self.has_changed = true;
            }
        }
    }

    /// All of them, if they have changed since the last call.
    pub fn take(&mut self) -> Option<Vec<Marks>> {
        std::mem::take(&mut self.has_changed).then(|| self.users.keys().copied().collect())
    }
}
