//! One SA, ready for packets.

use core::mem::offset_of;
use core::sync::atomic::Ordering::Relaxed;

use crypto::{Session, Suite};
use mem::Cache;
use outcome::DropReason;
use thiserror::Error;
use wire::{Family, Fields};

use crate::ah;
use crate::ecn::{self, EcnDecap};
use crate::header::OuterTemplate;
use crate::live_numbers::LiveNumbers;
use crate::params::{Mode, Protocol, SaParams};
use crate::replay::ReplayWindow;
use crate::ring::{MAX_REPLAY_WINDOW, ring_words};
use crate::sequence::{self, Lease, NumbersLeft, last_number};
use crate::size::{Shape, base_header_len};
use crate::transport;
use crate::tunnel_headers::TunnelHeaders;

/// One SA: parameters, keyed crypto session, live numbers, and what was computed at install time.
///
/// An SA works in one direction, which the caller chooses by the functions it calls:
/// [`Sa::seal_prepare`] and [`Sa::seal_finish`], or [`Sa::open_prepare`] and [`Sa::open_finish`].
/// Between the two the caller runs a [`crypto::Job::esp`] on the ESP part of the packet; for AH on
/// what the two say.
///
/// Shared by `Arc`. One worker at a time for each SA: see [`LiveNumbers`]. Sequence numbers stay unique
/// even if that is broken; the replay window and the counters do not stay exact.
///
/// # Memory
/// Two cache lines are read for packets (outbound both, inbound the second), the third is control
/// data: 192 bytes. Beside it the live numbers ([`LiveNumbers::needed`]) and the session's keys.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Sa {
    /// First line: what sealing reads.
    pub(crate) template: OuterTemplate,
    /// Second line: where the live numbers and the keys are, and what opening reads.
    pub(crate) live: LiveNumbers,
    session: Session,
    pub(crate) shape: Shape,
    /// Control data: read where an SA is installed, listed or deleted, never for a packet.
    params: SaParams,
}

const _: () = assert!(offset_of!(Sa, params) <= 2 * mem::LINE_LEN, "two cache lines");
const _: () = assert!(size_of::<Sa>() <= 3 * mem::LINE_LEN, "and one of control data");

impl Sa {
    /// An SA from its parameters, keys and numbers. `live` may come from an earlier life of the
    /// same SA: numbers go on where they stood, under the same salt of IVs
    /// ([`LiveNumbers::iv_salt`]). They must be of the same replay window then, as
    /// its size decides where a number's bit is; after a change of size use
    /// [`ReplayWindow::restore`].
    ///
    /// # Errors
    /// When the three do not belong together; see [`SaError`].
    pub fn new(params: SaParams, session: Session, live: LiveNumbers) -> Result<Sa, SaError> {
        if session.suite() != params.suite {
            return Err(SaError::Suite { params: params.suite, session: session.suite() });
        }
        if params.src.is_ipv4() != params.dst.is_ipv4() {
            return Err(SaError::Families);
        }
        if params.spi == 0 {
            return Err(SaError::SpiZero);
        }
        let is_alone = params.encap.is_none() && params.tfc_pad_len == 0;
        match params.protocol {
            Protocol::Esp if params.suite == Suite::None => return Err(SaError::NoAlgorithm),
            Protocol::Ah if !is_alone || !ah::is_for(params.suite) => return Err(SaError::Ah),
            protocol if protocol.is_bare() => {
                let is_numbered = params.esn || params.replay_window != 0;
                let is_cpi = params.spi <= u16::MAX.into() || protocol != Protocol::IpComp;
                let is_tunnel = params.mode.is_tunnel() || protocol == Protocol::IpComp;
                let has_none = params.suite == Suite::None && is_alone && !is_numbered;
                if !(has_none && is_cpi && is_tunnel) {
                    return Err(SaError::IpComp);
                }
            }
            _ => {}
        }
        if params.replay_window > MAX_REPLAY_WINDOW {
            return Err(SaError::ReplayWindow(params.replay_window));
        }
        let (needed, given) = (ring_words(params.replay_window), live.bitmap().len());
        if given < needed {
            return Err(SaError::LiveNumbers { needed, given });
        }
        let iv_salt = match params.suite.has_counter_iv() {
            true => live.iv_salt().map_err(SaError::Random)?,
            false => 0,
        };
        let (template, shape) = (OuterTemplate::new(&params, iv_salt), Shape::new(&params));
        Ok(Sa { template, live, session, shape, params })
    }

    /// The same SA with other rules for the headers of tunnels. Without meaning for transport mode.
    #[must_use]
    pub fn with_tunnel_headers(mut self, headers: TunnelHeaders) -> Sa {
        self.template.set_headers(self.params.flags, headers);
        self.shape.set_ecn_decap(headers.ecn);
        self
    }

