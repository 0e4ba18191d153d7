//! `culvert capture`, `culvert trace` and `culvert flows`: taps in the workers, and who reads them.
//!
//! The control thread finds out what is meant by names, and gives each worker a recorder. A capture's packets are
//! written by a thread of its own, to the client that has asked, and flows are counted by one; packets of a trace wait
//! for the client to ask again.

mod flows;
mod slots;
mod stream;
mod text;
mod trace;
mod traces;

use std::collections::HashMap;
use std::time::Duration;

use dataplane::{Drops, Filter, FlowFilter, Place, PolicyFilter, TapConfig, TapReader};
use outcome::DropReason;
use policy::Prefix;

use report::{CaptureRequest, FlowsRequest, Network, PacketFilter, Tap};
pub use slots::Slots;
pub use stream::Stream;
pub use traces::Traces;

use self::flows::Counting;
use crate::shows::Parts;

/// Begins a capture.
pub(crate) fn capture(
    parts: Parts<'_>,
    slots: &Slots,
    request: &CaptureRequest,
) -> Result<Stream, String> {
    let slot = slots.take()?;
    let config = TapConfig {
        filter: filter(parts, &request.filter)?,
        snap_len: request.snap_len as usize,
        limit: request.count,
        explains: false,
    };
    let until = request.seconds.map(|s| parts.now.at + Duration::from_secs(s));
    let reader = parts.crew.workers.tap(&config);
    let applications = parts.crew.recognition.names(parts.crew.workers.now_ns());
    let names = (interface_names(parts), applications);
    Ok(Stream::new(reader, slot, names, request, until))
}

/// Begins to count flows.
pub(crate) fn flows(
    parts: Parts<'_>,
    slots: &Slots,
    request: &FlowsRequest,
) -> Result<Counting, String> {
    let slot = slots.take()?;
    let filter = filter(parts, &request.filter)?;
    let config = TapConfig { filter, snap_len: flows::SNAP_LEN, limit: None, explains: false };
    let names = parts.crew.recognition.names(parts.crew.workers.now_ns());
    let own = parts.crew.paths.own_flows();
    Ok(Counting::new((parts.crew.workers.tap(&config), slot), (names, own), request))
}

/// A tap that explains.
fn explaining_tap(
    parts: Parts<'_>,
    wanted: &PacketFilter,
    count: u64,
) -> Result<TapReader, String> {
    let filter = filter(parts, wanted)?;
    let limit = Some(count);
    Ok(parts.crew.workers.tap(&TapConfig { filter, snap_len: SNAP_LEN, limit, explains: true }))
}

/// The names of interfaces; 0 is the private one, as in records.
fn interface_names(parts: Parts<'_>) -> HashMap<u32, String> {
    let links = parts.linux.observer.snapshot().links().map(|link| (link.index, link.name.clone()));
    links.chain([(0, parts.config.tun.interface.clone())]).collect()
}

/// Filter for workers, by the request.
fn filter(parts: Parts<'_>, asked: &PacketFilter) -> Result<Filter, String> {
    let index = |name: &String| {
        let link = parts.linux.observer.snapshot().link_by_name(name).map(|link| link.index);
        match link {
            Some(index) if index == parts.linux.private.ifindex() => Ok(0),
            Some(index) => Ok(index),
            None => Err(parts.linux.no_such_interface("--interface", name)),
        }
    };
    let interfaces = asked.interfaces.iter().map(index).collect::<Result<_, _>>()?;
    let policy = match asked.policy {
        Some(index) => {
            let policy = parts.sa.source.databases().policy(index).ok_or_else(|| {
                format!(
                    "--policy {index}: there is no such policy; `culvert policy` lists them (INDEX)"
                )
            })?;
            let reqids = policy.config.templates.iter().map(|template| template.reqid);
            Some(PolicyFilter { index, reqids: reqids.filter(|reqid| *reqid != 0).collect() })
        }
        None => None,
    };
    let place = match &asked.tap {
        Some(name) => {
            let place = Place::ALL.into_iter().find(|place| Tap::from(place.name()) == *name);
            Some(place.ok_or_else(|| format!("--tap {name}: wire, plain or frame"))?)
        }
        None => None,
    };
    let drops = match &asked.reason {
        Some(name) => {
            let reason = DropReason::ALL.iter().find(|reason| reason.name() == name);
            let reason = reason.ok_or_else(|| format!("--reason {name}: there is no such"))?;
            Some(Drops::For(*reason))
        }
        None => asked.drops.then_some(Drops::Any),
    };
    let prefix =
        |network: Option<Network>| network.map(|Network { addr, len }| Prefix { addr, len });
    Ok(Filter {
        place,
        is_outbound: asked.is_outbound,
        interfaces,
        spi: asked.spi,
        reqid: asked.reqid,
        policy,
        flow: FlowFilter {
            src: prefix(asked.src),
            dst: prefix(asked.dst),
            host: prefix(asked.host),
            protocol: asked.protocol,
            src_port: asked.src_port,
            dst_port: asked.dst_port,
            port: asked.port,
        },
        drops,
    })
}

/// Bytes of a packet that a trace keeps: all.
const SNAP_LEN: usize = 65535;
