//! A port that is open: its sockets are the workers', its program is here.

use std::sync::Arc;

use io::{PortCounters, XskTransfer};
use steer::Attached;
use steer::device::Finding;

use super::program::Program;
use crate::heartbeat::Heartbeat;

/// An open port, whose sockets the workers have.
pub struct Working {
    pub(super) ifindex: u32,
    pub(super) steer: Box<dyn Program>,
    /// `None` until its program is attached: its frames pass to Linux.
    pub(super) attached: Option<Attached>,
    pub(super) heartbeat: Heartbeat,
    pub(super) transfer: Transfer,
    pub(super) queues: u32,
    /// Frames that each queue keeps ready, if it is one of AF_XDP.
    pub(super) ready: Option<u32>,
    /// One for each queue.
    pub(super) counters: Vec<Arc<PortCounters>>,
    /// A finding that matters only where VLANs are used.
    pub(super) vlan_trouble: Option<Finding>,
    /// Why it is of its kind, where the configuration leaves that open.
    pub(super) chosen: Option<String>,
    /// The interface is down: sockets and program stay, and carry again when it is up.
    pub(super) is_down: bool,
}

impl Working {
    /// A port whose program is not attached yet.
    pub fn new(
        ifindex: u32,
        steer: Box<dyn Program>,
        (transfer, ready): (Transfer, Option<u32>),
        counters: Vec<Arc<PortCounters>>,
    ) -> Working {
        Working {
            ifindex,
            steer,
            attached: None,
            heartbeat: Heartbeat::default(),
            transfer,
            queues: counters.len() as u32,
            ready,
            counters,
            vlan_trouble: None,
            chosen: None,
            is_down: false,
        }
    }

    /// True if its sockets outlast their interface being down. Packet sockets get an error, which
    /// ends them.
    pub(super) fn outlasts_down(&self) -> bool {
        matches!(self.transfer, Transfer::Xdp(_))
    }
}

/// How frames come and go.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Transfer {
    Xdp(XskTransfer),
    /// By packet sockets, as super-packets.
    Packet,
}

impl Transfer {
    pub(super) const fn kind(self) -> &'static str {
        match self {
            Transfer::Xdp(_) => "af-xdp",
            Transfer::Packet => "packet",
        }
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            Transfer::Xdp(XskTransfer::Copy) => "copy",
            Transfer::Xdp(XskTransfer::ZeroCopy) => "zero-copy",
            Transfer::Packet => "super-packets",
        }
    }
}
