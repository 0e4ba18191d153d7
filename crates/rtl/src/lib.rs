//! The gateway in hardware (`hdl/` in the repository) as software sees it.
//!
//! | | |
//! | --- | --- |
//! | [`Registers`] | what a driver has to offer: 32-bit reads and writes |
//! | [`registers`] | the register map |
//! | [`Tables`] | policies and SAs: put in, taken out and replaced while packets flow |
//! | `Simulation` (feature `simulation`) | the verilated gateway: packets in, packets out |
//! | `GatewayDevice` (feature `simulation`) | both as an `offload::Device` |
//!
//! [`Tables`] keeps what it wrote and never reads it back; a gateway belongs to one of them. Keys are
//! zeroised here when an entry goes, and overwritten in the gateway.
//!
//! ```no_run
//! # #[cfg(feature = "simulation")] {
//! use rtl::{Side, Simulation, Tables};
//!
//! let mut gateway = Simulation::new();
//! let tables = Tables::new(&mut gateway)?;
//! gateway.push(Side::Protected, &[0x45]);
//! gateway.tick(100);
//! assert_eq!(gateway.pull(Side::Unprotected), None);
//! # drop(tables);
//! # }
//! # Ok::<(), rtl::TableError>(())
//! ```

mod access;
mod chain;
#[cfg(feature = "simulation")]
mod convert;
#[cfg(feature = "simulation")]
mod device;
mod entries;
mod keys;
mod pearson;
#[cfg(feature = "simulation")]
mod queue;
#[cfg(feature = "simulation")]
mod ranks;
mod record;
pub mod registers;
mod sa;
mod selector;
#[cfg(feature = "simulation")]
mod serial;
#[cfg(feature = "simulation")]
mod simulation;
mod tables;

#[cfg(feature = "simulation")]
pub use device::GatewayDevice;
pub use entries::{Direction, PolicyIndex, SaUse, TableError};
#[cfg(feature = "simulation")]
pub use queue::SharedSimulation;
pub use registers::{Counters, Drop, Event, EventKind, Registers};
pub use sa::{Auth, Cipher, Limits, Sa, SaError, SaIndex};
pub use selector::{Action, Policy, Selector};
#[cfg(feature = "simulation")]
pub use simulation::{Side, Simulation, Traffic};
pub use tables::Tables;
