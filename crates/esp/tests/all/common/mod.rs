//! Fixtures that the tests share: packets, keys, and an SA with an engine on each side.

pub mod vector;

use core::net::IpAddr;
use std::sync::LazyLock;

use crypto::{
    AesKey, Cipher, Engine, IcvLen, Integrity, Job, JobStatus, Keys, Op, Provider, Suite,
};
use engine_openssl::OpensslProvider;
use esp::{IvSource, LiveNumbers, Mode, Number, Opened, Protocol, Sa, SaFlags, SaParams, UdpEncap};
use outcome::DropReason;
use wire::{Span, checksum, parse_ip};

/// OpenSSL's algorithms, looked up once.
static PROVIDER: LazyLock<OpensslProvider> = LazyLock::new(|| OpensslProvider::new().unwrap());

pub const GCM: Suite = Suite::AesGcm { key: AesKey::Aes128, icv: IcvLen::Icv16 };
pub const V4: (&str, &str) = ("192.0.2.1", "198.51.100.2");
pub const V6: (&str, &str) = ("2001:db8::1", "2001:db8:ffff::2");
pub const NATT: Option<UdpEncap> = Some(UdpEncap { src_port: 4500, dst_port: 4500 });
pub const NOW_S: u64 = 1_700_000_000;
pub const MTU: usize = 1500;

/// All suites of the tests' engine: OpenSSL 3.0 has no SM4-GCM.
pub fn all_suites() -> impl Iterator<Item = Suite> {
    Suite::all().filter(|suite| PROVIDER.supports(*suite))
}

/// Every combined mode, and of the other suites so many that each cipher and each integrity algorithm is among
/// them: for what depends on their lengths alone.
pub fn suites() -> impl Iterator<Item = Suite> {
    all_suites().filter(|suite| match *suite {
        Suite::Separate { cipher, integrity } => {
            cipher == Cipher::Null || integrity == Integrity::Sha256_128
        }
        _ => true,
    })
}

pub fn params(suite: Suite, v4: bool) -> SaParams {
    let (src, dst) = if v4 { V4 } else { V6 };
    SaParams {
        spi: 0xc0ff_ee01,
        src: src.parse().unwrap(),
        dst: dst.parse().unwrap(),
        protocol: Protocol::Esp,
        mode: Mode::Tunnel,
        suite,
        encap: None,
        esn: false,
        replay_window: 64,
        tfc_pad_len: 0,
        flags: SaFlags::default(),
    }
}

pub fn keys(suite: Suite) -> Keys {
    let bytes = |len: usize, first: u8| (first..).take(len).collect();
    Keys {
        cipher: bytes(suite.cipher_key_len_bytes(), 1),
        salt: bytes(suite.salt_len_bytes(), 101),
        auth: bytes(suite.auth_key_len_bytes(), 151),
    }
}

pub fn sa_with(params: SaParams, keys: &Keys, live: LiveNumbers) -> Sa {
    let session = PROVIDER.session(params.suite, keys).unwrap();
    Sa::new(params, session, live).unwrap()
}

pub fn sa(params: SaParams) -> Sa {
    let (keys, live) = (keys(params.suite), LiveNumbers::on_heap(params.replay_window));
    sa_with(params, &keys, live)
}

/// The next number of an SA.
pub fn number(sa: &Sa) -> Result<Number, DropReason> {
    Ok(sa.lease(1)?.next().unwrap())
}

/// Runs packets through an SA, with the crypto between the halves.
pub struct Bench {
    engine: Box<dyn Engine>,
    ivs: IvSource,
    /// Of the path that packets are sealed for.
    pub mtu: usize,
}

impl Bench {
    pub fn new() -> Bench {
        let engine = PROVIDER.engine().unwrap();
        Bench { engine, ivs: IvSource::from_seed([9; 32]), mtu: MTU }
    }

    pub fn job(&mut self, sa: &Sa, op: Op, esp: &mut [u8], seq_hi: Option<u32>) -> JobStatus {
        let mut jobs = [Job::esp(sa.session(), op, esp, seq_hi)];
        self.engine.run(&mut jobs);
        jobs[0].status
    }

    pub fn seal(&mut self, sa: &Sa, packet: &[u8]) -> Result<Vec<u8>, DropReason> {
        self.seal_in(sa, packet, 120, 2000, |_, _| {})
    }

