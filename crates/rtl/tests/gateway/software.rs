//! The software path as a model: ESP by `culvert-esp`, policies by `culvert-policy`.

use core::net::IpAddr;

use crypto::{Engine, Job, JobStatus, Keys, Op, Provider, Session};
use engine_openssl::OpensslProvider;
use esp::{IvSource, LiveNumbers, Mode, Opened, Protocol, Sa, SaParams};
use outcome::DropReason;
use policy::{Databases, Direction, Flow, PolicyConfig, Reader};
use wire::{Span, parse_ip};

/// Runs packets through SAs, with the cipher between the halves.
pub struct Software {
    provider: OpensslProvider,
    engine: Box<dyn Engine>,
    ivs: IvSource,
}

impl Software {
    pub fn new() -> Software {
        let provider = OpensslProvider::new().unwrap();
        let engine = provider.engine().unwrap();
        Software { provider, engine, ivs: IvSource::from_seed([5; 32]) }
    }

    pub fn sa(&self, params: &SaParams, keys: &Keys) -> Sa {
        let session: Session = self.provider.session(params.suite, keys).unwrap();
        Sa::new(params.clone(), session, LiveNumbers::on_heap(params.replay_window)).unwrap()
    }

    fn job(&mut self, sa: &Sa, op: Op, esp: &mut [u8], high: Option<u32>) -> JobStatus {
        let mut jobs = [Job::esp(sa.session(), op, esp, high)];
        self.engine.run(&mut jobs);
        jobs[0].status
    }

    /// An ESP packet around an IP packet.
    pub fn seal(&mut self, sa: &Sa, packet: &[u8]) -> Vec<u8> {
        const ROOM: usize = 128;
        let mut buf = vec![0; ROOM];
        buf.extend_from_slice(packet);
        buf.resize(buf.len() + ROOM, 0);
        let span = Span { start: ROOM, len: packet.len() };
        let headers = parse_ip(packet).unwrap();
        let number = sa.lease(1).unwrap().next().unwrap();
        let sealing =
            sa.seal_prepare(&mut buf, span, &headers, number, &mut self.ivs, 9000).unwrap();
        let status = self.job(sa, Op::Seal, &mut buf[sealing.esp.range()], sealing.seq_hi);
        let sealed = sa.seal_finish(&mut buf, &sealing, status).unwrap();
        buf[sealed.range()].to_vec()
    }

    /// The IP packet in an ESP packet. A dummy packet is `None`.
    pub fn open(&mut self, sa: &Sa, sealed: &[u8]) -> Result<Option<Vec<u8>>, DropReason> {
        let headers = parse_ip(sealed).map_err(|_| DropReason::MalformedIp)?;
        let mut buf = sealed.to_vec();
        let start = usize::from(headers.header_len);
        let outer = Span { start: 0, len: sealed.len() };
        let esp = Span { start, len: sealed.len() - start };
        let opening = sa.open_prepare(&buf, esp)?;
        let status = self.job(sa, Op::Open, &mut buf[esp.range()], opening.seq_hi);
        match sa.open_finish(&mut buf, outer, &headers, &opening, status, 1)? {
            Opened::Packet { span, .. } => Ok(Some(buf[span.range()].to_vec())),
            Opened::Dummy | Opened::Aggfrag(_) => Ok(None),
        }
    }

    /// An authentic ESP packet with any content: `text` is payload, padding, pad length, next header.
    pub fn forge(&mut self, sa: &Sa, text: &[u8]) -> Vec<u8> {
        let number = sa.lease(1).unwrap().next().unwrap().value();
        let params = sa.params();
        let mut esp = params.spi.to_be_bytes().to_vec();
        esp.extend((number as u32).to_be_bytes());
        esp.extend(core::iter::repeat_n(7, params.suite.iv_len_bytes()));
        esp.extend_from_slice(text);
        esp.extend(core::iter::repeat_n(0, params.suite.icv_len_bytes()));
        let high = params.esn.then_some((number >> 32) as u32);
        assert_eq!(self.job(sa, Op::Seal, &mut esp, high), JobStatus::Done);
        crate::packets::ip(params.src, params.dst, 0, 50, &esp)
    }
}

/// Policies as the software path looks them up; a found one is told by its index.
pub struct Policies {
    databases: Databases<()>,
    reader: Reader<()>,
}

impl Policies {
    pub fn new() -> Policies {
        let databases = Databases::new();
        let reader = databases.reader();
        Policies { databases, reader }
    }

    /// Puts a policy in.
    pub fn add(&mut self, config: PolicyConfig) {
        self.databases.put_policy(config);
        self.reader.refresh_all();
    }

    /// The index of the policy that decides.
    pub fn find(&self, direction: Direction, packet: &[u8]) -> Option<u32> {
        let headers = parse_ip(packet).unwrap();
        let found = self.reader.policy(direction, &Flow::new(&headers, 0))?;
        Some(found.config.index)
    }
}

/// Tunnel end points of two families, and what ESP needs to know.
pub fn params(suite: crypto::Suite, mode: Mode, src: IpAddr, dst: IpAddr, spi: u32) -> SaParams {
    SaParams {
        spi,
        src,
        dst,
        protocol: Protocol::Esp,
        mode,
        suite,
        encap: None,
        esn: false,
        replay_window: rtl::registers::REPLAY_WINDOW,
        tfc_pad_len: 0,
        flags: esp::SaFlags::default(),
    }
}
