//! Linux's counts of its connections, asked for when somebody wants to know.

use conntrack::{Statistics, statistics};
use netlink::{Connection, Fault, Protocol};

/// Linux's statistics. `None` where it has no connection tracking, or does not let this process
/// ask.
pub fn look() -> Option<Statistics> {
    ask().ok()
}

fn ask() -> Result<Statistics, Fault> {
    let mut netfilter = Connection::open(Protocol::Netfilter)?;
    // What is asked is answered within the call that asks.
    netfilter.set_non_blocking()?;
    let mut found = Statistics::default();
    found.add_fill(&netfilter.ask(statistics::ask_fill())?.unwrap_or_default());
    netfilter.dump(statistics::ask_refusals(), |_, cpu| found.add_refusals(cpu))?;
    Ok(found)
}
