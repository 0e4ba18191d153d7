//! Loads the program that says which CPU sends a packet, by which a TUN device chooses its queue.

use core::fmt;
use std::os::fd::{AsFd, BorrowedFd};

use aya::programs::{ProgramError, SocketFilter};
use aya::{Ebpf, EbpfLoader};

use crate::again::load_again;
use crate::classifier::load_error;
use crate::error::{SteerError, chain};

/// The loaded program (`bpf/sender.bpf.c`). An interface that has been given it keeps it when this is dropped.
pub struct SenderCpu {
    interface: String,
    program: Ebpf,
}

impl SenderCpu {
    /// Loads the program; for that interface, as errors tell.
    ///
    /// # Errors
    ///
    /// [`SteerError`] names the step that failed, and a remedy.
    pub fn load(interface: &str) -> Result<Self, SteerError> {
        let fail = |reason: String| load_error(interface, &reason);
        let mut program =
            EbpfLoader::new().load(&crate::SENDER_OBJECT.0).map_err(|error| fail(chain(&error)))?;
        filter(&mut program)
            .and_then(|filter| load_again(|| filter.load()).map_err(|error| chain(&error)))
            .map_err(fail)?;
        Ok(Self { interface: interface.to_owned(), program })
    }

    /// The program's descriptor.
    ///
    /// # Errors
    ///
    /// [`SteerError::Load`] if it is not loaded, which does not happen.
    pub fn fd(&mut self) -> Result<BorrowedFd<'_>, SteerError> {
        let interface = &self.interface;
        filter(&mut self.program)
            .and_then(|filter| filter.fd().map_err(|error| chain(&error)))
            .map(|fd| fd.as_fd())
            .map_err(|reason| load_error(interface, &reason))
    }
}

fn filter(object: &mut Ebpf) -> Result<&mut SocketFilter, String> {
    let program = object.program_mut(PROGRAM);
    let program = program.ok_or_else(|| format!("no program {PROGRAM} in the object"))?;
    program.try_into().map_err(|error: ProgramError| chain(&error))
}

impl fmt::Debug for SenderCpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SenderCpu({})", self.interface)
    }
}

const PROGRAM: &str = "sender_cpu";
