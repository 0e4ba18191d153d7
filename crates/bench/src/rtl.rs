//! The bench `rtl`: the gateway in hardware, simulated clock cycle by clock cycle.
//!
//! Rates are those of a gateway at [`CLOCK_MHZ`], from the cycles between the first beat in and the
//! last beat out of a stream of packets of one SA; they do not depend on this machine. What does is
//! how many packets it simulates a second, which is told beside them.

use std::time::Instant;

use crypto::{Keys, Suite};
use esp::{Mode, Protocol, SaFlags, SaParams};
use rtl::registers::REPLAY_WINDOW;
use rtl::{Action, Policy, Sa, Selector, Side, Simulation, Tables};
use wire::{ipv4, protocol};

use crate::error::BenchError;
use crate::options::{Direction, Options};
use crate::row::Row;
use crate::rows::{Rows, label};

/// The clock that rates are told for. What a device reaches is in `hdl/doc`.
const CLOCK_MHZ: f64 = 100.0;
/// Packets in a stream, as in the published tables; as many as the anti-replay window has.
const PACKETS: usize = REPLAY_WINDOW as usize;
/// Clock cycles without a packet after which the gateway is given up.
const PATIENCE: u64 = 1_000_000;

/// The bench `rtl`: each suite, size and direction.
///
/// # Errors
/// [`BenchError`]; what was measured before is lost then.
pub fn rtl(options: &Options<'_>) -> Result<Vec<Row>, BenchError> {
    options.check()?;
    let mut rows = Rows::new(options, options.cases());
    for suite in &options.suites {
        for direction in &options.directions {
            for size in &options.sizes {
                rows.begin(&label(*suite, *direction, *size));
                rows.push(stream(*suite, *direction, *size)?);
            }
        }
    }
    Ok(rows.into_vec())
}

/// A stream of packets of one length.
fn stream(suite: Suite, direction: Direction, size: usize) -> Result<Row, BenchError> {
    let cleartext: Vec<Vec<u8>> = (0..PACKETS).map(|n| packet(size, n)).collect();
    let mut outbound = gateway(suite)?;
    let begun = Instant::now();
    let sealed = run(&mut outbound, Side::Protected, Side::Unprotected, &cleartext)?;
    let (gateway, side, seconds) = match direction {
        Direction::Outbound => (outbound, Side::Protected, begun.elapsed().as_secs_f64()),
        Direction::Inbound => {
            let mut inbound = gateway(suite)?;
            let begun = Instant::now();
            let mut opened = run(&mut inbound, Side::Unprotected, Side::Protected, &sealed)?;
            let seconds = begun.elapsed().as_secs_f64();
            // Packets may overtake one another inside.
            opened.sort_unstable();
            let mut wanted = cleartext;
            wanted.sort_unstable();
            if opened != wanted {
                return Err(BenchError::Wrong { suite });
            }
            (inbound, Side::Unprotected, seconds)
        }
    };
    let other = match side {
        Side::Protected => Side::Unprotected,
        Side::Unprotected => Side::Protected,
    };
    let begin = gateway.traffic(side).first_beat_in;
    let end = gateway.traffic(other).last_beat_out;
    let cycles = (end - begin + 1) as f64 / PACKETS as f64;
    let mpps = CLOCK_MHZ / cycles;
    Ok(Row {
        bench: "rtl",
        case: Some("at 100 MHz"),
        engine: Some("rtl"),
        suite: Some(suite.to_string()),
        direction: Some(direction),
        size_bytes: Some(size),
        sas: Some(1),
        mpps_median: Some(mpps),
        mpps_min: Some(mpps),
        mpps_max: Some(mpps),
        gbps_median: Some(mpps * size as f64 * 8.0 / 1000.0),
        cycles_per_packet: Some(cycles),
        per_second: Some(PACKETS as f64 / seconds),
        ..Row::default()
    })
}

