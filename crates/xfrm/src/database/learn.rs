//! The kernel's SAs and policies, learned from its messages as a data path needs them.
//!
//! The kernel sends what a request would have: the same checks, and the same reasons where something
//! cannot be carried. Such an SA stays the kernel's, and its identity is known all the same.

use core::net::IpAddr;

use crypto::Keys;
use esp::Mode;
use policy::{Action, Direction, PolicyConfig, PolicyFlags, SaConfig, SaId};

use super::convert::{mark, mode, selector};
use super::emit::put_replay;
use super::fields::{counters, if_id_of, mark_of, short_replay};
use super::record::parse;
use super::spd::{Policy, direction};
use super::verify::{new_policy, new_sa};
use crate::backend::{Counters, Replay};
use crate::clock::Now;
use crate::codec::{
    Attributes, EsnReplay, Field, LifetimeConfig, LifetimeCurrent, MessageWriter, PolicyInfo,
    ReplayState, SaInfo, Template, attr, constant as c,
};
use crate::failure::Failure;

/// An SA of the kernel's.
#[derive(Debug)]
pub struct LearntSa {
    /// Identity of the SA.
    pub id: SaId,
    /// Outer source address.
    pub src: IpAddr,
    /// Ties it to templates.
    pub reqid: u32,
    /// XFRM interface id, 0 for none.
    pub if_id: u32,
    /// Mode of the SA (`XFRM_MODE_*`).
    pub mode: u8,
    /// True if it has no keys yet: reserved, or asked for.
    pub is_larval: bool,
    /// A device has it (`XFRMA_OFFLOAD_DEV`).
    pub is_offloaded: bool,
    /// Limits by volume and by time.
    pub limits: LifetimeConfig,
    /// Numbers and counters, at the moment of the message.
    pub numbers: KernelNumbers,
    /// Parameters and keys for the data path, or the reason that it cannot carry the SA.
    pub carried: Result<(SaConfig, Keys), Failure>,
}

/// A policy of the kernel's.
#[derive(Clone, Debug)]
pub struct LearntPolicy {
    /// Of a socket: for that socket's packets alone.
    pub is_of_socket: bool,
    /// As the data path needs it. Where it cannot be carried it is [`Action::Leave`]: outbound without
    /// templates, inbound with some that say that it asks for protection.
    pub config: PolicyConfig,
    /// Why it cannot be carried.
    pub failure: Option<Failure>,
    /// Keys of its templates, also where the policy cannot be carried.
    pub wanted: Vec<Wanted>,
}

/// The fields by which a template finds SAs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Wanted {
    /// IP protocol of the SA.
    pub protocol: u8,
    /// Mode of the SA (`XFRM_MODE_*`).
    pub mode: u8,
    /// Ties to SAs.
    pub reqid: u32,
    /// SPI, 0 for any.
    pub spi: u32,
    /// Outer source and destination, where the template names them.
    pub ends: Option<(IpAddr, IpAddr)>,
}

/// Sequence numbers and counters of an SA, and how the kernel wants them described.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelNumbers {
    /// Sequence numbers and replay window.
    pub replay: Replay,
    /// Size of the long form's window in packets and its bitmap in words; `None` for the short form.
    pub long_form: Option<(u32, usize)>,
    /// Bytes and packets carried.
    pub counters: Counters,
    /// Wall-clock second when it was added.
    pub added_s: u64,
}

impl KernelNumbers {
    /// From the attributes of a message, and the lifetime in its fixed part or in an attribute.
    ///
    /// # Errors
    /// The bitmap does not fit its attribute.
    pub(crate) fn decode(
        a: &Attributes<'_>,
        current: &LifetimeCurrent,
    ) -> Result<KernelNumbers, Failure> {
        let (replay, long_form) = match a.bytes(attr::REPLAY_ESN_VAL) {
            Some(bytes) => {
                let long = EsnReplay::decode(bytes).map_err(|_| Failure::ReplayState)?;
                let received = long.received();
                let form = (long.window, long.bitmap.len());
                (Replay { sent: long.sent, edge: long.edge, received }, Some(form))
            }
            None => {
                let short: ReplayState = a.value(attr::REPLAY_VAL).unwrap_or_default();
                (short_replay(&short), None)
            }
        };
        let (counters, added_s) = (counters(current), current.add_time_s);
        Ok(KernelNumbers { replay, long_form, counters, added_s })
    }

