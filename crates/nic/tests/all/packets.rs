//! The hardware does to packets as the software path does, and reports those that it does not open.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::common::{GCM, config, keys};
use crypto::{AesKey, Job, JobStatus, Op, Provider, Suite};
use engine_openssl::OpensslProvider;
use nic::inline_crypto::descriptor::{
    ERROR_AUTHENTICATION, ERROR_INVALID_LENGTH, ERROR_INVALID_PROTOCOL, ReceiveStatus,
};
use nic::inline_crypto::registers::{
    IPS_EN, IPSRXIDX, IPSRXMOD, MOD_VALID, RX_TABLE_KEY, RX_TABLE_SHIFT, WRITE,
};
use nic::{Fault, NicDevice, SharedNic};
use offload::{
    Burst, CryptoWork, Device, Live, NewSa, Queue, Request, SaDirection, SaHandle, Status, Work,
};
use outcome::DropReason;
use wire::Span;

const SPI: u32 = 0x1001;
const V4: [IpAddr; 2] =
    [IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), IpAddr::V4(Ipv4Addr::new(192, 0, 2, 2))];
const V6: [IpAddr; 2] = [
    IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1)),
    IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2)),
];
const GMAC: Suite = Suite::AesGmac { key: AesKey::Aes128 };

/// A NIC with an SA of each direction.
struct Bench {
    device: NicDevice,
    queue: Box<dyn Queue<Vec<u8>>>,
    hardware: SharedNic,
    sas: [SaHandle; 2],
}

impl Bench {
    fn new(suite: Suite, [src, dst]: [IpAddr; 2]) -> Bench {
        let mut device = NicDevice::new("nic0").unwrap();
        let hardware = device.nic();
        let tested: &mut dyn Device<Vec<u8>> = &mut device;
        let config = config(suite, src, dst, SPI);
        let sas = [SaDirection::Outbound, SaDirection::Inbound].map(|direction| {
            let (keys, start) = (&keys(suite, 9), &Live::default());
            tested.put_sa(NewSa { direction, config: &config, keys, start }).unwrap()
        });
        let queue = tested.queue().unwrap();
        Bench { device, queue, hardware, sas }
    }

    fn run(&mut self, op: Op, packet: &[u8]) -> (Vec<u8>, Status) {
        let start = if packet[0] >> 4 == 4 { 20 } else { 40 };
        let esp = Span { start, len: packet.len() - start };
        let work = |sa| CryptoWork { sa, esp, seq_hi: None };
        let work = match op {
            Op::Seal => Work::Seal(work(self.sas[0])),
            Op::Open => Work::Open(work(self.sas[1])),
        };
        let mut requests: Burst<_> =
            [Request { buffer: packet.to_vec(), work }].into_iter().collect();
        assert_eq!(self.queue.submit(&mut requests), 1);
        let mut completions = Burst::new();
        self.queue.poll(&mut completions);
        let back = completions.pop().unwrap();
        (back.buffer, back.status)
    }
}

/// An outer header and an ESP packet with text of `len` bytes.
fn packet([src, dst]: [IpAddr; 2], len: usize) -> Vec<u8> {
    let esp_len = 8 + 8 + len + 16;
    let mut packet = match (src, dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            let mut header = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, 50, 0, 0];
            header[2..4].copy_from_slice(&(20 + esp_len as u16).to_be_bytes());
            header.extend(src.octets());
            header.extend(dst.octets());
            header
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            let mut header = vec![0x60, 0, 0, 0, 0, 0, 50, 64];
            header[4..6].copy_from_slice(&(esp_len as u16).to_be_bytes());
            header.extend(src.octets());
            header.extend(dst.octets());
            header
        }
        _ => unreachable!("one family"),
    };
    packet.extend(SPI.to_be_bytes());
    packet.extend(77_u32.to_be_bytes());
    packet.extend((0..esp_len - 8).map(|n| n as u8));
    packet
}

/// The ESP packet by the software's engine.
fn software(suite: Suite, op: Op, packet: &[u8], header_len: usize) -> (Vec<u8>, JobStatus) {
    let provider = OpensslProvider::new().unwrap();
    let session = provider.session(suite, &keys(suite, 9)).unwrap();
    let mut packet = packet.to_vec();
    let mut jobs = [Job::esp(&session, op, &mut packet[header_len..], None)];
    provider.engine().unwrap().run(&mut jobs);
    let status = jobs[0].status;
    (packet, status)
}

