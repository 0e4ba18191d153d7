//! The life of the process: its rights, its limits, its end.

pub mod confinement;
pub mod detour;
pub mod error;
pub mod examine;
pub mod limits;
pub mod log;
pub mod privileges;
pub mod reloads;
pub mod stop;
pub mod unprivileged;
pub mod watchdog;