    /// Appends the sequence numbers as an attribute of `NEWAE`.
    pub(crate) fn write_replay(&self, w: &mut MessageWriter) {
        put_replay(w, self.long_form, &self.replay);
    }

    /// Appends the counters as an attribute of `NEWAE`.
    pub(crate) fn write_counters(&self, w: &mut MessageWriter) {
        w.field(
            attr::LTIME_VAL,
            &LifetimeCurrent {
                bytes: self.counters.bytes,
                packets: self.counters.packets,
                // What is set is all of it.
                add_time_s: self.added_s,
                use_time_s: self.counters.first_use_s,
            },
        );
    }
}

impl LearntSa {
    /// From the body of a `NEWSA` or `UPDSA` message of the kernel's. `generation` orders SAs of one
    /// second, larger is younger.
    ///
    /// # Errors
    /// The message is damaged, or its addresses are of no family that is known.
    pub fn decode(body: &[u8], generation: u64, now: Now) -> Result<LearntSa, Failure> {
        let (info, a) = parse::<SaInfo>(body)?;
        let (dst, src) = (info.id.dst.ip(info.family), info.src.ip(info.family));
        let (dst, src) = dst.zip(src).ok_or(Failure::Family)?;
        let algorithms = [attr::ALG_AEAD, attr::ALG_AUTH, attr::ALG_AUTH_TRUNC, attr::ALG_CRYPT];
        let is_larval = matches!(info.id.protocol, c::IPPROTO_ESP | c::IPPROTO_AH)
            && !algorithms.iter().any(|kind| a.has(*kind));
        Ok(LearntSa {
            id: SaId {
                dst,
                spi: info.id.spi.0,
                protocol: info.id.protocol,
                mark: mark(&mark_of(&a)),
            },
            src,
            reqid: info.reqid,
            if_id: if_id_of(&a),
            mode: info.mode,
            is_larval,
            is_offloaded: a.has(attr::OFFLOAD_DEV),
            limits: info.limits.clone(),
            numbers: KernelNumbers::decode(&a, &info.current)?,
            carried: carried(info, &a, generation, now),
        })
    }
}

fn carried(
    info: SaInfo,
    a: &Attributes<'_>,
    generation: u64,
    now: Now,
) -> Result<(SaConfig, Keys), Failure> {
    let added_s = info.current.add_time_s;
    let (config, keys) = new_sa(info, a)?.into_sa(added_s, now).config(generation)?;
    // A locked-down kernel tells zeros for keys.
    let all = [&keys.cipher, &keys.salt, &keys.auth];
    let is_hidden = !config.params.protocol.is_bare()
        && all.iter().all(|key| key.iter().all(|byte| *byte == 0))
        && all.iter().any(|key| !key.is_empty());
    if is_hidden { Err(Failure::HiddenKeys) } else { Ok((config, keys)) }
}

impl LearntPolicy {
    /// From the body of a `NEWPOLICY` or `UPDPOLICY` message of the kernel's.
    ///
    /// # Errors
    /// The message is damaged.
    pub fn decode(body: &[u8]) -> Result<LearntPolicy, Failure> {
        let (info, a) = parse::<PolicyInfo>(body)?;
        let is_of_socket = info.dir > c::POLICY_DIR_LAST;
        let direction = if is_of_socket { Direction::Out } else { direction(info.dir)? };
        let wanted = wanted(&a);
        let mut left = PolicyConfig {
            index: info.index,
            direction,
            selector: selector(&info.selector).ok_or(Failure::SelectorFamily)?,
            priority: info.priority,
            action: Action::Leave,
            templates: Vec::new(),
            flags: PolicyFlags::default(),
            mark: mark(&mark_of(&a)),
            if_id: if_id_of(&a),
        };
        if direction != Direction::Out {
            left.templates = wanted.iter().map(Wanted::template).collect();
        }
        let (config, failure) = match config(info, &a) {
            Ok(config) => (config, None),
            Err(failure) => (left, Some(failure)),
        };
        Ok(LearntPolicy { is_of_socket, config, failure, wanted })
    }
}

impl Wanted {
    /// A template that asks for about the same, in a mode that there is.
    fn template(&self) -> policy::Template {
        let unspecified = IpAddr::V4(core::net::Ipv4Addr::UNSPECIFIED);
        let (src, dst) = self.ends.unwrap_or((unspecified, unspecified));
        let mode = mode(self.mode).unwrap_or(Mode::Tunnel);
        let Wanted { spi, protocol, reqid, .. } = *self;
        policy::Template { src, dst, spi, protocol, mode, reqid, optional: false }
    }
}

