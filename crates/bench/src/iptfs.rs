//! The bench `iptfs`: small packets in payloads (RFC 9347), in turns with the same packets each in ESP of its own.

use std::collections::HashSet;

use crypto::Suite;
use io::{HEADROOM, Packet};
use iptfs::{Collected, Deaggregator, Filling, Header};
use wire::Span;
use wire::ethernet::HEADER_LEN;

use crate::error::BenchError;
use crate::esp::{plan, repetition_by, row};
use crate::gateway::{Gateway, Path, open, seal};
use crate::options::{Direction, Options};
use crate::pin::pinned;
use crate::row::Row;
use crate::rows::{Rows, label};
use crate::shape::Shape;
use crate::timing::{Repetitions, fill_gain};
use crate::traffic::{Choice, Traffic};
use crate::world::MTU;

/// The cases; the others' gain is over the first.
const CASES: [&str; 2] = ["tunnel", "iptfs"];

/// The bench `iptfs`.
///
/// # Errors
/// [`BenchError`]; what was measured before is lost then.
pub fn iptfs(options: &Options<'_>) -> Result<Vec<Row>, BenchError> {
    options.check()?;
    pinned(options.cpu, || {
        let mut rows = Rows::new(options, options.cases() * CASES.len());
        for suite in &options.suites {
            for direction in &options.directions {
                for size in &options.sizes {
                    rows.begin(&label(*suite, *direction, *size));
                    rows.extend(both(options, *suite, *direction, *size)?);
                }
            }
        }
        Ok(rows.into_vec())
    })
}

fn both(
    options: &Options<'_>,
    suite: Suite,
    direction: Direction,
    size: usize,
) -> Result<Vec<Row>, BenchError> {
    let gateway = |case: &'static str| {
        let traffic = Traffic::new(direction, size, 1, options.flows, Choice::InTurn(0));
        let traffic = traffic.shaped(Shape { iptfs: case == "iptfs", ..Shape::default() });
        let mut gateway = Gateway::new(plan(options, suite, Path::Esp, traffic))?;
        gateway.prove_payloads()?;
        Ok((case, gateway, Repetitions::default()))
    };
    let mut gateways = CASES.into_iter().map(gateway).collect::<Result<Vec<_>, BenchError>>()?;
    for _ in 0..options.repeat {
        for (_, gateway, all) in &mut gateways {
            all.0.push(repetition_by(gateway, options, Gateway::renew)?);
        }
    }
    let first = gateways.first().map(|(.., all)| all.clone()).unwrap_or_default();
    let rows = gateways.iter().map(|(case, gateway, all)| {
        let mut row = row(options, "iptfs", gateway);
        all.fill(&mut row, options.allocations.is_some());
        if *case != CASES[0] {
            fill_gain(&mut row, all.rates().zip(first.rates()));
        }
        row.case = Some(case);
        row
    });
    Ok(rows.collect())
}

impl Gateway {
    /// Takes what has come out, and goes on with as many packets as there were.
    fn renew(&mut self) -> Result<(), BenchError> {
        let packets = self.packets();
        self.collect();
        self.restock(packets);
        Ok(())
    }

    /// One pass that shows that whatever goes in comes out: as ever, or in payloads.
    fn prove_payloads(&mut self) -> Result<(), BenchError> {
        if !self.traffic.shape.iptfs {
            return self.prove();
        }
        let packets = self.packets();
        self.load()?;
        self.run();
        self.collect();
        let expected: HashSet<Vec<u8>> =
            (0..self.traffic.flows).filter_map(|flow| self.traffic.forwarded(flow)).collect();
        let found = match self.traffic.direction {
            Direction::Inbound => {
                let inner = self.stock.iter().map(|packet| packet.data().get(HEADER_LEN..));
                inner.map(|packet| packet.unwrap_or_default().to_vec()).collect()
            }
            Direction::Outbound => self.unpacked(),
        };
        let is_right = found.len() == packets && found.iter().all(|one| expected.contains(one));
        self.restock(packets);
        is_right.then_some(()).ok_or(BenchError::Wrong { suite: self.suite })
    }

    /// The packets in payloads that have come out.
    fn unpacked(&mut self) -> Vec<Vec<u8>> {
        let (mut pieces, mut packets) = (Deaggregator::default(), Collected::default());
        for (number, packet) in (1..).zip(&mut self.stock) {
            let start = packet.span.start + HEADER_LEN;
            let ip = Span { start, len: packet.span.len.saturating_sub(HEADER_LEN) };
            let sa = self.peers.first();
            let inside = sa.and_then(|sa| open(sa, &mut self.engine, packet, ip, 0));
            let payload = inside.and_then(|span| packet.frame.bytes().get(span.range()));
            pieces.payload(number, payload.unwrap_or_default(), &mut packets);
        }
        packets.packets
    }

    /// Writes packets as their peer sends them in payloads: fewer outer ones are in the stock then, whose spans are the
    /// IP packets.
    pub(crate) fn write_payloads(&mut self) -> Result<(), BenchError> {
        let wrong = || BenchError::Wrong { suite: self.suite };
        let sa = self.peers.first().ok_or_else(wrong)?;
        let flow = |packet: &Packet| self.flows.get(packet.frame.index() as usize).copied();
        let flows: Vec<u32> = self.stock.iter().filter_map(flow).collect();
        let size = self.traffic.size;
        let len = sa.max_inner_len(MTU as usize);
        let of_each = ((len - Header::LEN) / size).max(1);
        let outer = flows.len().div_ceil(of_each);
        for packet in self.stock.drain(outer..) {
            self.spare.put_packet(packet);
        }
        let mut inner = vec![0; size];
        for (packet, flows) in self.stock.iter_mut().zip(flows.chunks(of_each)) {
            let start = HEADROOM + HEADER_LEN + sa.headroom();
            packet.span = Span { start, len };
            let mut filling = Filling::new(len, 0);
            for flow in flows {
                self.traffic.write(*flow as usize, &mut inner);
                filling.put(packet.data_mut(), &inner);
            }
            packet.span.len = filling.finish(packet.data_mut(), false);
        }
        seal(&mut self.stock, |_| Some(sa), &mut self.ivs, &mut *self.engine).ok_or_else(wrong)
    }
}
