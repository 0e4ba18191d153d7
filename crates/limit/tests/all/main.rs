//! Buckets against a model of rational numbers, in simulated time, and threads against the contract. Under the model
//! checker the models of leases and homes alone.

#[cfg(not(loom))]
mod exact;
#[cfg(not(loom))]
mod homes;
#[cfg(not(loom))]
mod model;
#[cfg(loom)]
mod models;
#[cfg(not(loom))]
mod queues;
#[cfg(not(loom))]
mod shared;
#[cfg(not(loom))]
mod threads;