fn wanted(a: &Attributes<'_>) -> Vec<Wanted> {
    let templates = a.bytes(attr::TMPL).unwrap_or_default().chunks_exact(Template::LEN);
    let templates = templates.filter_map(|bytes| Template::decode(bytes).ok());
    let wanted = templates.map(|t| {
        let ends = t.src.ip(t.family).zip(t.id.dst.ip(t.family));
        Wanted {
            protocol: t.id.protocol,
            mode: t.mode,
            reqid: t.reqid,
            spi: t.id.spi.0,
            ends: ends.filter(|(_, dst)| t.mode != c::MODE_TRANSPORT && !dst.is_unspecified()),
        }
    });
    wanted.collect()
}

fn config(info: PolicyInfo, a: &Attributes<'_>) -> Result<PolicyConfig, Failure> {
    let templates = new_policy(&info, a)?;
    let (mark, if_id) = (mark_of(a), if_id_of(a));
    let offload = None;
    Policy { info, templates, mark, if_id, offload, added_mono_ms: 0, deadline: None }.config()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::codec::{
        AF_INET, Aead, Be32, Field, Header, Id, LifetimeConfig, MessageWriter, Offload, SaInfo,
        SelectorInfo, kind,
    };

    fn info() -> SaInfo {
        let ip = |last| IpAddr::from([192, 0, 2, last]).into();
        SaInfo {
            id: Id { dst: ip(2), spi: Be32(0x1001), protocol: c::IPPROTO_ESP, ..Id::default() },
            src: ip(1),
            family: AF_INET,
            mode: c::MODE_TUNNEL,
            reqid: 7,
            current: LifetimeCurrent { bytes: 100, packets: 2, add_time_s: 50, use_time_s: 60 },
            replay_window: 32,
            ..SaInfo::default()
        }
    }

    fn body(info: &SaInfo, attributes: impl FnOnce(&mut MessageWriter)) -> Vec<u8> {
        let mut w = MessageWriter::new(kind::NEWSA, 0, 1, 0);
        w.fixed(info);
        attributes(&mut w);
        w.finish()[Header::LEN..].to_vec()
    }

    /// `rfc4106(gcm(aes))` with a key of 16 bytes, a salt of 4 and an ICV of 16.
    fn aead(key: &[u8; 20]) -> Vec<u8> {
        let mut bytes = b"rfc4106(gcm(aes))".to_vec();
        bytes.resize(64, 0);
        bytes.extend((key.len() as u32 * 8).to_ne_bytes());
        bytes.extend(128u32.to_ne_bytes());
        bytes.extend(key);
        assert!(Aead::decode(&bytes).is_ok());
        bytes
    }

    fn learn(body: &[u8]) -> LearntSa {
        LearntSa::decode(body, 3, Now { wall_s: 70, mono_ms: 1000 }).expect("sound")
    }

    #[test]
    fn an_sa_is_learnt_with_its_keys_and_numbers() {
        let replay = ReplayState { oseq: 9, seq: 40, bitmap: 0b101 };
        let sa = learn(&body(&info(), |w| {
            w.attribute(attr::ALG_AEAD, &aead(&[5; 20]));
            w.field(attr::REPLAY_VAL, &replay);
        }));
        assert_eq!((sa.id.spi, sa.reqid, sa.is_larval, sa.is_offloaded), (0x1001, 7, false, false));
        let (config, keys) = sa.carried.expect("carried");
        assert_eq!((config.added_s, config.generation, config.params.replay_window), (50, 3, 32));
        assert_eq!((&keys.cipher[..], &keys.salt[..]), (&[5; 16][..], &[5; 4][..]));
        let received = vec![0b101];
        assert_eq!(sa.numbers.replay, Replay { sent: 9, edge: 40, received });
        assert_eq!(sa.numbers.counters, Counters { bytes: 100, packets: 2, first_use_s: 60 });
        assert_eq!((sa.numbers.added_s, sa.numbers.long_form), (50, None));
    }

    #[test]
    fn what_is_told_back_is_what_was_learnt() {
        let long =
            EsnReplay { sent: 1 << 33, edge: 77, window: 128, bitmap: vec![6, 0, 1 << 12, 0] };
        let info = SaInfo { flags: c::STATE_ESN, replay_window: 0, ..info() };
        let sa = learn(&body(&info, |w| {
            w.attribute(attr::ALG_AEAD, &aead(&[5; 20]));
            w.attribute(attr::REPLAY_ESN_VAL, &long.to_bytes());
        }));
        assert_eq!(sa.numbers.long_form, Some((128, 4)));
        let mut w = MessageWriter::new(kind::NEWAE, 0, 1, 0);
        sa.numbers.write_replay(&mut w);
        sa.numbers.write_counters(&mut w);
        let message = w.finish();
        let a = Attributes::parse(&message[Header::LEN..]).expect("sound");
        assert_eq!(a.bytes(attr::REPLAY_ESN_VAL), Some(&long.to_bytes()[..]));
        assert_eq!(a.value(attr::LTIME_VAL), Some(info.current));
    }

    #[test]
    fn what_cannot_be_carried_has_its_reason() {
        let beet = SaInfo { mode: c::MODE_BEET, ..info() };
        let key = |w: &mut MessageWriter, key: &[u8; 20]| {
            w.attribute(attr::ALG_AEAD, &aead(key));
        };
        let sa = learn(&body(&beet, |w| key(w, &[5; 20])));
        assert_eq!((sa.mode, sa.carried.err()), (c::MODE_BEET, Some(Failure::ModeUnsupported)));
        let sa = learn(&body(&info(), |w| key(w, &[0; 20])));
        assert_eq!(sa.carried.err(), Some(Failure::HiddenKeys));
        let sa = learn(&body(&info(), |w| {
            key(w, &[5; 20]);
            w.field(attr::OFFLOAD_DEV, &Offload { ifindex: 2, ..Offload::default() });
        }));
        assert!(sa.is_offloaded);
        assert!(learn(&body(&info(), |_| {})).is_larval);
        assert_eq!(
            LearntSa::decode(&[0; 100], 1, Now::default()).err(),
            Some(Failure::HeaderLength)
        );
    }

    fn policy(dir: u8, template: &Template) -> LearntPolicy {
        let mut w = MessageWriter::new(kind::NEWPOLICY, 0, 1, 0);
        let limits = LifetimeConfig::unlimited();
        let selector = SelectorInfo { family: AF_INET, ..SelectorInfo::default() };
        w.fixed(&PolicyInfo {
            selector,
            limits,
            index: 8 + u32::from(dir),
            dir,
            ..PolicyInfo::default()
        });
        w.field(attr::TMPL, template);
        LearntPolicy::decode(&w.finish()[Header::LEN..]).expect("sound")
    }

    fn template(mode: u8) -> Template {
        let ip = |last| IpAddr::from([192, 0, 2, last]).into();
        let id = Id { dst: ip(2), protocol: c::IPPROTO_ESP, ..Id::default() };
        Template { id, family: AF_INET, src: ip(1), reqid: 7, mode, ..Template::default() }
    }

    #[test]
    fn a_policy_is_learnt_and_one_that_is_not_carried_is_left() {
        let out = policy(1, &template(c::MODE_TUNNEL));
        assert_eq!((out.failure, out.config.action, out.config.index), (None, Action::Allow, 9));
        let ends = ([192, 0, 2, 1].into(), [192, 0, 2, 2].into());
        let wanted = Wanted { protocol: 50, mode: 1, reqid: 7, spi: 0, ends: Some(ends) };
        assert_eq!(out.wanted, [wanted]);
        // Outbound nobody may take it for protection; inbound it must not look like none.
        let beet = template(c::MODE_BEET);
        let out = policy(1, &beet);
        assert_eq!(
            (out.failure, out.config.action),
            (Some(Failure::ModeUnsupported), Action::Leave)
        );
        assert!(out.config.templates.is_empty() && out.wanted[0].mode == c::MODE_BEET);
        let inbound = policy(0, &beet);
        assert_eq!((inbound.config.action, inbound.config.templates.len()), (Action::Leave, 1));
        assert!(policy(3, &template(c::MODE_TUNNEL)).is_of_socket);
    }

    proptest! {
        #[test]
        fn noise_never_panics(noise in proptest::collection::vec(any::<u8>(), 0..700)) {
            let _ = LearntSa::decode(&noise, 1, Now::default());
            let _ = LearntPolicy::decode(&noise);
        }
    }
}
