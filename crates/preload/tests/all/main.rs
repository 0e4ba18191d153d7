//! Unmodified programs under the library, and the server, in one program: it is linked once.

mod database;
mod ethtool;
mod program;
mod release;
mod restart;
mod routes;
mod semantics;
mod server;
