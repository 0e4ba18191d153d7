//! Sockets and interfaces of Linux, in one program: it is linked once.

mod common;
mod frames;
mod tun;
mod tunnels;