    /// The same SA with a salt of IVs that is known beforehand, instead of the random one of its live
    /// numbers: for known answers in tests. Two SAs of one key would repeat nonces by it.
    #[must_use]
    pub fn with_iv_salt(mut self, iv_salt: u64) -> Sa {
        self.template.iv_salt = iv_salt;
        self
    }

    /// The same SA, whose outbound numbers have a ceiling: the last number that its owner (a kernel that has
    /// the same SA) lets be leased. Of live numbers that were made with one
    /// ([`LiveNumbers::on_heap_with_ceiling`]), which stay when an SA is replaced: then it is
    /// `old.has_ceiling()`.
    #[must_use]
    pub fn with_ceiling(mut self, has_ceiling: bool) -> Sa {
        self.template.has_ceiling = has_ceiling;
        self
    }

    /// True if outbound numbers have a ceiling.
    pub fn has_ceiling(&self) -> bool {
        self.template.has_ceiling
    }

    /// The last outbound number that may be leased, if that is less than all.
    pub fn ceiling(&self) -> Option<u64> {
        let word = self.live.ceiling().filter(|_| self.template.has_ceiling);
        word.map(|ceiling| ceiling.load(Relaxed))
    }

    /// Raises the ceiling, for an SA that has one; it is never lowered. The owner's call, once nobody else
    /// uses a number up to there.
    pub fn raise_ceiling(&self, ceiling: u64) {
        if let Some(word) = self.live.ceiling().filter(|_| self.template.has_ceiling) {
            word.fetch_max(ceiling, Relaxed);
        }
    }

    /// The parameters that it was installed with.
    pub fn params(&self) -> &SaParams {
        &self.params
    }

    /// True in tunnel mode, false in transport mode.
    #[inline]
    pub fn is_tunnel(&self) -> bool {
        self.shape.mode().is_tunnel()
    }

    /// True if it carries payloads of IP-TFS (RFC 9347), which it seals as packets of
    /// [`Fields::opaque`].
    #[inline]
    pub fn is_iptfs(&self) -> bool {
        self.shape.is_iptfs()
    }

    /// The traffic class of a packet that came in a payload of IP-TFS, by its own and that of the outer header: as Linux
    /// has it, which drops none of those in a payload for a mark of congestion that it cannot carry.
    pub fn class_in_payload(&self, inner: u8, outer: u8) -> u8 {
        let flags = self.params.flags;
        let ecn = match flags.no_ecn {
            true => inner & ecn::MASK,
            // Drops nothing.
            false => EcnDecap::Linux.combine(inner, outer).unwrap_or(inner & ecn::MASK),
        };
        let dscp = if flags.decap_dscp { outer } else { inner } & !ecn::MASK;
        dscp | ecn
    }

    /// True if the protocol is AH.
    #[inline]
    pub fn is_ah(&self) -> bool {
        self.shape.is_ah()
    }

    /// True if the protocol is IPComp: see [`Sa::compress`] and [`Sa::decompress`].
    #[inline]
    pub fn is_ipcomp(&self) -> bool {
        self.shape.is_ipcomp()
    }

    /// The live numbers.
    pub fn live(&self) -> &LiveNumbers {
        &self.live
    }

    /// The crypto session, for jobs.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Brings the SA's own lines near that sealing reads. Waits for nothing, and reads nothing of
    /// the SA.
    #[inline]
    pub fn prefetch_to_seal(&self, cache: Cache) {
        mem::prefetch_into(cache, &self.template);
        mem::prefetch_into(cache, &self.live);
    }

    /// Brings the SA's own line near that opening reads, as [`Sa::prefetch_to_seal`].
    #[inline]
    pub fn prefetch_to_open(&self, cache: Cache) {
        mem::prefetch_into(cache, &self.live);
    }

    /// Brings the live numbers near that every packet touches. Best called when the SA's own lines have had time
    /// to come, some packets later. What else a packet touches of a replay window is known when its number
    /// is, see [`ReplayWindow::prefetch`].
    #[inline]
    pub fn prefetch_numbers(&self, cache: Cache) {
        self.live.prefetch(cache);
    }

