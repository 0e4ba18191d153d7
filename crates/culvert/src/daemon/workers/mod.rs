//! Workers and what they are given: ports, sockets, limits, buffers.

pub mod engines;
pub mod esp_sockets;
pub mod heartbeat;
pub mod plan;
pub mod ports;
pub mod rate_limits;
pub mod set;
pub mod steering;

pub use self::set::{ChangeError, Death, Kit, Workers, WorkersError};