#[test]
fn sealed_and_opened_as_by_software() {
    for suite in [GCM, GMAC] {
        for (ends, header_len) in [(V4, 20), (V6, 40)] {
            let mut bench = Bench::new(suite, ends);
            for len in [0, 4, 16, 20, 64, 1000, 1400, 9000] {
                let plain = packet(ends, len);
                let (sealed, status) = bench.run(Op::Seal, &plain);
                assert_eq!(status, Status::Done);
                let (by_software, status) = software(suite, Op::Seal, &plain, header_len);
                assert_eq!(status, JobStatus::Done);
                assert_eq!(sealed, by_software, "{suite} {len}");
                let (opened, status) = bench.run(Op::Open, &by_software);
                assert_eq!(status, Status::Done, "{suite} {len}");
                let text = opened.len() - 16;
                assert_eq!(opened[..text], plain[..text], "{suite} {len}");
            }
            let counters = Device::<Vec<u8>>::counters(&bench.device);
            assert_eq!((counters.sealed, counters.opened, counters.refused), (8, 8, 0));
        }
    }
}

#[test]
fn a_forgery_leaves_no_plaintext() {
    for suite in [GCM, GMAC] {
        let mut bench = Bench::new(suite, V4);
        let plain = packet(V4, 400);
        let (sealed, _) = bench.run(Op::Seal, &plain);
        for at in [24, 30, 100, sealed.len() - 1] {
            let mut forged = sealed.clone();
            forged[at] ^= 0x10;
            let (left, status) = bench.run(Op::Open, &forged);
            assert_eq!(status, Status::Dropped(DropReason::InIntegrity));
            assert!(left[36..left.len() - 16].iter().all(|byte| *byte == 0));
        }
        assert_eq!(Device::<Vec<u8>>::counters(&bench.device).wrong_icv, 4);
    }
}

#[test]
fn what_the_hardware_does_not_know_comes_as_it_is() {
    let mut bench = Bench::new(GCM, V4);
    let (sealed, _) = bench.run(Op::Seal, &packet(V4, 400));
    type Change = fn(&mut Vec<u8>);
    let changes: [(&str, Change); 7] = [
        ("another SPI", |packet| packet[23] ^= 1),
        ("another destination", |packet| packet[19] ^= 1),
        ("options", |packet| packet[0] = 0x46),
        ("a first fragment", |packet| packet[6] = 0x20),
        ("a later fragment", |packet| packet[7] = 1),
        ("UDP", |packet| packet[9] = 17),
        ("cut off", |packet| packet.truncate(22)),
    ];
    for (what, change) in changes {
        let mut packet = sealed.clone();
        change(&mut packet);
        let before = packet.clone();
        let status = bench.hardware.with(|nic| nic.receive(&mut packet));
        assert_eq!(status, ReceiveStatus::default(), "{what}");
        assert_eq!(packet, before, "{what}");
    }
    assert_eq!(bench.hardware.with(|nic| nic.counters().unknown), 7);
}

#[test]
fn errors_are_told_in_the_descriptor() {
    let mut bench = Bench::new(GCM, V4);
    let (sealed, _) = bench.run(Op::Seal, &packet(V4, 400));
    let receive = |packet: &[u8]| {
        let mut packet = packet.to_vec();
        let status = bench.hardware.with(|nic| nic.receive(&mut packet));
        assert!(status.is_secp());
        (status.error(), packet)
    };
    // AH to the address and with the SPI of an SA of ESP.
    let mut ah = sealed.clone();
    ah[9] = 51;
    ah.copy_within(20..24, 24);
    assert_eq!(receive(&ah), (ERROR_INVALID_PROTOCOL, ah.clone()));
    // Shorter than IV and ICV, and no multiple of four.
    for len in [20 + 28, sealed.len() - 2] {
        let (error, left) = receive(&sealed[..len]);
        assert_eq!((error, &left[..]), (ERROR_INVALID_LENGTH, &sealed[..len]));
    }
    let (error, _) = receive(&sealed[..sealed.len() - 4]);
    assert_eq!(error, ERROR_AUTHENTICATION);
    let counters = bench.hardware.with(|nic| nic.counters());
    assert_eq!((counters.wrong_protocol, counters.wrong_length, counters.wrong_icv), (1, 2, 1));
    // An entry that does not count.
    bench.hardware.with(|nic| {
        let access = RX_TABLE_KEY << RX_TABLE_SHIFT | IPS_EN;
        nic.write(IPSRXMOD, 0);
        nic.write(IPSRXIDX, WRITE | access);
        assert_eq!(nic.read(IPSRXMOD) & MOD_VALID, 0);
        assert!(!nic.receive(&mut sealed.clone()).is_secp());
    });
}