/// Sends packets through and returns what came out: as many.
fn run(
    gateway: &mut Simulation,
    from: Side,
    to: Side,
    packets: &[Vec<u8>],
) -> Result<Vec<Vec<u8>>, BenchError> {
    for packet in packets {
        gateway.push(from, packet);
    }
    let mut out = Vec::with_capacity(packets.len());
    let mut last = gateway.cycles();
    while out.len() < packets.len() {
        gateway.tick(256);
        while let Some(packet) = gateway.pull(to) {
            out.push(packet);
            last = gateway.cycles();
        }
        if gateway.cycles() - last > PATIENCE {
            return Err(BenchError::Lost { given: packets.len(), sent: out.len(), reason: None });
        }
    }
    Ok(out)
}

/// A gateway with one SA of each direction, of the same keys, so that the one opens what the other
/// sealed.
fn gateway(suite: Suite) -> Result<Simulation, BenchError> {
    let refused = |error: &dyn core::fmt::Display| BenchError::Rtl(format!("{suite}: {error}"));
    let params = SaParams {
        spi: 0x1000,
        src: [192, 0, 2, 1].into(),
        dst: [192, 0, 2, 2].into(),
        protocol: Protocol::Esp,
        mode: Mode::Tunnel,
        suite,
        encap: None,
        esn: false,
        replay_window: REPLAY_WINDOW,
        tfc_pad_len: 0,
        flags: SaFlags::default(),
    };
    let keys = Keys {
        cipher: vec![0x5a; suite.cipher_key_len_bytes()],
        salt: vec![0xa5; suite.salt_len_bytes()],
        auth: vec![0x3c; suite.auth_key_len_bytes()],
    };
    let sa = Sa::of(&params, &keys).map_err(|e| refused(&e))?;
    let mut gateway = Simulation::new();
    let mut tables = Tables::new(&mut gateway).map_err(|e| refused(&e))?;
    for direction in [rtl::Direction::Outbound, rtl::Direction::Inbound] {
        let index =
            tables.add_sa(&mut gateway, direction, sa.clone(), 0).map_err(|e| refused(&e))?;
        let policy = Policy {
            selector: Selector::between((SRC.into(), 24), (DST.into(), 24)),
            action: match direction {
                rtl::Direction::Outbound => Action::Protect(index),
                rtl::Direction::Inbound => Action::Require(sa.reqid),
            },
            priority: 1,
            is_low_class: false,
        };
        tables.add_policy(&mut gateway, direction, policy).map_err(|e| refused(&e))?;
    }
    Ok(gateway)
}

const SRC: [u8; 4] = [10, 1, 0, 1];
const DST: [u8; 4] = [10, 2, 0, 1];

/// An IPv4 packet with UDP inside, told from the others by its number.
fn packet(size: usize, number: usize) -> Vec<u8> {
    let mut packet = vec![0; size];
    let len = (size as u16).to_be_bytes();
    packet[..4].copy_from_slice(&[0x45, 0, len[0], len[1]]);
    packet[8] = 64;
    packet[9] = protocol::UDP;
    packet[12..16].copy_from_slice(&SRC);
    packet[16..20].copy_from_slice(&DST);
    ipv4::fill_checksum(&mut packet);
    packet[20..22].copy_from_slice(&(number as u16).to_be_bytes());
    packet[24..26].copy_from_slice(&(size as u16 - 20).to_be_bytes());
    packet
}

#[cfg(test)]
mod tests {
    use crate::options::suite_by_name;

    use super::*;

    #[test]
    fn both_ways_with_the_lanes_own_rate() {
        let suite = suite_by_name("aes128gcm16").unwrap();
        for direction in [Direction::Outbound, Direction::Inbound] {
            let row = stream(suite, direction, 1500).unwrap();
            let cycles = row.cycles_per_packet.unwrap();
            // 1500 bytes and trailer are 94 beats, and the stream has to fill and drain once.
            assert!((94.0..110.0).contains(&cycles), "{direction:?}: {cycles}");
        }
    }

    #[test]
    fn a_suite_that_the_gateway_has_not_is_named() {
        let suite = suite_by_name("chacha20poly1305").unwrap();
        let error = stream(suite, Direction::Outbound, 64).unwrap_err().to_string();
        assert!(error.contains("chacha20poly1305"), "{error}");
    }
}
