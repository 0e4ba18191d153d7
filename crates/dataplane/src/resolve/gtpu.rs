//! GTP-U that is decrypted is applications', at addresses that are configured so; and what applications send from there.

use wire::{Fragment, gtpu, protocol};

use super::Decision;
use super::question::Context;
use crate::model::{Action, Draft, Gather, LinuxWay, ToApplication};

/// The number of the service that a decrypted packet is for, if it is GTP-U of applications.
pub(super) fn service(context: &Context<'_>) -> Option<u16> {
    let is_gtpu = context.h.protocol == protocol::UDP
        && context.h.dst_port == gtpu::PORT
        && context.h.fragment == Fragment::Whole;
    is_gtpu.then(|| context.view.topology.gtpu.at(context.h.dst)).flatten()
}

/// Gathers a decrypted packet that is a fragment and may be GTP-U. The first fragment alone
/// says if it is, and of which tunnel, so the packet is put together.
pub(super) fn is_cut_gtpu(context: &Context<'_>) -> Option<Decision> {
    let may_be = context.h.fragment != Fragment::Whole
        && !context.knows_ports
        && context.h.protocol == protocol::UDP
        && context.view.topology.gtpu.at(context.h.dst).is_some();
    may_be.then_some(Decision::Gather(Gather::Gtpu))
}

/// True if a packet is from an application at its own port, by an address that may be this
/// host's too: neither that nor the way back is a reason to drop it.
pub(super) fn is_from_application(context: &Context<'_>, ifindex: u32) -> bool {
    context.view.topology.gtpu.is_source(context.h.src, ifindex)
}

/// Decision for GTP-U of applications. `linux` is the decision for messages that are for none of
/// them, where the address is this host's.
pub(super) fn of_applications(service: u16, linux: Option<Decision>) -> Decision {
    let linux = match linux {
        Some(Decision::Go(Draft { action: Action::ToLinux(way), .. })) => way,
        // Linux cannot be told of it.
        Some(other) => return other,
        None => LinuxWay::Private,
    };
    Decision::Go(Draft::of_flow(Action::Application(ToApplication { service, linux })))
}
