//! One SA's packet work: sequence numbers, replay window, encapsulation, decapsulation, of ESP
//! (RFC 4303) and AH (RFC 4302); and compression inside of these (IPComp, RFC 3173).
//!
//! Pure: no I/O, no clock, no allocation per packet. The encryption itself is a
//! [`crypto::Engine`]'s, between the two halves of each direction:
//!
//! | outbound | inbound |
//! | --- | --- |
//! | [`Sa::lease`]: numbers for a run of packets | |
//! | [`Sa::seal_prepare`]: headers, IV, padding | [`Sa::open_prepare`]: lengths, replay |
//! | [`crypto::Job::esp`] with [`crypto::Op::Seal`] | [`crypto::Job::esp`] with [`crypto::Op::Open`] |
//! | [`Sa::seal_finish`]: status, UDP checksum | [`Opening::content`]: status, trailer, content |
//! | | [`Sa::open_accept`]: replay window, counters |
//!
//! AH is looked at with [`Sa::open_ah`] instead, and made ready for the job with [`Opening::blank`].
//! All else is as for ESP. IPComp has no job: outbound [`Sa::compress`] is all, inbound [`Sa::decompress`]
//! and [`Sa::open_bare`] come first.
//!
//! A burst goes through each step as a whole. [`Sa::open_finish`] is the last two inbound steps for
//! who has one packet only.
//!
//! An [`Sa`] is two cache lines for packets and one of control data. What changes with packets is
//! beside it, in [`LiveNumbers`], which may lie in memory that outlives the process. A [`Number`] can be
//! used once: it is neither `Clone` nor `Copy`, and [`Sa::seal_prepare`] takes it.
//!
//! # Example
//!
//! One packet to the peer and its replay, with the portable engine.
//!
//! ```
//! use crypto::{AesKey, IcvLen, Job, Keys, Op, Provider, Suite};
//! use engine_openssl::OpensslProvider;
//! use esp::{LiveNumbers, IvSource, Mode, Protocol, Sa, SaFlags, SaParams};
//! use outcome::DropReason;
//! use wire::{Span, ipv4, parse_ip};
//!
//! # fn main() -> Result<(), Box<dyn core::error::Error>> {
//! let suite = Suite::AesGcm { key: AesKey::Aes128, icv: IcvLen::Icv16 };
//! let keys = Keys { cipher: vec![1; 16], salt: vec![2; 4], auth: vec![] };
//! let provider = OpensslProvider::new()?;
//! let params = SaParams {
//!     spi: 0x1001, src: "192.0.2.1".parse()?, dst: "192.0.2.2".parse()?, protocol: Protocol::Esp,
//!     mode: Mode::Tunnel, suite, encap: None, esn: false, replay_window: 64, tfc_pad_len: 0, flags: SaFlags::default(),
//! };
//! let sa = || -> Result<Sa, Box<dyn core::error::Error>> {
//!     let session = provider.session(suite, &keys)?;
//!     Ok(Sa::new(params.clone(), session, LiveNumbers::on_heap(params.replay_window))?)
//! };
//! let (out, inbound) = (sa()?, sa()?);
//! let mut engine = provider.engine()?;
//!
//! // The cleartext packet, with room around it for what sealing adds.
//! let inner = ipv4::Ipv4Fields {
//!     traffic_class: 0, total_len: 20, ident: 0, dont_fragment: true, ttl: 64, protocol: 59,
//!     src: [10, 1, 0, 1].into(), dst: [10, 2, 0, 1].into(),
//! };
//! let mut buf = [0; 128];
//! let packet = Span { start: out.headroom(), len: 20 };
//! inner.emit(&mut buf[packet.range()])?;
//! let headers = parse_ip(&buf[packet.range()])?;
//!
//! // Outbound: number, prepare, cipher, finish.
//! let number = out.lease(1).unwrap().next().unwrap();
//! let mut ivs = IvSource::new()?;
//! let sealing = out.seal_prepare(&mut buf, packet, &headers, number, &mut ivs, 1500).unwrap();
//! let mut jobs = [Job::esp(out.session(), Op::Seal, &mut buf[sealing.esp.range()], sealing.seq_hi)];
//! engine.run(&mut jobs);
//! let status = jobs[0].status;
//! let sealed = out.seal_finish(&mut buf, &sealing, status).unwrap();
//!
//! // Inbound at the peer, twice.
//! let (mut copy, outer) = (buf, parse_ip(&buf[sealed.range()])?);
//! let mut open = |buf: &mut [u8]| {
//!     let opening = inbound.open_prepare(buf, sealing.esp)?;
//!     let esp = &mut buf[sealing.esp.range()];
//!     let mut jobs = [Job::esp(inbound.session(), Op::Open, esp, opening.seq_hi)];
//!     engine.run(&mut jobs);
//!     let status = jobs[0].status;
//!     inbound.open_finish(buf, sealed, &outer, &opening, status, 0)
//! };
//! assert!(open(&mut buf).is_ok());
//! assert_eq!(buf[packet.range()], inner.to_bytes());
//! assert_eq!(open(&mut copy), Err(DropReason::InReplayDuplicate));
//! # Ok(())
//! # }
//! ```
//!
//! # Threads
//!
//! An [`Sa`] is shared by `Arc`. Its numbers have one writer at a time: who leases, counts
//! ([`LiveNumbers::count`]) and accepts. What one writer did happens before what the next one reads,
//! which is the caller's to arrange. The steps between touch the packet alone and may be any
//! thread's. With two writers sequence numbers stay unique; window and counters do not stay exact.
//!
//! # When something fails
//!
//! An error is a [`DropReason`](outcome::DropReason). A number is used up also where sealing fails.
//! A packet that fails inbound moves neither window nor counters but those of the failure, and
//! leaves no plaintext in the buffer.
//!
//! # Not handled
//!
//! BEET; fragments of ESP (reassemble before), and fragments in transport mode.
//! Lifetimes, selectors and whether the content is allowed under the SA are `policy`'s and the data
//! path's.
#![forbid(unsafe_code)]

mod ah;
mod ecn;
#[doc(hidden)]
pub mod fuzz;
mod header;
mod ipcomp;
mod iv;
mod live_numbers;
mod open;
mod params;
mod replay;
mod resync;
mod ring;
mod sa;
mod seal;
mod sequence;
mod size;
mod transport;
mod tunnel_headers;

pub use ecn::EcnDecap;
pub use ipcomp::Deflate;
pub use iv::IvSource;
pub use live_numbers::LiveNumbers;
pub use open::{Content, Opened, Opening};
pub use params::{Mode, Protocol, SaFlags, SaParams, UdpEncap};
pub use replay::ReplayWindow;
pub use resync::RESYNC_TRIES;
pub use ring::MAX_REPLAY_WINDOW;
pub use sa::{Sa, SaError};
pub use seal::Sealing;
pub use sequence::{Lease, Number, NumbersLeft};
pub use tunnel_headers::{OuterDf, OuterDscp, TunnelHeaders};
