//! The library: its version, its flows, and what it makes of packets.

use core::ffi::{CStr, c_char, c_void};
use core::ptr::NonNull;

use ndpi_sys::{API_VERSION, FLOW_SIZE, Functions, Module, Protocol, Protocols, SONAME};

use crate::protocols::spelled;

/// Package of Debian 12 with the library.
pub const PACKAGE: &str = "libndpi4.2";

/// Protocols that the library is not to look for: WebSocket, which it takes any segment with a byte 1 or 2 in front for, and which
/// begins with a request that culvert reads.
const TOO_VAGUE: [u16; 1] = [251];

/// The library, ready for packets.
#[derive(Debug)]
pub struct Library {
    functions: Functions,
    module: NonNull<Module>,
}

/// State of a flow in the library.
#[derive(Debug)]
pub struct Flow {
    functions: Functions,
    state: NonNull<c_void>,
}

/// Why the library cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// It is not there, or is none.
    #[error("{0}; apt install {PACKAGE}")]
    Missing(String),
    /// It is of another version.
    #[error(
        "{SONAME} has interface {found} and not {API_VERSION}, which is 4.2's; apt install {PACKAGE}"
    )]
    Version {
        /// Number of its interface.
        found: u16,
    },
    /// It was built with other options than the distribution's.
    #[error(
        "{SONAME} keeps {found} bytes of a flow and not {FLOW_SIZE}, as 4.2 does; apt install {PACKAGE}"
    )]
    Layout {
        /// Size of its flows, in bytes.
        found: u32,
    },
    /// Its protocols are others.
    #[error(
        "{SONAME} has protocol {number} as {found:?} and not as {wanted:?}, as 4.2 has; apt install {PACKAGE}"
    )]
    Protocols {
        /// Number of the protocol.
        number: u16,
        /// Name that it has for it.
        found: String,
        /// Name that it should have.
        wanted: String,
    },
    /// It has no memory for its tables.
    #[error("{SONAME} does not start: no memory")]
    Memory,
}

impl Library {
    /// Loads the library and has it build its tables, some 3 MB. It then looks for all protocols but those that are too vague.
    ///
    /// # Errors
    /// It is not there, or not of version 4.2.
    pub fn load() -> Result<Library, LoadError> {
        // SAFETY: the name is that of ntop's library, with its version; an administrator who puts another one there means it.
        let loaded = unsafe { Functions::load() };
        let functions = loaded.map_err(|error| LoadError::Missing(message(&error)))?;
        // SAFETY: the function takes nothing and returns a number, in all versions.
        let found = unsafe { (functions.api_version)() };
        if found != API_VERSION {
            return Err(LoadError::Version { found });
        }
        // SAFETY: as above.
        let found = unsafe { (functions.flow_size)() };
        if found != FLOW_SIZE {
            return Err(LoadError::Layout { found });
        }
        // SAFETY: the version is that of the bindings.
        let module = unsafe { (functions.init)(0) };
        let module = NonNull::new(module).ok_or(LoadError::Memory)?;
        let library = Library { functions, module };
        library.check_protocols()?;
        let mut wanted: Protocols = [u32::MAX; 16];
        for number in TOO_VAGUE {
            if let Some(word) = wanted.get_mut(usize::from(number / 32)) {
                *word &= !(1 << (number % 32));
            }
        }
        // SAFETY: the module is valid; the set is read only during the call.
        unsafe { (functions.set_protocols)(module.as_ptr(), &wanted) };
        // SAFETY: the module is valid, and finalised once.
        unsafe { (functions.finalize)(module.as_ptr()) };
        Ok(library)
    }

    fn check_protocols(&self) -> Result<(), LoadError> {
        // SAFETY: the module is valid.
        let count = unsafe { (self.functions.protocols)(self.module.as_ptr()) };
        let count = u16::try_from(count).unwrap_or(u16::MAX).max(spelled().len() as u16);
        for number in 0..count {
            let wanted = spelled().get(usize::from(number)).copied().unwrap_or_default();
            // SAFETY: the module is valid; a number that it does not have is answered with a name for that.
            let name = unsafe { (self.functions.name)(self.module.as_ptr(), number) };
            // SAFETY: the module's names are C strings, or null.
            let found = unsafe { text(name) };
            if found != wanted {
                let wanted = wanted.to_owned();
                return Err(LoadError::Protocols { number, found, wanted });
            }
        }
        Ok(())
    }

    /// Version of the library, as it says it.
    pub fn version(&self) -> String {
        // SAFETY: the function takes nothing.
        let revision = unsafe { (self.functions.revision)() };
        // SAFETY: it is a C string of the library's, or null.
        unsafe { text(revision) }
    }

    /// A flow of which nothing was seen; none without memory.
    pub fn flow(&self) -> Option<Flow> {
        // SAFETY: the size is the library's own.
        let state = unsafe { (self.functions.calloc)(1, FLOW_SIZE as usize) };
        Some(Flow { functions: self.functions, state: NonNull::new(state)? })
    }

    /// Takes the next IP packet of a flow, at a time in milliseconds. Returns the protocol's number, once it is known.
    /// Bytes behind the 65535th are left out.
    pub fn packet(&mut self, flow: &mut Flow, now_ms: u64, packet: &[u8]) -> Option<u16> {
        let packet = packet.get(..usize::from(u16::MAX)).unwrap_or(packet);
        let (module, state) = (self.module.as_ptr(), flow.state.as_ptr());
        let len = packet.len() as u16;
        // SAFETY: module and flow are valid and this call's alone; the packet is read only, within its length.
        let found = unsafe { (self.functions.packet)(module, state, packet.as_ptr(), len, now_ms) };
        known(found)
    }

    /// Protocol of a flow of which no more packets come, without guesses by address or port.
    pub fn give_up(&mut self, flow: &mut Flow) -> Option<u16> {
        let (module, state) = (self.module.as_ptr(), flow.state.as_ptr());
        let mut guessed = 0;
        // SAFETY: as for a packet; the byte is written during the call.
        let found = unsafe { (self.functions.give_up)(module, state, 0, &mut guessed) };
        if guessed == 0 { known(found) } else { None }
    }
}

impl Drop for Flow {
    fn drop(&mut self) {
        // SAFETY: the state is the library's, and nobody has it any more.
        unsafe { (self.functions.free_flow)(self.state.as_ptr()) };
    }
}

/// The application, or else the protocol that carries it.
fn known(protocol: Protocol) -> Option<u16> {
    [protocol.application, protocol.master].into_iter().find(|number| *number != 0)
}

/// The loader's error with its cause, which names the file.
fn message(error: &dyn core::error::Error) -> String {
    error.source().map_or_else(|| error.to_string(), ToString::to_string)
}

/// # Safety
/// The text is a C string that stays as it is during the call, or null.
unsafe fn text(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}
