//! Linux's first checks of an SA or a policy, and refusals of what is not carried.

use super::convert::mode;
use super::direction::{self, direction_of};
use super::fields::{counters, options_of, short_replay};
use super::iptfs;
use super::offload;
use super::sad::{ReplayForm, Sa, SaOptions};
use super::spd::{DIR_MASK, direction as policy_direction};
use crate::backend::{Counters, Replay};
use crate::clock::Now;
use crate::codec::{
    AF_INET, AF_INET6, Aead, Attributes, Auth, Cipher, Compression, Encap, EsnReplay, Field,
    LifetimeCurrent, PolicyInfo, ReplayState, SaInfo, SelectorInfo, Template, attr, constant as c,
};
use crate::failure::Failure;
use crate::suite::Algorithms;

/// An SA as a request describes it.
#[derive(Debug)]
pub(super) struct NewSa {
    pub info: SaInfo,
    pub options: SaOptions,
    pub algorithms: Algorithms,
    pub replay: ReplayForm,
    pub start: Replay,
    pub counters: Counters,
    /// When it was added, if the owner says so (an SA that moves).
    pub added_s: Option<u64>,
}

impl NewSa {
    /// The SA, as one that was added at this second.
    pub fn into_sa(self, added_s: u64, now: Now) -> Sa {
        let NewSa { mut info, options, algorithms, replay, .. } = self;
        info.current.add_time_s = added_s;
        Sa {
            info,
            options,
            algorithms: Some(algorithms),
            replay,
            added_mono_ms: now.mono_of(added_s),
            dying: false,
            deadline: None,
            mapping: None,
            tunnel_users: 0,
        }
    }
}

/// Checks a request to add or update an SA.
///
/// 1. Families and prefixes.
/// 2. Which algorithms go with the protocol.
/// 3. Replay state.
/// 4. Mode and direction.
/// 5. What is not carried.
/// 6. The algorithms themselves.
pub(super) fn new_sa(mut info: SaInfo, a: &Attributes<'_>) -> Result<NewSa, Failure> {
    if !matches!(info.family, AF_INET | AF_INET6) {
        return Err(Failure::Family);
    }
    if info.selector.family != 0 {
        selector(&info.selector)?;
    }
    protocol(&info, a)?;
    let too_short = |_| Failure::AlgorithmLength;
    let aead = a.bytes(attr::ALG_AEAD).map(Aead::decode).transpose().map_err(too_short)?;
    // The form with a truncation counts where both are given.
    let auth = match (a.bytes(attr::ALG_AUTH_TRUNC), a.bytes(attr::ALG_AUTH)) {
        (Some(bytes), _) => Some(Auth::decode_truncated(bytes)),
        (None, Some(bytes)) => Some(Auth::decode(bytes)),
        (None, None) => None,
    };
    let auth = auth.transpose().map_err(too_short)?;
    let cipher = a.bytes(attr::ALG_CRYPT).map(Cipher::decode).transpose().map_err(too_short)?;
    let compression = a.bytes(attr::ALG_COMP).map(Compression::decode);
    let compression = compression.transpose().map_err(too_short)?;
    security_context(a)?;
    let long = replay(&info, a)?;
    mode(info.mode)?;
    let direction = direction_of(a);
    iptfs::fits(&info, direction)?;
    direction::fits(direction, &info, a)?;
    if direction.is_none() && a.has(attr::SA_PCPU) {
        return Err(Failure::CpuWithoutDirection);
    }
    if a.has(attr::MTIMER_THRESH) && !a.has(attr::ENCAP) {
        return Err(Failure::MappingWithoutEncap);
    }
    info.replay_window = info.replay_window.min(32);
    if info.selector.family == 0 && info.flags & c::STATE_AF_UNSPEC == 0 {
        // Linux takes any prefix length here; a record of such an SA could not be taken back.
        info.selector.family = info.family;
        selector(&info.selector)?;
    }
    let family_differs = info.selector.family != 0 && info.selector.family != info.family;
    if family_differs && !mode(info.mode)?.is_tunnel() {
        return Err(Failure::SelectorFamilyDiffers);
    }
    if info.id.spi.0 == 0 {
        return Err(Failure::SpiZero);
    }
    let mut options = options(a, direction)?;
    let algorithms = match info.id.protocol {
        c::IPPROTO_AH if options.encap.is_some() => return Err(Failure::AhEncap),
        c::IPPROTO_COMP if options.encap.is_some() => return Err(Failure::IpCompEncap),
        c::IPPROTO_AH => Algorithms::settle_ah(auth)?,
        c::IPPROTO_COMP => Algorithms::settle_ipcomp(compression.ok_or(Failure::IpCompAlgorithm)?)?,
        _ => Algorithms::settle(aead, cipher, auth)?,
    };
    options.iptfs = iptfs::settings(&info, a, &algorithms, options.encap.is_some())?.map(Box::new);

    let short: ReplayState = a.value(attr::REPLAY_VAL).unwrap_or_default();
    let (form, start) = match long {
        Some(r) => (
            ReplayForm::Long { window: r.window, words: r.bitmap.len() },
            Replay { sent: r.sent, edge: r.edge, received: r.received() },
        ),
        None => (ReplayForm::Short, short_replay(&short)),
    };
    let current = a.value::<LifetimeCurrent>(attr::LTIME_VAL);
    let counters = current.as_ref().map(counters).unwrap_or_default();
    info.current = LifetimeCurrent::default();
    info.statistics = Default::default();
    let added_s = current.map(|l| l.add_time_s);
    Ok(NewSa { info, options, algorithms, replay: form, start, counters, added_s })
}

