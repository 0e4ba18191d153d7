//! Loads the program that leads packets past a daemon that hangs, and tells it that the daemon is alive.
//!
//! The program (`bpf/detour.bpf.c`) stands where the private interface sends what the daemon reads.

use core::fmt;

use aya::Ebpf;
use aya::maps::{Array, MapData};
use aya::programs::TcAttachType;

use crate::classifier;
use crate::error::{SteerError, chain};

/// The program on the private interface. While the daemon is not alive, what Linux sends there comes in there,
/// with a mark. Dropping it detaches it: packets then wait for the daemon.
pub struct Detour {
    interface: String,
    alive_until: Array<MapData, u64>,
    // Keeps the program loaded and attached.
    program: Ebpf,
}

impl Detour {
    /// Loads the program and attaches it to the private interface, before what is there. The daemon is alive
    /// until `until_ns`, see [`Detour::beat`]. Packets get the bits of `mark` in addition to theirs; rules
    /// must lead what has them by Linux's own routes. Without any, nothing is ever led past.
    ///
    /// # Errors
    ///
    /// [`SteerError`] names the step that failed, and a remedy. Nothing stays attached then.
    pub fn load_and_attach(interface: &str, mark: u32, until_ns: u64) -> Result<Self, SteerError> {
        let mut program = classifier::load(crate::DETOUR_OBJECT, PROGRAM, interface)?;
        let mut marks: Array<_, u32> = classifier::take_array(&mut program, MARK, interface)?;
        let set = marks.set(0, mark, 0);
        set.map_err(|error| classifier::table_error(interface, MARK, chain(&error)))?;
        let alive_until = classifier::take_array(&mut program, ALIVE_UNTIL, interface)?;
        let interface = interface.to_owned();
        let mut detour = Self { interface, alive_until, program };
        // The program is told that the daemon is alive before it asks.
        detour.beat(until_ns)?;
        let (program, at) = (&mut detour.program, TcAttachType::Egress);
        classifier::attach_to(program, PROGRAM, &detour.interface, at)?;
        Ok(detour)
    }

    /// The daemon is alive until this time: in ns of `CLOCK_MONOTONIC`, of the initial time namespace. One
    /// that has passed takes effect within a jiffy.
    ///
    /// # Errors
    ///
    /// [`SteerError::Table`] when the kernel refuses.
    pub fn beat(&mut self, until_ns: u64) -> Result<(), SteerError> {
        let set = self.alive_until.set(0, until_ns, 0);
        set.map_err(|error| classifier::table_error(&self.interface, ALIVE_UNTIL, chain(&error)))
    }
}

impl fmt::Debug for Detour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Detour({})", self.interface)
    }
}

const PROGRAM: &str = "detour";

/// The maps' names.
const MARK: &str = "detour_mark";
const ALIVE_UNTIL: &str = "alive_until";
