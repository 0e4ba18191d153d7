//! Loads the program that puts a packet's mark in front of it where the private interface sends it to
//! culvert.

use core::fmt;

use aya::Ebpf;
use aya::programs::TcAttachType;

use crate::classifier;
use crate::error::SteerError;

/// The program (`bpf/marks.bpf.c`) on the private interface. Dropping it detaches it: packets come without
/// their marks then.
pub struct SendMarks {
    interface: String,
    // Keeps the program loaded and attached.
    _program: Ebpf,
}

impl SendMarks {
    /// Loads the program and attaches it to the private interface.
    ///
    /// # Errors
    ///
    /// [`SteerError`] names the step that failed, and a remedy. Nothing stays attached then.
    pub fn load_and_attach(interface: &str) -> Result<Self, SteerError> {
        let at = TcAttachType::Egress;
        let program =
            classifier::load_and_attach(crate::MARKS_OBJECT, "send_marks", interface, at)?;
        Ok(Self { interface: interface.to_owned(), _program: program })
    }
}

impl fmt::Debug for SendMarks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SendMarks({})", self.interface)
    }
}
