//! A crypto device, and the keys in it.

use core::ffi::{CStr, c_char, c_void};
use core::ptr::{NonNull, null, null_mut};
use std::ffi::CString;
use std::sync::{Arc, Mutex, PoisonError};

use crypto::Op;

use super::raw::{self, Facts, Pool, Transform};

/// Devices that somebody has: each is configured by one owner.
static TAKEN: Mutex<[bool; 256]> = Mutex::new([false; 256]);

/// A crypto device of DPDK's, stopped and closed when it is dropped. It stays taken: DPDK does not open it again.
pub struct Adapter {
    id: u8,
    driver: String,
    most_pairs: u32,
    most_sessions: u32,
    has_chains: bool,
    /// Memory for sessions; null before the first [`Adapter::bring_up`].
    sessions: Mutex<SharedPool>,
}

struct SharedPool(*mut Pool);

// SAFETY: a pool is for any number of threads, as it is made with the library's default ring.
unsafe impl Send for SharedPool {}

impl Adapter {
    /// The device of this name, or one at this address of its bus, if there is one and nobody has it.
    pub fn find(name: &str, is_address: bool) -> Option<Adapter> {
        let text = CString::new(name).ok()?;
        let is_address = i32::from(is_address);
        // SAFETY: a string; the caller has started the environment, else there is no device and none is found.
        let id = u8::try_from(unsafe { raw::culvert_cd_find(text.as_ptr(), is_address) }).ok()?;
        let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
        if core::mem::replace(taken.get_mut(usize::from(id))?, true) {
            return None;
        }
        let mut facts =
            Facts { name: null(), driver: null(), most_pairs: 0, most_sessions: 0, has_chains: 0 };
        // SAFETY: `id` is a device's, as it was just found, and `facts` is ours to write.
        unsafe { raw::culvert_cd_facts(id, &raw mut facts) };
        Some(Adapter {
            id,
            driver: text_of(facts.driver),
            most_pairs: facts.most_pairs,
            most_sessions: facts.most_sessions,
            has_chains: facts.has_chains != 0,
            sessions: Mutex::new(SharedPool(null_mut())),
        })
    }

    /// The driver's name.
    pub fn driver(&self) -> &str {
        &self.driver
    }

    /// Queue pairs at most.
    pub fn most_pairs(&self) -> u32 {
        self.most_pairs
    }

    /// Sessions at most, if there is a limit.
    pub fn most_sessions(&self) -> Option<u32> {
        (self.most_sessions > 0).then_some(self.most_sessions)
    }

    /// True if a cipher and a MAC run in one operation.
    pub fn has_chains(&self) -> bool {
        self.has_chains
    }

    /// True if the device's capabilities name all that a transform needs.
    pub fn does(&self, transform: &Transform) -> bool {
        // SAFETY: `id` is a device's; algorithm numbers are those of `raw`, and so within the shim's tables.
        unsafe { raw::culvert_cd_does(self.id, transform) != 0 }
    }

    /// Stops the device if it runs, sets up its queue pairs and starts it; the first time with memory for so many
    /// sessions. The caller sees to it that nobody is in a call of a [`Pair`] of this device meanwhile.
    ///
    /// # Errors
    /// The library's errno.
    pub fn bring_up(&self, pairs: u16, depth: u32, sessions: u32) -> Result<(), i32> {
        let mut pool = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        let (id, pool) = (self.id, &raw mut pool.0);
        // SAFETY: `id` is a device's, and the pool its own or none yet.
        match unsafe { raw::culvert_cd_bring_up(id, pairs, depth, pool, sessions) } {
            0 => Ok(()),
            error => Err(-error),
        }
    }

    /// A session with these keys, whose lengths the transform says; `None` if the driver does not take it, or has no
    /// memory.
    pub fn session(
        self: &Arc<Self>,
        transform: &Transform,
        op: Op,
        cipher_key: &[u8],
        auth_key: &[u8],
    ) -> Option<Session> {
        let lens = [cipher_key.len(), auth_key.len()];
        let told = [transform.cipher_key_len, transform.auth_key_len].map(usize::from);
        let pool = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        if lens != told || pool.0.is_null() {
            return None;
        }
        let (is_seal, keys) = (i32::from(op == Op::Seal), [cipher_key.as_ptr(), auth_key.as_ptr()]);
        let [cipher_key, auth_key] = keys;
        // SAFETY: the keys are as long as the transform says, as was just seen; the driver copies them. `id` is a
        // device's and the pool its own.
        let raw = unsafe {
            raw::culvert_cd_session(self.id, pool.0, transform, is_seal, cipher_key, auth_key)
        };
        Some(Session { adapter: Arc::clone(self), raw: NonNull::new(raw)?, transform: *transform })
    }

    pub(super) fn id(&self) -> u8 {
        self.id
    }
}

impl Drop for Adapter {
    fn drop(&mut self) {
        let pool = self.sessions.get_mut().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: `id` is a device's and the pool its own. Pairs and sessions hold the adapter, so there is none.
        unsafe { raw::culvert_cd_close(self.id, pool.0) };
    }
}

/// The keys of one direction of an SA as a device has them. Freed, and overwritten by the driver, when it is dropped.
pub struct Session {
    adapter: Arc<Adapter>,
    raw: NonNull<c_void>,
    transform: Transform,
}

// SAFETY: after it was made a session is only read, and given back to a pool that is for any thread.
unsafe impl Send for Session {}
// SAFETY: likewise; DPDK lets the queue pairs of a device share a session.
unsafe impl Sync for Session {}

impl Session {
    pub(super) fn raw(&self) -> *mut c_void {
        self.raw.as_ptr()
    }

    pub(super) fn transform(&self) -> &Transform {
        &self.transform
    }

    pub(super) fn is_of(&self, adapter: &Arc<Adapter>) -> bool {
        Arc::ptr_eq(&self.adapter, adapter)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // SAFETY: made by this device and freed once. No operation of it is under way: a
        // pair keeps the sessions of its packets until they have come back.
        unsafe { raw::culvert_cd_session_free(self.adapter.id, self.raw.as_ptr()) };
    }
}

fn text_of(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: not null, and a string of the library's or a driver's, which stays.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}
