//! State that the driver and its queues work on together.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::inline_crypto::model::Nic;
use crate::inline_crypto::shadow::Shadow;

/// The hardware and its shadow tables, shared by the device, its queues, and a test that looks on.
#[derive(Clone)]
pub struct SharedNic(Arc<Mutex<Inner>>);

pub(crate) struct Inner {
    pub nic: Nic,
    pub shadow: Shadow,
}

impl SharedNic {
    pub(crate) fn new(inner: Inner) -> SharedNic {
        SharedNic(Arc::new(Mutex::new(inner)))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does something with the hardware behind the driver's back.
    pub fn with<T>(&self, run: impl FnOnce(&mut Nic) -> T) -> T {
        run(&mut self.lock().nic)
    }
}