fn protocol(info: &SaInfo, a: &Attributes<'_>) -> Result<(), Failure> {
    let separate = a.has(attr::ALG_AUTH) || a.has(attr::ALG_AUTH_TRUNC) || a.has(attr::ALG_CRYPT);
    match info.id.protocol {
        c::IPPROTO_ESP if a.has(attr::ALG_COMP) => Err(Failure::AlgorithmConflict),
        c::IPPROTO_ESP if !separate && !a.has(attr::ALG_AEAD) => Err(Failure::NoAlgorithm),
        c::IPPROTO_ESP if separate && a.has(attr::ALG_AEAD) => Err(Failure::AlgorithmConflict),
        c::IPPROTO_ESP if a.has(attr::TFCPAD) && info.mode != c::MODE_TUNNEL => {
            Err(Failure::TfcMode)
        }
        c::IPPROTO_ESP
            if info.mode != c::MODE_IPTFS && (iptfs::is_inbound(a) || iptfs::is_outbound(a)) =>
        {
            Err(Failure::IptfsOptions)
        }
        c::IPPROTO_ESP => Ok(()),
        c::IPPROTO_AH if !a.has(attr::ALG_AUTH) && !a.has(attr::ALG_AUTH_TRUNC) => {
            Err(Failure::AhAlgorithm)
        }
        c::IPPROTO_AH
            if [attr::ALG_AEAD, attr::ALG_CRYPT, attr::ALG_COMP, attr::TFCPAD]
                .into_iter()
                .any(|kind| a.has(kind)) =>
        {
            Err(Failure::AhAttribute)
        }
        c::IPPROTO_AH => Ok(()),
        c::IPPROTO_COMP if !a.has(attr::ALG_COMP) => Err(Failure::IpCompAlgorithm),
        c::IPPROTO_COMP if separate || a.has(attr::ALG_AEAD) || a.has(attr::TFCPAD) => {
            Err(Failure::IpCompAttribute)
        }
        c::IPPROTO_COMP if info.id.spi.0 > u16::MAX.into() => Err(Failure::Cpi),
        c::IPPROTO_COMP => Ok(()),
        c::IPPROTO_DSTOPTS | c::IPPROTO_ROUTING => Err(Failure::MobileIpv6),
        _ => Err(Failure::Protocol),
    }
}

fn replay(info: &SaInfo, a: &Attributes<'_>) -> Result<Option<EsnReplay>, Failure> {
    let esn = info.flags & c::STATE_ESN != 0;
    let Some(bytes) = a.bytes(attr::REPLAY_ESN_VAL) else {
        return if esn { Err(Failure::EsnWithoutState) } else { Ok(None) };
    };
    let mut r = EsnReplay::decode(bytes).map_err(|_| Failure::ReplayState)?;
    if info.replay_window != 0 {
        return Err(Failure::ReplayWindowTwice);
    }
    if !r.window_fits() {
        return Err(Failure::ReplayWindow);
    }
    let direction = direction_of(a);
    if esn && r.window == 0 && direction != Some(c::SA_DIR_OUT) {
        return Err(Failure::ReplayWindowZero);
    }
    direction::replay_fits(direction, &r, esn)?;
    if !esn {
        // 32-bit numbers in the long form: the high halves mean nothing.
        r.sent &= u64::from(u32::MAX);
        r.edge &= u64::from(u32::MAX);
    }
    Ok(Some(r))
}

