//! The models against the contract of offload devices, and against plain models of their own.

mod common;
mod contract;
mod packet_contract;
mod packets;
mod reference;
mod tables;
