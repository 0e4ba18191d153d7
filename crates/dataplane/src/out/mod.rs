//! Packets on their way in and out: metadata, ports, what waits, and the only exit.

pub(crate) mod batch;
pub(crate) mod fragment;
pub(crate) mod handoff;
pub(crate) mod hold;
pub(crate) mod late;
pub(crate) mod neighbour;
pub(crate) mod out;
pub(crate) mod ports;
pub(crate) mod reports;

pub(crate) use out::Out;
pub(crate) use reports::Reports;
