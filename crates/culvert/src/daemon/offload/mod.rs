//! Offload devices: which there are, what happens to them, and which SAs they have.

pub mod cryptodevs;
pub mod device;
pub mod device_events;
pub mod devices;
pub mod packet_devices;
pub mod placing;
pub mod rtl_simulation;