    /// The replay window.
    pub fn replay(&self) -> ReplayWindow<'_> {
        ReplayWindow::new(&self.live, self.shape)
    }

    /// Leases up to `n` consecutive outbound numbers, for a run of packets of this SA; fewer where
    /// the end of all numbers, or the ceiling, is near.
    ///
    /// Each goes into one packet, by [`Sa::seal_prepare`]. Unique whatever threads do. The number
    /// is moved past all of them before the first is used, so that a crash skips numbers and
    /// repeats none.
    ///
    /// # Errors
    /// [`DropReason::OutSequenceExhausted`] when the last number has been leased, and
    /// [`DropReason::OutLease`] when the ceiling has.
    #[inline]
    pub fn lease(&self, n: u32) -> Result<Lease, DropReason> {
        let mut last = last_number(self.shape.esn());
        if self.template.has_ceiling {
            last = last.min(self.ceiling().unwrap_or(0));
        }
        sequence::lease(self.live.sent(), last, n).map_err(|_| self.no_number())
    }

    /// Why there is no number for a packet.
    #[cold]
    pub fn no_number(&self) -> DropReason {
        let is_left = self.live.sent().load(Relaxed) < last_number(self.shape.esn());
        match self.has_ceiling() && is_left {
            true => DropReason::OutLease,
            false => DropReason::OutSequenceExhausted,
        }
    }

    /// How many outbound numbers are left: alarm before the last is used, also without ESN.
    pub fn numbers_left(&self) -> NumbersLeft {
        sequence::numbers_left(self.live.sent(), self.template.esn)
    }

    /// How many outbound numbers can be leased before few are left ([`NumbersLeft::Low`]).
    pub fn numbers_until_low(&self) -> u64 {
        sequence::numbers_until_low(self.live.sent(), self.params.esn)
    }

    /// The most that sealing adds to a packet, in bytes: headers, IV, the longest padding that
    /// alignment asks for, trailer, ICV. TFC padding is not in it.
    pub fn overhead(&self) -> usize {
        let g = self.shape.geometry();
        g.headroom() + g.pad_max() + usize::from(g.trailer_len) + usize::from(g.behind_len)
    }

    /// The room in bytes that [`Sa::seal_prepare`] needs in front of a packet.
    pub fn headroom(&self) -> usize {
        self.shape.geometry().headroom()
    }

    /// The longest packet that fits an outer MTU once it is sealed, in bytes with its IP header;
    /// 0 if none does.
    ///
    /// Tunnel mode: the inner packet. Transport mode: a packet without IPv4 options and extension
    /// headers; for others see [`Sa::sealed_len_of`].
    pub fn max_inner_len(&self, mtu: usize) -> usize {
        let visible = match self.params.mode {
            Mode::Tunnel | Mode::Iptfs => 0,
            Mode::Transport => base_header_len(&self.params),
        };
        self.shape.geometry().max_payload_len(visible, mtu).map_or(0, |payload| visible + payload)
    }

    /// The length in bytes that a packet will have once it is sealed, without TFC padding: fits
    /// the MTU or not, whatever options and extension headers stay in front of ESP.
    ///
    /// `h` was parsed from `packet`.
    ///
    /// # Errors
    /// Transport mode: [`DropReason::OutMode`] and [`DropReason::MalformedIp`] as
    /// [`Sa::seal_prepare`].
    pub fn sealed_len_of(&self, packet: &[u8], h: impl Into<Fields>) -> Result<usize, DropReason> {
        let h = h.into();
        let visible_len = match self.params.mode {
            Mode::Tunnel | Mode::Iptfs => 0,
            Mode::Transport => transport::split(packet, h)?.len,
        };
        Ok(self.sealed_len(usize::from(h.total_len()), visible_len))
    }

    /// How much of a packet stays in front of what is protected, in bytes: nothing in tunnel mode.
    ///
    /// `h` was parsed from `packet`.
    ///
    /// # Errors
    /// Transport mode: [`DropReason::OutMode`] and [`DropReason::MalformedIp`] as
    /// [`Sa::seal_prepare`].
    pub fn visible_len(&self, packet: &[u8], h: impl Into<Fields>) -> Result<usize, DropReason> {
        let h = h.into();
        match self.params.mode {
            Mode::Tunnel | Mode::Iptfs => Ok(0),
            Mode::Transport if (h.family() == Family::V4) != self.shape.is_v4() => {
                Err(DropReason::OutMode)
            }
            Mode::Transport => Ok(transport::split(packet, h)?.len),
        }
    }

    /// The length in bytes of a tunnel's outer IP header.
    pub fn outer_header_len(&self) -> usize {
        base_header_len(&self.params)
    }

    /// The length in bytes of the sealed packet, without TFC padding, by lengths alone.
    ///
    /// `visible_len`: in transport mode the length of the headers that stay in front of ESP; 0 in
    /// tunnel mode.
    pub fn sealed_len(&self, packet_len: usize, visible_len: usize) -> usize {
        self.shape.geometry().sealed_len(visible_len, packet_len.saturating_sub(visible_len))
    }
}

