//! What is shown, and to whom: answers to commands, events, captures, traces.

pub mod answer;
pub mod breaks;
pub mod capture;
pub mod clock;
pub mod control;
pub mod events;
pub mod kernel_blocks;
pub mod limit_commands;
pub mod reader;
pub mod texts;
pub mod tunnel_state;
pub mod vici;
pub mod why;