    /// Seals with this room in front and behind; `between` may change the ESP part before the
    /// encryption.
    pub fn seal_in(
        &mut self,
        sa: &Sa,
        packet: &[u8],
        front: usize,
        behind: usize,
        between: impl FnOnce(&mut [u8], Span),
    ) -> Result<Vec<u8>, DropReason> {
        // A pattern around the packet shows writes outside of the sealed one.
        let mut buf = vec![0x5a; front];
        buf.extend_from_slice(packet);
        buf.resize(buf.len() + behind, 0x5a);
        let span = Span { start: front, len: packet.len() };
        let h = parse_ip(packet).unwrap();
        let promised = sa.sealed_len_of(packet, &h)?;
        let (number, ivs) = (number(sa)?, &mut self.ivs);
        let counted = sa.payload_len(packet, &h)?;
        let sealing = sa.seal_prepare(&mut buf, span, &h, number, ivs, self.mtu)?;
        sa.live().count(counted as u64, NOW_S);
        between(&mut buf, sealing.esp);
        let status = self.job(sa, Op::Seal, &mut buf[sealing.esp.range()], sealing.seq_hi);
        let sealed = sa.seal_finish(&mut buf, &sealing, status)?;
        assert!(sealed.len == promised || sa.params().tfc_pad_len != 0);
        assert!(buf[..sealed.start].iter().all(|b| *b == 0x5a), "wrote in front");
        // AH has its ICV and the headers there meanwhile.
        let icv_len = sealing.esp.end() - sealed.end();
        let used = if icv_len == 0 { 0 } else { icv_len + headers_len(&buf[sealed.range()]) };
        assert!(buf[sealed.end() + used..].iter().all(|b| *b == 0x5a), "wrote behind");
        Ok(buf[sealed.range()].to_vec())
    }

    pub fn open(&mut self, sa: &Sa, sealed: &[u8]) -> Result<Option<Vec<u8>>, DropReason> {
        let h = parse_ip(sealed).map_err(|_| DropReason::MalformedIp)?;
        let udp_len = if sa.params().encap.is_some() { 8 } else { 0 };
        let at = usize::from(h.header_len) + udp_len;
        let end = usize::from(h.total_len);
        // Somewhere inside a larger buffer, as in a frame.
        let mut buf = vec![0x5a; 33];
        buf.extend_from_slice(sealed);
        let outer = Span { start: 33, len: end };
        let opening = if sa.is_ah() {
            buf.extend([0x5a; 200]);
            let opening = sa.open_ah(&buf, outer, (&h).into())?;
            opening.blank(&mut buf, (&h).into()).expect("as it was seen");
            opening
        } else {
            let len = end.checked_sub(at).ok_or(DropReason::MalformedEsp)?;
            sa.open_prepare(&buf, Span { start: 33 + at, len })?
        };
        let esp = opening.esp;
        let status = self.job(sa, Op::Open, &mut buf[esp.range()], opening.seq_hi);
        match sa.open_finish(&mut buf, outer, &h, &opening, status, NOW_S) {
            Ok(Opened::Packet { span, headers }) => {
                let packet = buf[span.range()].to_vec();
                assert_eq!(headers, parse_ip(&packet), "parsed once, as it is handed out");
                Ok(Some(packet))
            }
            Ok(Opened::Dummy | Opened::Aggfrag(_)) => Ok(None),
            Err(reason) => {
                assert!(buf[esp.range()].iter().all(|b| *b == 0), "text left after {reason:?}");
                Err(reason)
            }
        }
    }

    /// An ESP packet as a peer with the keys, and with its own ideas, could send it: `text` is
    /// payload, padding, pad length and next header.
    pub fn forge(&mut self, sa: &Sa, seq: u64, tc: u8, text: &[u8]) -> Vec<u8> {
        let suite = sa.params().suite;
        let mut esp = sa.params().spi.to_be_bytes().to_vec();
        esp.extend((seq as u32).to_be_bytes());
        esp.extend(std::iter::repeat_n(7, suite.iv_len_bytes()));
        esp.extend_from_slice(text);
        esp.extend(std::iter::repeat_n(0, suite.icv_len_bytes()));
        let seq_hi = sa.params().esn.then_some((seq >> 32) as u32);
        assert_eq!(self.job(sa, Op::Seal, &mut esp, seq_hi), JobStatus::Done);
        let mut upper = Vec::new();
        let mut protocol = 50;
        if let Some(encap) = sa.params().encap {
            protocol = 17;
            upper.extend(encap.src_port.to_be_bytes());
            upper.extend(encap.dst_port.to_be_bytes());
            upper.extend((esp.len() as u16 + 8).to_be_bytes());
            upper.extend([0, 0]);
        }
        upper.extend(esp);
        ip(sa.params().src, sa.params().dst, tc, true, protocol, &upper)
    }
}

