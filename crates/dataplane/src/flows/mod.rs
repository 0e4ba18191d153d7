//! The flow cache: plans of the flows seen last.

mod bundles;
mod cache;
pub(crate) mod hint;
pub(crate) mod plan;

pub(crate) use bundles::Bundles;
pub(crate) use cache::{FlowCache, Ingress, Key};
pub(crate) use hint::FlowHint;
