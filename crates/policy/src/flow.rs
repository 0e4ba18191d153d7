//! A packet as the databases see it: its headers, and what Linux knows beside them.

use wire::{Fragment, Headers};

use crate::counters::WorkerIndex;
use crate::selector::{PortMask, Selector};

/// Marks and interface ids that travel beside a packet, and that look-ups compare.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Marks {
    /// The packet's mark, 0 without one.
    pub mark: u32,
    /// The XFRM interface id that the packet belongs to, 0 for packets of ordinary ports.
    pub if_id: u32,
}

impl Marks {
    /// A mark, and no XFRM interface.
    pub const fn of_mark(mark: u32) -> Marks {
        Marks { mark, if_id: 0 }
    }

    /// An XFRM interface, and no mark.
    pub const fn of_interface(if_id: u32) -> Marks {
        Marks { mark: 0, if_id }
    }
}

/// Key of a policy look-up: a packet's headers, and what travels beside the packet.
#[derive(Clone, Copy, Debug)]
pub struct Flow<'h> {
    /// The packet's own headers (after decryption, or before encryption).
    pub headers: &'h Headers,
    /// Index of the interface that the packet's route leads to: the egress interface of what leaves
    /// or is forwarded, the loopback for what is for this host; 0 where it is not known.
    ///
    /// So Linux has it in every direction (`flowi_oif` in `decode_session4`, `decode_session6`), the
    /// checks of what arrives included: a policy of direction *in* that names an Ethernet interface
    /// is for no packet.
    pub ifindex: u32,
    /// The packet's mark, 0 without one.
    pub mark: u32,
    /// The XFRM interface id that the packet belongs to, 0 for packets of ordinary ports.
    pub if_id: u32,
    /// The worker whose packet it is, which may have SAs of its own (RFC 9611); none for packets that
    /// are of no worker, which leave by SAs that are for all.
    pub worker: Option<WorkerIndex>,
}

impl<'h> Flow<'h> {
    /// A packet without mark and XFRM interface.
    pub const fn new(headers: &'h Headers, ifindex: u32) -> Flow<'h> {
        Flow { headers, ifindex, mark: 0, if_id: 0, worker: None }
    }

    /// A packet with what travels beside it.
    pub const fn marked(headers: &'h Headers, ifindex: u32, marks: Marks) -> Flow<'h> {
        Flow { headers, ifindex, mark: marks.mark, if_id: marks.if_id, worker: None }
    }

    /// This packet as seen by a worker.
    #[must_use]
    pub const fn of(self, worker: Option<WorkerIndex>) -> Flow<'h> {
        Flow { worker, ..self }
    }

    /// True if the selector matches, its interface included.
    ///
    /// `unknown` is the answer where that cannot be known: the selector names an interface and the
    /// packet's is not known, or it names ports and the packet is a fragment other than the first,
    /// which has none (RFC 4301 §7: such a fragment must not slip past a policy).
    pub(crate) fn is_selected(&self, selector: &Selector, unknown: bool) -> bool {
        let interface = match (selector.ifindex, self.ifindex) {
            (0, _) => true,
            (_, 0) => unknown,
            (wanted, actual) => wanted == actual,
        };
        if selector.names_ports() && self.headers.fragment == Fragment::Later {
            let any_port = PortMask::default();
            let portless = Selector { src_port: any_port, dst_port: any_port, ..*selector };
            return interface && unknown && portless.matches(self.headers);
        }
        interface && selector.matches(self.headers)
    }
}
