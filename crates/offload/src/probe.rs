//! A known answer: whether a device seals and opens as it should, before traffic moves to it.
//!
//! An SA of its own, with keys and a number of its own, goes in and out again: a probe under an SA's own keys would
//! use one of its nonces. Its SPI is one that no SA may have (RFC 4303 §2.1), and its packet stays in the queue.

use core::net::{IpAddr, Ipv4Addr};

use crypto::{AesKey, IcvLen, Keys, Suite};
use esp::SaParams;
use outcome::DropReason;
use policy::SaConfig;
use wire::Span;

use crate::bounce::{Bounce, fill_len};
use crate::capabilities::Placement;
use crate::device::{Device, DeviceCounters, Live, NewSa};
use crate::error::PutError;
use crate::handle::{SaDirection, SaHandle};
use crate::offloaded::head;
use crate::queue::{Burst, CryptoWork, Queue, Request, Status, Work};

/// Why a device is not to be trusted with packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProbeError {
    /// The device does not take an SA.
    #[error("it takes no SA: {0}")]
    Put(PutError),
    /// A packet did not come back.
    #[error("a known packet does not come back")]
    Silent,
    /// A packet came back as another one than it should.
    #[error("{0}")]
    Wrong(&'static str),
}

/// Has a device seal and open a known packet, and refuse a forged one. What the device has counted of that. A device whose
/// tables are full, one of packet offload, and one that does not do AES-GCM are not probed.
///
/// # Errors
/// [`ProbeError`].
pub fn probe(
    device: &mut dyn Device<Bounce>,
    queue: &mut dyn Queue<Bounce>,
) -> Result<DeviceCounters, ProbeError> {
    let mut counted = DeviceCounters::default();
    let capabilities = device.capabilities();
    if capabilities.placement != Placement::Crypto || !capabilities.suites.contains(&SUITE) {
        return Ok(counted);
    }
    let mut forged = SEALED;
    forged[20] ^= 1;
    let sealed = with_sa(device, SaDirection::Outbound, |sa| {
        let expected = (Status::Done, &SEALED[..]);
        check(queue, Work::Seal(work(sa)), &CLEAR, expected, "a known packet is sealed wrongly")
    })?;
    if let Some(sealed) = sealed {
        sealed?;
        counted.sealed = 1;
    }
    let opened = with_sa(device, SaDirection::Inbound, |sa| {
        let wrong = "a known packet is opened wrongly";
        let expected = (Status::Done, &CLEAR[..ICV_AT]);
        check(queue, Work::Open(work(sa)), &SEALED, expected, wrong)?;
        let wrong = "a forged packet is taken for an authentic one";
        let expected = (Status::Dropped(DropReason::InIntegrity), &[][..]);
        check(queue, Work::Open(work(sa)), &forged, expected, wrong)
    })?;
    if let Some(opened) = opened {
        opened?;
        (counted.opened, counted.wrong_icv) = (1, 1);
    }
    Ok(counted)
}

/// Does something with the SA in the device; nothing where its table is full.
fn with_sa<T>(
    device: &mut dyn Device<Bounce>,
    direction: SaDirection,
    run: impl FnOnce(SaHandle) -> T,
) -> Result<Option<T>, ProbeError> {
    let keys = Keys { cipher: KEY.to_vec(), salt: SALT.to_vec(), auth: Vec::new() };
    let new = NewSa { direction, config: &config(), keys: &keys, start: &Live::default() };
    let sa = match device.put_sa(new) {
        Ok(sa) => sa,
        Err(PutError::Full { .. }) => return Ok(None),
        Err(error) => return Err(ProbeError::Put(error)),
    };
    let result = run(sa);
    // A device that cannot forget it is told of by what follows.
    let _ = device.remove_sa(sa);
    Ok(Some(result))
}

