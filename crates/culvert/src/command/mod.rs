//! One file for each group of commands.

pub mod app;
pub mod capture;
pub mod check;
mod collect;
mod connections;
pub mod device;
pub mod docs;
pub mod events;
pub mod exec;
pub mod extcap;
pub mod flows;
pub mod guard;
mod http;
mod keys;
pub mod limit;
pub mod metrics;
pub mod nat;
mod output;
pub mod path;
pub mod reload;
pub mod show;
pub mod steer;
pub mod top;
pub mod trace;
pub mod tunnels;
pub mod web;
pub mod why;
