//! The flow cache: plans of the flows seen last.

mod cache;
pub(crate) mod plan;

pub(crate) use cache::FlowCache;