#[test]
fn a_reset_works_on_nothing_until_the_tables_are_loaded() {
    let mut bench = Bench::new(GCM, V6);
    let plain = packet(V6, 64);
    let (sealed, status) = bench.run(Op::Seal, &plain);
    assert_eq!(status, Status::Done);
    bench.hardware.with(|nic| nic.reset());
    assert!(!bench.hardware.with(|nic| nic.is_on()));
    let (left, status) = bench.run(Op::Seal, &plain);
    assert_eq!((left, status), (plain.clone(), Status::Dropped(DropReason::OutCrypto)));
    let (left, status) = bench.run(Op::Open, &sealed);
    assert_eq!((left, status), (sealed.clone(), Status::Dropped(DropReason::InCrypto)));
    Device::<Vec<u8>>::reset(&mut bench.device).unwrap();
    assert!(bench.hardware.with(|nic| nic.is_on()));
    assert_eq!(bench.run(Op::Seal, &plain), (sealed.clone(), Status::Done));
    assert_eq!(bench.run(Op::Open, &sealed).1, Status::Done);
    assert_eq!(Device::<Vec<u8>>::counters(&bench.device).resets, 2);
}

#[test]
fn extended_numbers_and_foreign_spans_are_not_sealed() {
    let mut bench = Bench::new(GCM, V4);
    let plain = packet(V4, 64);
    let whole = Span { start: 20, len: plain.len() - 20 };
    let short = Span { start: 20, len: plain.len() - 24 };
    let far = Span { start: usize::MAX, len: 2 };
    let [out, inbound] = bench.sas;
    for (sa, esp, seq_hi) in
        [(out, whole, Some(1)), (out, short, None), (out, far, None), (inbound, whole, None)]
    {
        let work = Work::Seal(CryptoWork { sa, esp, seq_hi });
        let mut requests: Burst<_> =
            [Request { buffer: plain.clone(), work }].into_iter().collect();
        bench.queue.submit(&mut requests);
        let mut completions = Burst::new();
        bench.queue.poll(&mut completions);
        let back = completions.pop().unwrap();
        assert_eq!(back.status, Status::Dropped(DropReason::OutCrypto));
        assert_eq!(back.buffer, plain);
    }
}

#[test]
fn a_fault_is_what_its_name_says_and_ends() {
    let mut bench = Bench::new(GCM, V4);
    let plain = packet(V4, 64);
    let (sealed, _) = bench.run(Op::Seal, &plain);
    let different = |a: &[u8], b: &[u8]| a.iter().zip(b).filter(|(a, b)| a != b).count();
    for (fault, op) in [
        (Fault::WrongIcv, Op::Seal),
        (Fault::WrongCipher, Op::Seal),
        (Fault::InClear, Op::Seal),
        (Fault::FalseAlarm, Op::Open),
        (Fault::WrongText, Op::Open),
    ] {
        let given = if op == Op::Seal { &plain } else { &sealed };
        let (right, _) = bench.run(op, given);
        bench.hardware.with(|nic| nic.set_fault(Some(fault)));
        // A reset does not end it.
        Device::<Vec<u8>>::reset(&mut bench.device).unwrap();
        let (made, status) = bench.run(op, given);
        match fault {
            Fault::FalseAlarm => {
                assert_eq!(
                    (made, status),
                    (sealed.clone(), Status::Dropped(DropReason::InIntegrity))
                );
            }
            Fault::InClear => assert_eq!((made, status), (plain.clone(), Status::Done)),
            _ => assert_eq!((different(&made, &right), status), (1, Status::Done), "{fault}"),
        }
        bench.hardware.with(|nic| nic.set_fault(None));
        assert_eq!(bench.run(op, given), (right, Status::Done));
    }
    bench.hardware.with(|nic| nic.set_fault(Some(Fault::Hang)));
    let esp = Span { start: 20, len: plain.len() - 20 };
    let work = Work::Seal(CryptoWork { sa: bench.sas[0], esp, seq_hi: None });
    let mut requests: Burst<_> = [Request { buffer: plain.clone(), work }].into_iter().collect();
    bench.queue.submit(&mut requests);
    let mut completions = Burst::new();
    assert_eq!((bench.queue.poll(&mut completions), bench.queue.in_flight()), (0, 1));
    Device::<Vec<u8>>::reset(&mut bench.device).unwrap();
    assert_eq!((bench.queue.poll(&mut completions), bench.queue.in_flight()), (1, 0));
}
