//! What Linux counts of its connections, asked for when somebody wants to know.

use std::io;

use conntrack::{Event, Statistics, events, statistics};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_NETFILTER};

/// What it says; nothing where it has no connection tracking, or does not let this process ask.
pub fn look() -> Option<Statistics> {
    ask().ok()
}

fn ask() -> io::Result<Statistics> {
    let mut socket = Socket::new(NETLINK_NETFILTER)?;
    socket.bind_auto()?;
    socket.connect(&SocketAddr::new(0, 0))?;
    // What is asked is answered within the call that asks.
    socket.set_non_blocking(true)?;
    let mut found = Statistics::default();
    socket.send(&statistics::ask_fill(), 0)?;
    let (told, _) = socket.recv_from_full()?;
    refused(&told)?;
    found.add(&told);
    socket.send(&statistics::ask_refusals(), 0)?;
    // An answer for each CPU, several to a datagram.
    for _ in 0..MOST_DATAGRAMS {
        let (told, _) = socket.recv_from_full()?;
        refused(&told)?;
        found.add(&told);
        if events(&told).any(|event| event == Event::Done) {
            break;
        }
    }
    Ok(found)
}

fn refused(told: &[u8]) -> io::Result<()> {
    let error = events(told).find_map(|event| match event {
        Event::Answered(errno) if errno != 0 => Some(io::Error::from_raw_os_error(errno)),
        _ => None,
    });
    error.map_or(Ok(()), Err)
}

/// More than any machine's CPUs need.
const MOST_DATAGRAMS: usize = 4096;