fn options(a: &Attributes<'_>, direction: Option<u8>) -> Result<SaOptions, Failure> {
    let encap = a.value::<Encap>(attr::ENCAP).map(Box::new);
    if encap.as_ref().is_some_and(|e| e.kind != c::UDP_ENCAP_ESPINUDP) {
        return Err(Failure::EncapKind);
    }
    not_carried(a)?;
    let offload = offload::wanted(a)?.map(Box::new);
    Ok(options_of(a, direction, encap, offload))
}

/// Refuses requests for what the database does not do.
pub(super) fn not_carried(a: &Attributes<'_>) -> Result<(), Failure> {
    if a.value::<u32>(attr::NAT_KEEPALIVE_INTERVAL).is_some_and(|s| s != 0) {
        return Err(Failure::Keepalive);
    }
    Ok(())
}

/// A security context must be sound; without a security module it then means nothing, as on Linux.
pub(super) fn security_context(a: &Attributes<'_>) -> Result<(), Failure> {
    let Some(bytes) = a.bytes(attr::SEC_CTX) else { return Ok(()) };
    let word = |at: usize| bytes.get(at..at + 2).and_then(|b| u16::decode(b).ok());
    match (word(0), word(6)) {
        (Some(len), Some(body))
            if usize::from(len) <= bytes.len() && u32::from(len) == u32::from(body) + 8 =>
        {
            Ok(())
        }
        _ => Err(Failure::SecurityContext),
    }
}

pub(super) fn selector(s: &SelectorInfo) -> Result<(), Failure> {
    let max = match s.family {
        AF_INET => 32,
        AF_INET6 => 128,
        _ => return Err(Failure::SelectorFamily),
    };
    if s.dst_prefix_len > max || s.src_prefix_len > max {
        return Err(Failure::PrefixLength);
    }
    Ok(())
}

/// Checks a policy and hands out its templates.
pub(super) fn new_policy(info: &PolicyInfo, a: &Attributes<'_>) -> Result<Vec<Template>, Failure> {
    if info.share > 3 {
        return Err(Failure::Share);
    }
    if !matches!(info.action, c::POLICY_ALLOW | c::POLICY_BLOCK) {
        return Err(Failure::PolicyAction);
    }
    selector(&info.selector)?;
    policy_direction(info.dir)?;
    if info.index != 0 && info.index & DIR_MASK != u32::from(info.dir) {
        return Err(Failure::PolicyIndex);
    }
    security_context(a)?;
    policy_type(a)?;
    templates(info, a)
}

fn templates(info: &PolicyInfo, a: &Attributes<'_>) -> Result<Vec<Template>, Failure> {
    let bytes = a.bytes(attr::TMPL).unwrap_or_default();
    let whole = bytes.chunks_exact(Template::LEN);
    if whole.len() > c::MAX_DEPTH {
        return Err(Failure::TemplateCount);
    }
    let outbound = policy_direction(info.dir)? == policy::Direction::Out;
    let mut family = info.selector.family;
    let mut templates = Vec::with_capacity(whole.len());
    for chunk in whole {
        let mut t = Template::decode(chunk).map_err(|_| Failure::HeaderLength)?;
        if t.family == 0 {
            t.family = info.selector.family;
        }
        match t.mode {
            c::MODE_TUNNEL | c::MODE_BEET | c::MODE_IPTFS if t.optional != 0 && outbound => {
                return Err(Failure::TemplateOptional);
            }
            c::MODE_TUNNEL | c::MODE_BEET | c::MODE_IPTFS => {}
            _ if t.family != family => return Err(Failure::TemplateFamilyChange),
            _ => {}
        }
        if t.mode >= c::MODE_MAX {
            return Err(Failure::TemplateMode);
        }
        family = t.family;
        if !matches!(family, AF_INET | AF_INET6) {
            return Err(Failure::TemplateFamily);
        }
        if !matches!(
            t.id.protocol,
            c::IPPROTO_ESP
                | c::IPPROTO_AH
                | c::IPPROTO_COMP
                | c::IPPROTO_ROUTING
                | c::IPPROTO_DSTOPTS
        ) {
            return Err(Failure::TemplateProtocol);
        }
        templates.push(t);
    }
    Ok(templates)
}

/// Only main policies are known, as in a kernel without sub-policies.
pub(super) fn policy_type(a: &Attributes<'_>) -> Result<(), Failure> {
    match a.bytes(attr::POLICY_TYPE) {
        None | Some([0, ..]) => Ok(()),
        Some(_) => Err(Failure::PolicyType),
    }
}
