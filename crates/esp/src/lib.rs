//! One SA's packet work: sequence numbers, replay window, encapsulation, decapsulation.
#![forbid(unsafe_code)]

mod cells;
mod params;

pub use cells::{CellMemory, Cells};
pub use params::{Mode, SaFlags, SaParams, UdpEncap};
