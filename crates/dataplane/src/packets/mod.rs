//! Packets on their way in and out: metadata, ports, what waits, and the only exit.

pub(crate) mod fragment;
pub(crate) mod guesses;
pub(crate) mod handoff;
pub(crate) mod hold;
pub(crate) mod late;
pub(crate) mod meta;
pub(crate) mod neighbour;
pub(crate) mod origin;
pub(crate) mod out;
pub(crate) mod outers;
pub(crate) mod ports;
pub(crate) mod reports;

pub(crate) use meta::{Meta, Metas, Source};
pub(crate) use neighbour::Towards;
pub(crate) use origin::Origin;
pub(crate) use out::Out;
pub(crate) use outers::Outers;
pub use ports::PortKind;
pub(crate) use reports::Reports;
