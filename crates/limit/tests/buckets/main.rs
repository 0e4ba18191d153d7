//! Buckets against a model of rational numbers, in simulated time, and threads against the contract.

mod exact;
mod homes;
mod model;
mod queues;
mod shared;
mod threads;
