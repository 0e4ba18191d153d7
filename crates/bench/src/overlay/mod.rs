//! The bench `overlay`: packets in an overlay inside of IPsec, in turns with the same packets in IPsec alone.
//!
//! ```text
//!  local network ── gateway ══[ ESP, tunnel mode: packet ]══════════════════════ peer ── other networks
//!                           ══[ ESP, transport mode: GRE | packet ]═════════════
//!                           ══[ ESP, transport mode: UDP | VXLAN | Ethernet | packet ]══
//! ```

mod headers;

use core::net::Ipv4Addr;
use std::sync::Arc;

use crypto::Suite;
use dataplane::{FarEnd, Interface, OverlayLink, Overlays, Topology};
use forward::{Hop, RouteKind, SourceCheck, table};
use headers::HERE;

use crate::error::BenchError;
use crate::esp::{plan, repetition, row};
use crate::gateway::{Gateway, Path, Plan};
use crate::options::{Direction, Options};
use crate::pin::pinned;
use crate::row::Row;
use crate::rows::{Rows, label};
use crate::shape::{Overlay, Shape};
use crate::timing::{Repetitions, fill_gain};
use crate::traffic::{Choice, Traffic};
use crate::world;

/// The cases; the others' gain is over the first.
const CASES: [(&str, Option<Overlay>); 3] =
    [("tunnel", None), ("GRE in ESP", Some(Overlay::Gre)), ("VXLAN in ESP", Some(Overlay::Vxlan))];

/// The bench `overlay`.
///
/// # Errors
/// [`BenchError`]; what was measured before is lost then.
pub(crate) fn overlay(options: &Options<'_>) -> Result<Vec<Row>, BenchError> {
    options.check()?;
    if let Some(size) = options.sizes.iter().copied().find(|size| *size > LONGEST) {
        let allowed = "at most 1400 bytes: there are headers of VXLAN and ESP";
        return Err(BenchError::Option { what: "size", given: size, allowed });
    }
    pinned(options.cpu, || {
        let mut rows = Rows::new(options, options.cases() * CASES.len());
        for suite in &options.suites {
            for direction in &options.directions {
                for size in &options.sizes {
                    rows.begin(&label(*suite, *direction, *size));
                    rows.extend(in_turns(options, *suite, *direction, *size)?);
                }
            }
        }
        Ok(rows.into_vec())
    })
}

fn in_turns(
    options: &Options<'_>,
    suite: Suite,
    direction: Direction,
    size: usize,
) -> Result<Vec<Row>, BenchError> {
    let gateway = |(case, overlay): (&'static str, Option<Overlay>)| {
        let shape = Shape { overlay, ..Shape::default() };
        let traffic = Traffic::new(direction, size, 1, options.flows, Choice::InTurn(0));
        let mut gateway = gateway(plan(options, suite, Path::Esp, traffic.shaped(shape)))?;
        gateway.prove()?;
        Ok((case, gateway, Repetitions::default()))
    };
    let mut gateways = CASES.into_iter().map(gateway).collect::<Result<Vec<_>, BenchError>>()?;
    for _ in 0..options.repeat {
        for (_, gateway, all) in &mut gateways {
            all.0.push(repetition(gateway, options)?);
        }
    }
    let first = gateways.first().map(|(.., all)| all.clone()).unwrap_or_default();
    let rows = gateways.iter().enumerate().map(|(at, (case, gateway, all))| {
        let mut row = row(options, "overlay", gateway);
        all.fill(&mut row, options.allocations.is_some());
        if at > 0 {
            fill_gain(&mut row, all.rates().zip(first.rates()));
        }
        row.case = Some(case);
        row
    });
    Ok(rows.collect())
}

/// A gateway whose routes lead through the overlay of its traffic's shape, if there is one.
pub(crate) fn gateway(plan: Plan<'_>) -> Result<Gateway, BenchError> {
    let shape = plan.traffic.shape;
    let gateway = Gateway::new(plan)?;
    if let Some(overlay) = shape.overlay {
        gateway.tables.topology.store(Arc::new(overlay.topology(shape)?));
    }
    Ok(gateway)
}

impl Overlay {
    /// The world, with an interface that leads to the peer.
    fn topology(self, shape: Shape) -> Result<Topology, BenchError> {
        let through = vec![Hop { ifindex: INTERFACE, gateway: None, weight: 1 }];
        let remote =
            world::route(table::MAIN, world::REMOTE, REMOTE_LEN, RouteKind::Unicast, through);
        let mut topology = world::topology(shape, [remote]);
        let interface = Interface {
            port: None,
            mac: HERE,
            mtu: LONGEST as u32,
            up: true,
            back: None,
            binding: None,
            source_check: SourceCheck::Strict,
            addr4: Some(ADDRESS),
            addr6: None,
        };
        topology.interfaces.insert(INTERFACE, interface);
        let (here, there) = world::ends(Direction::Outbound, 0);
        let encap = self.encap(Direction::Outbound)?;
        let far_end = FarEnd { ifindex: INTERFACE, hop: None, encap };
        let link = OverlayLink {
            ifindex: INTERFACE,
            id: self.id(),
            local: Some(here.into()),
            remote: Some(there.into()),
            mac: (self == Overlay::Vxlan).then_some(HERE),
            stations: None,
            has_checksum: (self == Overlay::Gre).then_some(false),
            takes_zero_checksum6: false,
            session: None,
        };
        topology.overlays = Overlays::new([Some(far_end)], [Some(link)]);
        Ok(topology)
    }
}

/// The longest packet inside, in bytes.
const LONGEST: usize = 1400;
/// Index of the overlay's interface.
const INTERFACE: u32 = 6;
const ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 83, 0, 1);
/// Prefix length of [`world::REMOTE`].
const REMOTE_LEN: u8 = 9;
