//! Path selection: another path than the one that the routes lead to.
//!
//! # What may leave in clear by an uplink
//!
//! Without rules a packet leaves in clear if no policy protects it and the routes lead out of a port. A rule must not widen
//! that by itself. So a packet that a rule leads to an uplink leaves there only if
//!
//! - an outbound policy says that it may pass in clear (bypass: an `allow` without templates), and it is not for a guarded prefix that
//!   the routes lead into a tunnel, or
//! - no policy is about it, and it is not guarded, and the routes lead out of a port as well: it would leave in clear anyway.
//!
//! Policies are asked as for any packet that leaves, without the `if_id` of a tunnel interface, and by the addresses that it
//! has arrived with. So what the routes lead into a tunnel stays protected, unless a policy names it as one that need not be.
//! All other packets are dropped (`steer-cleartext`): on the tunnel in their place nobody would notice the wrong rule.

use std::sync::Arc;

use forward::RouteResult;
use policy::{Flow, Outbound};
use wire::Headers;

use super::lookup::lookup;
use super::question::Context;
use crate::model::Origin;
use crate::tables::steering::{ClearExit, SteerStamp, Steered};
use crate::tables::traffic::Traffic;
use crate::view::View;

/// An uplink by which Linux is to send a packet.
pub(super) struct ForLinux<'v> {
    /// Name of the rule that says so. `None`: the translation of the connection does.
    pub(super) rule: Option<&'v Arc<str>>,
    /// Name of the path.
    pub(super) path: &'v Arc<str>,
    /// Index of the uplink.
    pub(super) ifindex: u32,
    /// Way out of the uplink.
    pub(super) clear: &'v ClearExit,
}

/// The answer of the rules about a packet that leaves, and that the routes lead to `found`. `None`: the routes decide.
///
/// A packet that Linux sends on a tunnel interface has its path already, and what workers make follows the routes. A
/// connection that Linux translates stays with its uplink.
pub(super) fn steered<'v>(
    context: &Context<'v>,
    origin: Origin,
    found: &RouteResult,
) -> Option<Steered<'v>> {
    if context.nat.is_translated() {
        is_asked(context.view, found)?;
        let exit = context.view.steering.uplink_of(context.h.src)?;
        return Some(Steered {
            rule: None,
            exit: Some(exit),
            copies: None,
            stamp: SteerStamp::Free,
        });
    }
    let steered = by_rules(context, origin, found)?;
    match steered.exit.and_then(|exit| exit.clear.as_ref()) {
        // Its translation would begin in the middle of it, and Linux alone can begin one.
        Some(ClearExit { is_translated: true, .. }) => None,
        Some(clear) if !may_take_uplinks(origin) || !is_of_family(clear, context.h) => None,
        _ => Some(steered),
    }
}

/// The uplink by which a packet is to leave that Linux has to see, as it may translate it. `None`: as the routes lead.
pub(super) fn uplink_for_linux<'v>(context: &Context<'v>, origin: Origin) -> Option<ForLinux<'v>> {
    let Context { view, h, nat, .. } = *context;
    if view.steering.is_empty() || !matches!(origin, Origin::Port { is_barred: false, .. }) {
        return None;
    }
    let found = lookup(view, h, origin);
    let (is_known, translated) = nat.known_source();
    // An answer to what Linux has translated just now, of which no news has come: rules are about where Linux sends it then.
    if !is_known && view.steering.uplink_of(h.dst).is_some() {
        return None;
    }
    let steered = match translated {
        Some(src) => {
            is_asked(view, &found)?;
            Steered {
                rule: None,
                exit: view.steering.uplink_of(src),
                copies: None,
                stamp: SteerStamp::Free,
            }
        }
        None => by_rules(context, origin, &found)?,
    };
    let exit = steered.exit?;
    let clear = exit.clear.as_ref()?;
    // The connection is there, and not translated: it has begun elsewhere.
    let is_too_late = clear.is_translated && is_known && translated.is_none();
    (!is_too_late && is_of_family(clear, h)).then_some(ForLinux {
        rule: steered.rule,
        path: &exit.name,
        ifindex: exit.ifindex,
        clear,
    })
}

/// The answer of the first rule about a packet.
fn by_rules<'v>(context: &Context<'v>, origin: Origin, found: &RouteResult) -> Option<Steered<'v>> {
    let Context { view, h, .. } = *context;
    is_asked(view, found)?;
    let (ifindex, mark, is_in) = match origin {
        Origin::Port { ifindex, mark, .. } => (ifindex, mark, false),
        Origin::Decrypted { ifindex, mark } => (ifindex, mark, true),
        Origin::Linux { mark } => (0, mark, false),
        Origin::Tunnel { .. }
        | Origin::Stepped { .. }
        | Origin::Worker { .. }
        | Origin::Probe { .. }
        | Origin::OnLink { .. } => return None,
    };
    let application = view.application(h);
    let steered =
        view.steering.steer(&Traffic { h, ifindex, mark, is_in, sa: None, application })?;
    context.steered.set(view.steering.both(context.steered.get(), steered.stamp));
    Some(steered)
}

/// `Some` if the routes lead to a path.
fn is_asked(view: &View, found: &RouteResult) -> Option<()> {
    let RouteResult::Unicast { ifindex, .. } = found else { return None };
    view.steering.is_path(*ifindex).then_some(())
}

/// True if an uplink takes packets of this family: that of its path, as nothing is known of the other.
fn is_of_family(clear: &ClearExit, h: &Headers) -> bool {
    clear.addresses.first().is_some_and(|own| own.is_ipv4() == h.src.is_ipv4())
}

/// Programs of this host have an address of their route's; Linux's routes are theirs.
const fn may_take_uplinks(origin: Origin) -> bool {
    matches!(origin, Origin::Port { .. } | Origin::Decrypted { .. })
}

/// True if a packet may leave in clear by an uplink, see above.
pub(super) fn may_leave_in_clear(context: &Context<'_>, origin: Origin) -> bool {
    let view = context.view;
    let arrived = context.nat.arrived(context.h);
    let found = view.topology.fib.lookup(arrived.dst, arrived.src, 0, origin.iif());
    let leads_in_clear = matches!(found, RouteResult::Unicast { ifindex, .. }
    if view.topology.interfaces.get(&ifindex).is_some_and(|interface| {
        interface.port.is_some() && interface.binding.is_none()
    }));
    let is_guarded = view.topology.guarded.iter().any(|prefix| prefix.contains(arrived.dst));
    match view.reader.outbound(&flow_of(context, &arrived, origin)) {
        Outbound::Bypass(_) => leads_in_clear || !is_guarded,
        Outbound::NoPolicy => leads_in_clear && !is_guarded,
        Outbound::DefaultBlock
        | Outbound::Leave(_)
        | Outbound::Block(_)
        | Outbound::Unsupported(_)
        | Outbound::NoState(..)
        | Outbound::Protect(..)
        | Outbound::ProtectAll(..) => false,
    }
}

/// A packet as policies are asked about it here.
pub(super) fn flow_of<'h>(context: &Context<'_>, arrived: &'h Headers, origin: Origin) -> Flow<'h> {
    context.view.flow(arrived, origin.iif(), origin.marks(), context.owner)
}