/// The length of all headers that a packet begins with.
fn headers_len(packet: &[u8]) -> usize {
    parse_ip(packet).expect("a packet").header_len.into()
}

/// An IP packet between these addresses.
pub fn ip(src: IpAddr, dst: IpAddr, tc: u8, df: bool, protocol: u8, upper: &[u8]) -> Vec<u8> {
    let mut p = Vec::new();
    match (src, dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            let flags = if df { 0x40 } else { 0 };
            p.extend([0x45, tc]);
            p.extend((upper.len() as u16 + 20).to_be_bytes());
            p.extend([0, 9, flags, 0, 61, protocol, 0, 0]);
            p.extend(src.octets());
            p.extend(dst.octets());
            wire::ipv4::fill_checksum(&mut p);
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            p.extend([0x60 | tc >> 4, tc << 4 | 0x0a, 0xbc, 0xde]);
            p.extend((upper.len() as u16).to_be_bytes());
            p.extend([protocol, 61]);
            p.extend(src.octets());
            p.extend(dst.octets());
        }
        _ => panic!("two families"),
    }
    p.extend_from_slice(upper);
    p
}

/// A UDP packet between two hosts behind the gateways, with a payload of `len` bytes.
pub fn inner(v4: bool, tc: u8, df: bool, len: usize) -> Vec<u8> {
    let (src, dst) = if v4 { ("10.1.0.5", "10.2.0.9") } else { ("2001:db8:1::5", "2001:db8:2::9") };
    let mut p =
        ip(src.parse().unwrap(), dst.parse().unwrap(), tc, df, 17, &udp(1000, 2000, &data(len)));
    let h = parse_ip(&p).unwrap();
    assert!(wire::fill_l4_checksum(&mut p, &h));
    p
}

/// A packet between the SA's own end points, for transport mode.
pub fn own(params: &SaParams, protocol: u8, upper: &[u8]) -> Vec<u8> {
    let mut p = ip(params.src, params.dst, 0, true, protocol, upper);
    let h = parse_ip(&p).unwrap();
    wire::fill_l4_checksum(&mut p, &h);
    p
}

pub fn udp(src: u16, dst: u16, payload: &[u8]) -> Vec<u8> {
    let mut p = Vec::new();
    p.extend(src.to_be_bytes());
    p.extend(dst.to_be_bytes());
    p.extend((payload.len() as u16 + 8).to_be_bytes());
    p.extend([0, 0]);
    p.extend_from_slice(payload);
    p
}

pub fn tcp(payload: &[u8]) -> Vec<u8> {
    let mut p = vec![0; 20];
    p[..4].copy_from_slice(&[3, 0xe8, 7, 0xd0]);
    p[12] = 0x50;
    p.extend_from_slice(payload);
    p
}

pub fn data(len: usize) -> Vec<u8> {
    (0..len).map(|i| ((i * 131) >> 3) as u8).collect()
}

/// Payload, correct padding to the suite's alignment, and trailer.
pub fn text(suite: Suite, payload: &[u8], next_header: u8) -> Vec<u8> {
    let mut text = payload.to_vec();
    let mut pad = 0;
    while !(text.len() + 2).is_multiple_of(suite.align_bytes()) {
        pad += 1;
        text.push(pad);
    }
    text.extend([pad, next_header]);
    text
}

/// The ones-complement sum that a right checksum makes 0xffff.
pub fn udp_over_v6_sum(packet: &[u8], udp_at: usize) -> u16 {
    let header = wire::ipv6::Ipv6Header::parse(packet).unwrap();
    let upper = &packet[udp_at..];
    let pseudo = checksum::pseudo_header_v6(header.src(), header.dst(), 17, upper.len() as u32);
    checksum::add(pseudo, checksum::sum(upper))
}
