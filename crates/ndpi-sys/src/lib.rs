//! Bindings to libndpi 4.2, the library of ntop that recognises protocols: the few calls that this takes, by hand.
//!
//! The library is loaded when it is asked for, and neither its header nor the library is needed to build. What is here was taken
//! from `ndpi_api.h` and `ndpi_typedefs.h` of 4.2.

use core::ffi::{c_char, c_uchar, c_ushort, c_void};

use libloading::{Library, Symbol};

/// Name of the library that these bindings are for, as the dynamic linker looks it up.
pub const SONAME: &str = "libndpi.so.4.2";

/// Result of `ndpi_get_api_version` in 4.2.
pub const API_VERSION: u16 = 8668;

/// Size of `struct ndpi_flow_struct` in 4.2, in bytes: it says whether the library was built as its header is.
pub const FLOW_SIZE: u32 = 688;

/// A set with room for 512 protocols (`NDPI_PROTOCOL_BITMASK`).
pub type Protocols = [u32; 16];

/// The library's state (`struct ndpi_detection_module_struct`).
#[repr(C)]
pub struct Module {
    _opaque: [u8; 0],
    // Neither Send nor Sync: one thread at a time, chosen by its owner.
    _not_send: core::marker::PhantomData<*mut ()>,
}

/// Protocol of a flow (`ndpi_protocol`); 0 is none.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Protocol {
    /// Protocol that carries the other, as HTTP does.
    pub master: u16,
    /// Protocol of the application.
    pub application: u16,
    /// Kind of application (`ndpi_protocol_category_t`).
    pub category: u32,
}

/// Functions of the library. They are valid for the life of the process: it is never unloaded.
#[derive(Clone, Copy, Debug)]
pub struct Functions {
    /// `ndpi_get_api_version`: number of the interface.
    pub api_version: unsafe extern "C" fn() -> u16,
    /// `ndpi_revision`: a string that is the library's.
    pub revision: unsafe extern "C" fn() -> *const c_char,
    /// `ndpi_detection_get_sizeof_ndpi_flow_struct`, in bytes.
    pub flow_size: unsafe extern "C" fn() -> u32,
    /// `ndpi_init_detection_module`, with `ndpi_init_prefs`; null without memory.
    pub init: unsafe extern "C" fn(u32) -> *mut Module,
    /// `ndpi_set_protocol_detection_bitmask2`: protocols to look for.
    pub set_protocols: unsafe extern "C" fn(*mut Module, *const Protocols),
    /// `ndpi_finalize_initialization`, before the first packet.
    pub finalize: unsafe extern "C" fn(*mut Module),
    /// `ndpi_get_num_supported_protocols`: names that there are.
    pub protocols: unsafe extern "C" fn(*mut Module) -> u32,
    /// `ndpi_get_proto_name`: a string that is the module's.
    pub name: unsafe extern "C" fn(*mut Module, u16) -> *const c_char,
    /// `ndpi_calloc`, for flows: their memory is zero in the beginning.
    pub calloc: unsafe extern "C" fn(core::ffi::c_ulong, usize) -> *mut c_void,
    /// `ndpi_free_flow`: the flow and all that it has.
    pub free_flow: unsafe extern "C" fn(*mut c_void),
    /// `ndpi_detection_process_packet`: module, flow, IP packet, its length, time in milliseconds.
    pub packet:
        unsafe extern "C" fn(*mut Module, *mut c_void, *const c_uchar, c_ushort, u64) -> Protocol,
    /// `ndpi_detection_giveup`: module, flow, whether to guess, and where it says that it did.
    pub give_up: unsafe extern "C" fn(*mut Module, *mut c_void, u8, *mut u8) -> Protocol,
}

impl Functions {
    /// Loads the library.
    ///
    /// # Errors
    /// It is not there, or lacks a function.
    ///
    /// # Safety
    /// The library of that name has to be ntop's: its initialisers run, and the types of its functions are not checked.
    pub unsafe fn load() -> Result<Functions, libloading::Error> {
        // SAFETY: that its initialisers may run is the caller's promise.
        let library = unsafe { Library::new(SONAME) }?;
        // Its functions are used as long as the process lives.
        let library: &'static Library = Box::leak(Box::new(library));
        Ok(Functions {
            // SAFETY: the type is that of the header; so with all below.
            api_version: unsafe { function(library, "ndpi_get_api_version") }?,
            // SAFETY: as above.
            revision: unsafe { function(library, "ndpi_revision") }?,
            // SAFETY: as above.
            flow_size: unsafe { function(library, "ndpi_detection_get_sizeof_ndpi_flow_struct") }?,
            // SAFETY: as above.
            init: unsafe { function(library, "ndpi_init_detection_module") }?,
            // SAFETY: as above.
            set_protocols: unsafe { function(library, "ndpi_set_protocol_detection_bitmask2") }?,
            // SAFETY: as above.
            finalize: unsafe { function(library, "ndpi_finalize_initialization") }?,
            // SAFETY: as above.
            protocols: unsafe { function(library, "ndpi_get_num_supported_protocols") }?,
            // SAFETY: as above.
            name: unsafe { function(library, "ndpi_get_proto_name") }?,
            // SAFETY: as above.
            calloc: unsafe { function(library, "ndpi_calloc") }?,
            // SAFETY: as above.
            free_flow: unsafe { function(library, "ndpi_free_flow") }?,
            // SAFETY: as above.
            packet: unsafe { function(library, "ndpi_detection_process_packet") }?,
            // SAFETY: as above.
            give_up: unsafe { function(library, "ndpi_detection_giveup") }?,
        })
    }
}

/// A function by its name.
///
/// # Safety
/// `F` has to be the function's type.
unsafe fn function<F: Copy + 'static>(
    library: &'static Library,
    name: &str,
) -> Result<F, libloading::Error> {
    // SAFETY: the type is the caller's promise; the library is never unloaded.
    let symbol: Symbol<'static, F> = unsafe { library.get(name) }?;
    Ok(*symbol)
}
