//! A child as a process, with the library where it is installed, and with stand-ins for it that misbehave.

mod lab;
mod library;
mod stand_in;
