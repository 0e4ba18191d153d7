//! One file for each group of commands.

pub mod bench;
mod collect;
pub mod docs;
pub mod doctor;
pub mod events;
pub mod exec;
pub mod guard;
mod live;
pub mod metrics;
pub mod requests;
pub mod show;
pub mod top;
pub mod why;
