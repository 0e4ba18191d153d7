//! The messages that describe SAs and policies, with their live numbers.

use super::Database;
use super::envelope::Envelope;
use super::iptfs;
use super::sad::Sa;
use super::spd::Policy;
use crate::backend::{Backend, Replay, SaLive};
use crate::codec::{
    AeventId, EsnReplay, Expire, Field, LifetimeCurrent, MarkAttribute, Message, MessageWriter,
    Pad, PolicyExpire, PolicyId, PolicyInfo, ReplayState, SaId, SaInfo, Statistics, attr,
    constant as c, kind,
};
use crate::suite::Algorithms;

impl<B: Backend> Database<B> {
    /// The SA's live numbers, all zero for a larval one.
    pub(super) fn live(&self, sa: &Sa) -> SaLive {
        if sa.larval() {
            return SaLive::default();
        }
        self.backend.sa_live(&sa.id()).unwrap_or_default()
    }

    /// A `NEWSA` or `UPDSA` message.
    pub(super) fn sa_message(&self, kind: u16, sa: &Sa, e: Envelope) -> Message {
        let live = self.live(sa);
        let mut w = e.writer(kind);
        w.fixed(&sa_info(sa, &live));
        sa_attributes(&mut w, sa, &live);
        w.finish()
    }

    /// A `DELSA` message.
    pub(super) fn sa_deleted_message(&self, sa: &Sa, e: Envelope) -> Message {
        let live = self.live(sa);
        let mut w = e.writer(kind::DELSA);
        w.fixed(&sa_id(sa));
        w.field(attr::SA, &sa_info(sa, &live));
        sa_attributes(&mut w, sa, &live);
        w.finish()
    }

    /// An `EXPIRE` message.
    pub(super) fn expire_message(&self, sa: &Sa, hard: bool, port_id: u32) -> Message {
        let live = self.live(sa);
        let mut w = Envelope { port_id, ..Envelope::default() }.writer(kind::EXPIRE);
        w.fixed(&Expire { sa: sa_info(sa, &live), hard: hard.into(), pad: Pad });
        put_mark(&mut w, &sa.options.mark);
        put_number(&mut w, attr::IF_ID, sa.options.if_id);
        put_cpu_and_direction(&mut w, sa);
        w.finish()
    }

    /// A `NEWAE` message.
    pub(super) fn aevent_message(&self, sa: &Sa, flags: u32, e: Envelope) -> Message {
        let live = self.live(sa);
        let mut w = e.writer(kind::NEWAE);
        let src = sa.info.src;
        w.fixed(&AeventId { sa: sa_id(sa), src, flags, reqid: sa.info.reqid });
        put_replay(&mut w, sa.replay.long(), &live.replay);
        w.field(attr::LTIME_VAL, &current(sa, &live));
        if flags & c::AE_RTHR != 0 {
            w.field(attr::REPLAY_THRESH, &sa.options.replay_threshold);
        }
        if flags & c::AE_ETHR != 0 {
            w.field(attr::ETIMER_THRESH, &sa.options.timer_threshold);
        }
        put_mark(&mut w, &sa.options.mark);
        put_number(&mut w, attr::IF_ID, sa.options.if_id);
        put_cpu_and_direction(&mut w, sa);
        w.finish()
    }

    /// The policy's fixed struct with its live numbers.
    pub(super) fn policy_info(&self, policy: &Policy) -> PolicyInfo {
        let mut info = policy.info.clone();
        let live = self.backend.policy_live(info.index).unwrap_or_default();
        info.share = 0;
        info.current.bytes = live.bytes;
        info.current.packets = live.packets;
        info.current.use_time_s = live.last_use_s;
        info
    }

    /// A `NEWPOLICY` or `UPDPOLICY` message.
    pub(super) fn policy_message(&self, kind: u16, policy: &Policy, e: Envelope) -> Message {
        let mut w = e.writer(kind);
        w.fixed(&self.policy_info(policy));
        policy_attributes(&mut w, policy);
        w.finish()
    }

    /// A `DELPOLICY` message, naming the policy as the request did.
    pub(super) fn policy_deleted_message(
        &self,
        policy: &Policy,
        by_index: bool,
        e: Envelope,
    ) -> Message {
        let mut id = PolicyId { dir: policy.info.dir, ..PolicyId::default() };
        if by_index {
            id.index = policy.info.index;
        } else {
            id.selector = policy.info.selector.clone();
        }
        let mut w = e.writer(kind::DELPOLICY);
        w.fixed(&id);
        w.field(attr::POLICY, &self.policy_info(policy));
        policy_attributes(&mut w, policy);
        w.finish()
    }

    /// A `POLEXPIRE` message.
    pub(super) fn policy_expire_message(
        &self,
        policy: &Policy,
        hard: bool,
        port_id: u32,
    ) -> Message {
        let mut w = Envelope { port_id, ..Envelope::default() }.writer(kind::POLEXPIRE);
        let policy_info = self.policy_info(policy);
        w.fixed(&PolicyExpire { policy: policy_info, hard: hard.into(), pad: Pad });
        policy_attributes(&mut w, policy);
        w.finish()
    }
}

/// The struct that names an SA.
pub(super) fn sa_id(sa: &Sa) -> SaId {
    SaId {
        dst: sa.info.id.dst,
        spi: sa.info.id.spi,
        family: sa.info.family,
        protocol: sa.info.id.protocol,
        pad: Pad,
    }
}