/// Has the device work on a packet, and compares what comes back.
fn check(
    queue: &mut dyn Queue<Bounce>,
    work: Work,
    esp: &[u8],
    (status, begin): (Status, &[u8]),
    wrong: &'static str,
) -> Result<(), ProbeError> {
    let mut completions = Burst::new();
    // Completions that an earlier probe gave up on.
    queue.poll(&mut completions);
    completions.clear();
    let mut packet = head(ADDR, ADDR);
    let head_len = packet.len();
    packet.extend_from_slice(esp);
    fill_len(&mut packet);
    let mut requests = Burst::new();
    requests.push(Request { buffer: Bounce::with_packet(&packet, head_len), work });
    if queue.submit(&mut requests) == 0 {
        return Err(ProbeError::Silent);
    }
    let came = (0..MOST_POLLS).find_map(|_| {
        queue.poll(&mut completions);
        completions.drain(..).find(|completion| completion.work == work)
    });
    let came = came.ok_or(ProbeError::Silent)?;
    let is_right = came.status == status && came.buffer.esp().starts_with(begin);
    if is_right { Ok(()) } else { Err(ProbeError::Wrong(wrong)) }
}

fn work(sa: SaHandle) -> CryptoWork {
    CryptoWork { sa, esp: Span { start: 20, len: SEALED.len() }, seq_hi: None }
}

fn config() -> SaConfig {
    let spi = u32::from_be_bytes([SEALED[0], SEALED[1], SEALED[2], SEALED[3]]);
    SaConfig::plain(SaParams::tunnel(SUITE, spi, (ADDR, ADDR)))
}

const SUITE: Suite = Suite::AesGcm { key: AesKey::Aes128, icv: IcvLen::Icv16 };
/// Of the block that is for documentation (RFC 5737).
const ADDR: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 193));
const KEY: [u8; 16] = *b"@ABCDEFGHIJKLMNO";
const SALT: [u8; 4] = *b"PQRS";

/// SPI, number, IV; a text with padding and trailer; room for the ICV.
#[rustfmt::skip]
const CLEAR: [u8; 80] = [
    0x00, 0x00, 0x00, 0xc1, 0x00, 0x00, 0x00, 0x01, 0x60, 0x61, 0x62, 0x63, 0x64, 0x65, 0x66, 0x67,
    0x00, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x09, 0x0a, 0x0b, 0x0c, 0x0d, 0x0e, 0x0f,
    0x10, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0x19, 0x1a, 0x1b, 0x1c, 0x1d, 0x1e, 0x1f,
    0x20, 0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27, 0x28, 0x29, 0x01, 0x02, 0x03, 0x04, 0x04, 0x3b,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
];

/// The packet after AES-128-GCM (RFC 4106).
#[rustfmt::skip]
const SEALED: [u8; 80] = [
    0x00, 0x00, 0x00, 0xc1, 0x00, 0x00, 0x00, 0x01, 0x60, 0x61, 0x62, 0x63, 0x64, 0x65, 0x66, 0x67,
    0xa7, 0x71, 0x49, 0x6f, 0x77, 0xbc, 0x0f, 0x44, 0x91, 0x55, 0x79, 0x66, 0xb3, 0xa9, 0x75, 0xff,
    0xf2, 0x69, 0xa0, 0xb9, 0x0f, 0xee, 0x8b, 0xf5, 0x77, 0xd0, 0xfc, 0xff, 0x48, 0x95, 0x21, 0xb1,
    0x81, 0x1a, 0xbc, 0xc8, 0x49, 0x89, 0xdb, 0x2e, 0x15, 0x1e, 0xf6, 0xf6, 0x98, 0xc8, 0xa3, 0x44,
    0x89, 0xce, 0xde, 0x1b, 0x33, 0xec, 0xe5, 0x04, 0x0e, 0xde, 0x05, 0xcf, 0xdb, 0x93, 0x5a, 0x6c,
];

const ICV_AT: usize = 64;

/// As many as an engine's.
const MOST_POLLS: usize = 100_000;

#[cfg(test)]
mod tests {
    use crypto::{Job, JobStatus, Op, Provider};
    use engine_openssl::OpensslProvider;

    use super::*;

    #[test]
    fn software_comes_to_the_known_answer() {
        let provider = OpensslProvider::new().unwrap();
        let keys = Keys { cipher: KEY.to_vec(), salt: SALT.to_vec(), auth: Vec::new() };
        let session = provider.session(SUITE, &keys).unwrap();
        let mut packet = CLEAR;
        let mut jobs = [Job::esp(&session, Op::Seal, &mut packet, None)];
        provider.engine().unwrap().run(&mut jobs);
        assert_eq!(jobs[0].status, JobStatus::Done);
        assert_eq!(packet, SEALED);
    }
}