/// The reason that an SA could not be made. Each is the caller's fault, or the operator's that
/// configured the SA.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum SaError {
    /// The session was made for another suite.
    #[error("the SA is for {params}, its crypto session for {session}")]
    Suite {
        /// The suite in the parameters.
        params: crypto::Suite,
        /// The suite of the session that was handed in.
        session: crypto::Suite,
    },
    /// Source and destination are of different families.
    #[error("source and destination address are of different families")]
    Families,
    /// SPI 0 never appears on the wire (RFC 4303 §2.1).
    #[error("SPI 0 is reserved")]
    SpiZero,
    /// AH encrypts nothing, has no padding, and does not go through NAT (RFC 3948 §1).
    #[error("AH takes an integrity algorithm alone, without UDP encapsulation and TFC padding")]
    Ah,
    /// ESP encrypts or authenticates.
    #[error("ESP goes with an algorithm")]
    NoAlgorithm,
    /// IPComp has no numbers, and never travels in UDP by itself.
    #[error(
        "IPComp and IP in IP go without algorithms of an engine, replay window, UDP encapsulation and TFC \
         padding; a CPI has 16 bits"
    )]
    IpComp,
    /// The IVs of a counter mode need a random salt.
    #[error("the kernel gives no random bytes for the salt of the IVs: {0}")]
    Random(getrandom::Error),
    /// The replay window is too large.
    #[error("a replay window of {0} packets is above 65536")]
    ReplayWindow(u32),
    /// The live numbers were made for a smaller replay window.
    #[error("the replay window needs a bitmap of {needed} words, the live numbers have {given}")]
    LiveNumbers {
        /// Words that the window needs.
        needed: usize,
        /// Words of the memory that was handed in.
        given: usize,
    },
}

#[cfg(test)]
mod tests {
    use crypto::{AesKey, IcvLen, Integrity, Suite};

    use super::*;
    use crate::params::SaFlags;

    const GCM: Suite = Suite::AesGcm { key: AesKey::Aes128, icv: IcvLen::Icv16 };

    fn params() -> SaParams {
        SaParams {
            spi: 0x100,
            src: "192.0.2.1".parse().unwrap(),
            dst: "192.0.2.2".parse().unwrap(),
            protocol: Protocol::Esp,
            mode: Mode::Tunnel,
            suite: GCM,
            encap: None,
            esn: false,
            replay_window: 128,
            tfc_pad_len: 0,
            flags: SaFlags::default(),
        }
    }

    fn session(suite: Suite) -> Session {
        Session::new(suite, Box::new(()))
    }

    #[test]
    fn parts_that_do_not_belong_together_are_refused() {
        let refused = |params: SaParams, suite, window| {
            Sa::new(params, session(suite), LiveNumbers::on_heap(window)).map(|_| ()).unwrap_err()
        };
        let null = Suite::integrity_only(Integrity::Sha1_96);
        assert_eq!(refused(params(), null, 128), SaError::Suite { params: GCM, session: null });
        let mixed = SaParams { src: "2001:db8::1".parse().unwrap(), ..params() };
        assert_eq!(refused(mixed, GCM, 128), SaError::Families);
        assert_eq!(refused(SaParams { spi: 0, ..params() }, GCM, 128), SaError::SpiZero);
        let wide = SaParams { replay_window: 65537, ..params() };
        assert_eq!(refused(wide, GCM, 65536), SaError::ReplayWindow(65537));
        assert_eq!(refused(params(), GCM, 64), SaError::LiveNumbers { needed: 4, given: 2 });
        assert!(Sa::new(params(), session(GCM), LiveNumbers::on_heap(128)).is_ok());
    }

    #[test]
    fn overhead_bounds_every_length() {
        for suite in Suite::all() {
            let sa =
                Sa::new(SaParams { suite, ..params() }, session(suite), LiveNumbers::on_heap(128));
            let sa = sa.unwrap();
            let added = (20..1500).map(|len| sa.sealed_len(len, 0) - len);
            assert_eq!(added.max(), Some(sa.overhead()));
        }
        // Worked by hand: 20 IPv4 + 8 ESP + 8 IV + 3 padding + 2 trailer + 16 ICV.
        let sa = Sa::new(params(), session(GCM), LiveNumbers::on_heap(128)).unwrap();
        assert_eq!(sa.overhead(), 57);
        assert_eq!(sa.headroom(), 36);
        assert_eq!(sa.max_inner_len(1500), 1446);
        assert_eq!(sa.max_inner_len(50), 0);
    }

    #[test]
    fn an_sa_can_be_shared() {
        fn shared<T: Send + Sync>() {}
        shared::<Sa>();
    }
}