/// Appends what follows a policy's fixed struct.
pub(super) fn policy_attributes(w: &mut MessageWriter, policy: &Policy) {
    if !policy.templates.is_empty() {
        let mut bytes = Vec::new();
        for t in &policy.templates {
            t.write(&mut bytes);
        }
        w.attribute(attr::TMPL, &bytes);
    }
    w.attribute(attr::POLICY_TYPE, &[0; 6]);
    put_mark(w, &policy.mark);
    put_number(w, attr::IF_ID, policy.if_id);
    if let Some(offload) = &policy.offload {
        w.field(attr::OFFLOAD_DEV, offload);
    }
}

fn current(sa: &Sa, live: &SaLive) -> LifetimeCurrent {
    LifetimeCurrent {
        bytes: live.counters.bytes,
        packets: live.counters.packets,
        add_time_s: sa.info.current.add_time_s,
        use_time_s: live.counters.first_use_s,
    }
}

fn sa_info(sa: &Sa, live: &SaLive) -> SaInfo {
    let mut info = sa.info.clone();
    info.current = current(sa, live);
    info.statistics = Statistics {
        replay_window: live.too_old,
        replay: live.replays,
        integrity_failed: live.integrity_failures,
    };
    info
}

/// In the order in which Linux writes them.
fn sa_attributes(w: &mut MessageWriter, sa: &Sa, live: &SaLive) {
    let o = &sa.options;
    put_number(w, attr::SA_EXTRA_FLAGS, o.extra_flags);
    if let Some(care_of) = &o.care_of {
        w.field(attr::COADDR, &**care_of);
    }
    if live.last_use_s != 0 {
        w.field(attr::LASTUSED, &live.last_use_s);
    }
    match &sa.algorithms {
        Some(Algorithms::Aead(aead)) => put_key(w, attr::ALG_AEAD, |out| aead.write(out)),
        Some(Algorithms::CipherAuth(cipher, auth)) => {
            put_key(w, attr::ALG_AUTH, |out| auth.write(out));
            put_key(w, attr::ALG_AUTH_TRUNC, |out| auth.write_truncated(out));
            put_key(w, attr::ALG_CRYPT, |out| cipher.write(out));
        }
        Some(Algorithms::Auth(auth)) => {
            put_key(w, attr::ALG_AUTH, |out| auth.write(out));
            put_key(w, attr::ALG_AUTH_TRUNC, |out| auth.write_truncated(out));
        }
        Some(Algorithms::Compression(algorithm)) => {
            put_key(w, attr::ALG_COMP, |out| algorithm.write(out));
        }
        Some(Algorithms::None) | None => {}
    }
    if let Some(encap) = &o.encap {
        w.field(attr::ENCAP, &**encap);
    }
    put_number(w, attr::TFCPAD, o.tfc_pad_len);
    put_mark(w, &o.mark);
    if o.set_mark.value | o.set_mark.mask != 0 {
        w.field(attr::SET_MARK, &o.set_mark.value);
        w.field(attr::SET_MARK_MASK, &o.set_mark.mask);
    }
    put_replay(w, sa.replay.long(), &live.replay);
    if let Some(offload) = &o.offload {
        w.field(attr::OFFLOAD_DEV, &**offload);
    }
    put_number(w, attr::IF_ID, o.if_id);
    if let Some(settings) = &o.iptfs {
        iptfs::put(w, settings, o.direction);
    }
    put_number(w, attr::MTIMER_THRESH, o.mapping_max_age_s);
    put_cpu_and_direction(w, sa);
}

fn put_cpu_and_direction(w: &mut MessageWriter, sa: &Sa) {
    if let Some(cpu) = sa.options.cpu {
        w.field(attr::SA_PCPU, &cpu);
    }
    if let Some(dir) = sa.options.direction {
        w.field(attr::SA_DIR, &dir);
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the short form holds the low halves")]
/// Appends replay state: in the long form with this window in packets and so many words, or in the
/// short one.
pub(super) fn put_replay(w: &mut MessageWriter, long_form: Option<(u32, usize)>, r: &Replay) {
    match long_form {
        None => {
            let bitmap = r.received.first().map_or(0, |&word| word as u32);
            let (oseq, seq) = (r.sent as u32, r.edge as u32);
            w.field(attr::REPLAY_VAL, &ReplayState { oseq, seq, bitmap });
        }
        Some((window, words)) => {
            let mut long = EsnReplay { sent: r.sent, edge: r.edge, window, bitmap: vec![0; words] };
            long.set_received(&r.received);
            w.attribute(attr::REPLAY_ESN_VAL, &long.to_bytes());
        }
    }
}

fn put_key(w: &mut MessageWriter, kind: u16, write: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = zeroize::Zeroizing::new(Vec::with_capacity(256));
    write(&mut bytes);
    w.attribute(kind, &bytes);
}

fn put_mark(w: &mut MessageWriter, mark: &MarkAttribute) {
    if mark.value | mark.mask != 0 {
        w.field(attr::MARK, mark);
    }
}

fn put_number(w: &mut MessageWriter, kind: u16, value: u32) {
    if value != 0 {
        w.field(kind, &value);
    }
}
