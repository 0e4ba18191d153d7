//! Packets whose rule sends them in copies, over two tunnels to one far end, or with parity.
//!
//! Policy is asked about the packet itself, for both tunnels: each has to protect it. What is made of it is then
//! judged as any packet of this host on a tunnel interface.

use core::net::IpAddr;

use esp::Mode;
use forward::IcmpCause;
use outcome::DropReason;
use policy::{Marks, Outbound};
use wire::{Fragment, Headers, ipv4, ipv6, protocol};

use super::decision::Policy;
use super::fit::Fit;
use super::lookup::lookup;
use super::mss::{clamps_mss, mss_of_syn};
use super::question::Context;
use super::steer::steered;
use super::ways::{route, to_port};
use super::{Decision, Question};
use crate::model::{Action, Draft, LOOPBACK, Notes, Origin, Replicate, Step, ip_len};
use crate::tables::replication::{Beside, CopyWay, Replication};

/// Decision about a packet that a rule sends in copies, where policy protects it on its first way. `None`: it goes
/// once, as its rule has none, or its second way does not take it.
pub(super) fn replicated<N: Notes>(
    question: &mut Question<'_, N>,
    origin: Origin,
    answer: &Policy,
) -> Option<Decision> {
    let (view, h) = (question.view, question.h);
    if !view.steering.has_replications()
        || !matches!(answer, Policy::Protect(_) | Policy::ProtectAll(_))
    {
        return None;
    }
    let set = steered(question, origin, &lookup(view, h, origin))?.copies?;
    let Replication { way: first, beside, .. } = view.steering.replication(set)?;
    if let Beside::Copy(second) = beside {
        let marks = view.binding(second.ifindex)?.outbound(origin.marks());
        let flow = view.flow(h, origin.iif(), marks, question.owner);
        match view.reader.outbound(&flow) {
            Outbound::Protect(..) | Outbound::ProtectAll(..) => {}
            _ => return None,
        }
    }
    let longest = longest_on(question, first)?;
    let longest = match beside {
        Beside::Copy(second) => longest.min(longest_on(question, second)?),
        // Parity is as long as the longest of its packets, and has more in front of it.
        Beside::Parity(_) => longest.checked_sub(preof::PARITY_LEN)?,
    };
    let is_hop = origin.is_hop();
    if is_hop && h.ttl <= 1 {
        let cause = IcmpCause::TimeExceeded;
        return Some(Decision::Error(cause, DropReason::TtlExceeded, origin));
    }
    let cut = match usize::from(h.total_len) <= longest {
        true => None,
        false => match Fit::of_too_long(Mode::Tunnel, h, longest) {
            Fit::TooBig { mtu } => {
                let cause = IcmpCause::TooBig { mtu: mtu as u32 };
                return Some(Decision::Error(cause, DropReason::OutTooBig, origin));
            }
            Fit::CutBefore { mtu } => Some(mtu),
            // Copies are not cut themselves.
            Fit::Whole | Fit::CutAfter => return None,
        },
    };
    question.tell(|| match beside {
        Beside::Copy(second) => Step::Copied { path: second.name.clone() },
        Beside::Parity(plan) => Step::WithParity { of: plan.of },
    });
    let clamps_mss = clamps_mss(question);
    let generation = view.generation;
    let longest = ip_len(longest);
    Some(Decision::Go(Draft {
        action: Action::Replicate(Replicate { set, generation, longest, is_hop, clamps_mss }),
        to: None,
        cut,
        mss: mss_of_syn(question, || Some(longest.into())),
        is_for_flow: true,
    }))
}

/// The longest packet that fits a way with the headers of a copy. `None` if not one SA alone protects copies there.
fn longest_on(context: &Context<'_>, way: &CopyWay) -> Option<usize> {
    let view = context.view;
    let h = outer_headers(way);
    let marks = view.binding(way.ifindex)?.outbound(Marks::default());
    let flow = view.flow(&h, LOOPBACK, marks, context.owner);
    let Outbound::Protect(_, sa) = view.reader.outbound(&flow) else { return None };
    let sa = view.reader.sa(sa)?;
    let params = &sa.config.params;
    let (dst, src) = match params.mode {
        Mode::Transport => (h.dst, h.src),
        Mode::Tunnel | Mode::Iptfs => (params.dst, params.src),
    };
    let to = to_port(view, route(view, dst, src, LOOPBACK), (dst, src)).ok()?;
    let mtu = view.topology.interfaces.get(&way.ifindex)?.mtu as usize;
    sa.esp.max_inner_len(to.mtu).min(mtu).checked_sub(preof::overhead(way.dst))
}

/// Headers of copies on a way, as policy sees them.
fn outer_headers(way: &CopyWay) -> Headers {
    let header_len = match way.dst {
        IpAddr::V4(_) => ipv4::MIN_HEADER_LEN,
        IpAddr::V6(_) => ipv6::HEADER_LEN,
    };
    Headers {
        src: way.src,
        dst: way.dst,
        protocol: protocol::UDP,
        ttl: 64,
        traffic_class: 0,
        dont_fragment: true,
        fragment: Fragment::Whole,
        header_len: header_len as u16,
        total_len: ipv6::MIN_MTU,
        src_port: 0,
        dst_port: preof::PORT,
    }
}
