//! Replay state, counters, and peers that move: `NEWAE`, `GETAE`, `MAPPING`.

use core::net::IpAddr;

use policy::SaId;

use super::Database;
use super::call::Call;
use super::emit::sa_id;
use super::envelope::Envelope;
use super::fields::{counters, short_replay};
use super::output::{Group, Output};
use super::sad::{LastMapping, ReplayForm};
use crate::backend::{Backend, Replay};
use crate::clock::Now;
use crate::codec::{
    AeventId, Be16, EsnReplay, Field, LifetimeCurrent, Mapping, ReplayState, attr, constant as c,
    flag, kind,
};
use crate::failure::Failure;

impl<B: Backend> Database<B> {
    /// `GETAE`: tells an SA's numbers and counters.
    pub(super) fn get_aevent(&mut self, call: &mut Call<'_>) -> Result<(), Failure> {
        let (id, attributes) = call.parse::<AeventId>()?;
        let serial = self.lookup(&id.sa, &attributes).ok_or(Failure::NoSa)?;
        let sa = self.sad.get(serial).ok_or(Failure::NoSa)?;
        // Linux repeats the request's own port id here, not the socket's.
        let message = self.aevent_message(sa, id.flags, call.notice());
        call.reply(message);
        Ok(())
    }

    /// `NEWAE`: sets replay state, counters, thresholds; values are absolute.
    pub(super) fn set_aevent(&mut self, call: &mut Call<'_>) -> Result<(), Failure> {
        let (id, a) = call.parse::<AeventId>()?;
        let given = [
            attr::LTIME_VAL,
            attr::REPLAY_VAL,
            attr::REPLAY_ESN_VAL,
            attr::ETIMER_THRESH,
            attr::REPLAY_THRESH,
        ];
        if !given.iter().any(|&kind| a.has(kind)) {
            return Err(Failure::NothingToSet);
        }
        if call.header.flags & flag::REPLACE == 0 {
            return Err(Failure::NotReplace);
        }
        let serial = self.lookup(&id.sa, &a).ok_or(Failure::NoSa)?;
        let sa = self.sad.get(serial).filter(|sa| !sa.larval()).ok_or(Failure::NotValid)?;
        let key = sa.id();
        let long = a.bytes(attr::REPLAY_ESN_VAL);
        let short = a.value::<ReplayState>(attr::REPLAY_VAL);
        // The form that the SA does not have is ignored, as Linux does.
        let replay = match (sa.replay, long, short) {
            (ReplayForm::Long { words, .. }, Some(bytes), _) => Some(long_replay(bytes, words)?),
            (ReplayForm::Short, _, Some(short)) => Some(short_replay(&short)),
            _ => None,
        };
        let lifetime = a.value::<LifetimeCurrent>(attr::LTIME_VAL);
        let before = self.backend.sa_live(&key).map(|live| live.replay);
        if let Some(replay) = &replay {
            self.backend.sa_set_replay(&key, replay)?;
        }
        if let Some(l) = &lifetime
            && let Err(refusal) = self.backend.sa_set_counters(&key, &counters(l))
        {
            if let (Some(_), Some(before)) = (&replay, &before) {
                // All or nothing; going back to what was is never a number used twice.
                self.backend.sa_set_replay(&key, before)?;
            }
            return Err(refusal.into());
        }
        let now = call.now;
        if let Some(sa) = self.sad.get_mut(serial) {
            if let Some(l) = &lifetime {
                sa.info.current.add_time_s = l.add_time_s;
                sa.added_mono_ms = now.mono_of(l.add_time_s);
            }
            if let Some(threshold) = a.value(attr::ETIMER_THRESH) {
                sa.options.timer_threshold = threshold;
            }
            if let Some(threshold) = a.value(attr::REPLAY_THRESH) {
                sa.options.replay_threshold = threshold;
            }
        }
        self.rearm_sa(serial, now);
        if let Some(sa) = self.sad.get(serial) {
            call.event(Group::Aevents, self.aevent_message(sa, c::AE_CU, call.notice()));
        }
        if lifetime.is_some() {
            call.out.extend(self.sa_change(serial).map(Output::Change));
        }
        Ok(())
    }

    /// The peer of an inbound SA sends from another address or port. Its owner is told, the same
    /// news again only after a while.
    pub fn mapping_changed(
        &mut self,
        id: &SaId,
        addr: IpAddr,
        port: u16,
        now: Now,
        out: &mut Vec<Output>,
    ) {
        let interval_s = self.settings.mapping_interval_s;
        let Some((serial, sa)) = self.sad.find_exact(id) else { return };
        let Some(encap) = sa.options.encap.as_ref().filter(|_| !sa.larval()) else { return };
        let old_src_port = encap.src_port;
        if (sa.src(), old_src_port.0) == (addr, port) {
            return;
        }
        let interval_s = match sa.options.mapping_max_age_s {
            0 => interval_s,
            own => own,
        };
        let recent = sa.mapping.as_ref().is_some_and(|m| {
            (m.addr, m.port) == (addr, port)
                && now.mono_ms.saturating_sub(m.at_ms) < u64::from(interval_s) * 1000
        });
        if recent {
            return;
        }
        let mut w = Envelope::default().writer(kind::MAPPING);
        w.fixed(&Mapping {
            id: sa_id(sa),
            reqid: sa.info.reqid,
            old_src: sa.info.src,
            new_src: addr.into(),
            old_src_port,
            new_src_port: Be16(port),
        });
        if let Some(sa) = self.sad.get_mut(serial) {
            sa.mapping = Some(Box::new(LastMapping { addr, port, at_ms: now.mono_ms }));
        }
        out.push(Output::Event { group: Group::Mapping, message: w.finish() });
    }
}

/// The numbers of a long replay state of this SA's size.
fn long_replay(bytes: &[u8], words: usize) -> Result<Replay, Failure> {
    let r = EsnReplay::decode(bytes).map_err(|_| Failure::ReplaySize)?;
    // Unlike a new SA, an existing one takes no state without its bitmap.
    let whole = bytes.len() >= HEAD_LEN + words * u32::LEN;
    if r.bitmap.len() != words || !whole {
        return Err(Failure::ReplaySize);
    }
    if !r.window_fits() {
        return Err(Failure::ReplayWindow);
    }
    Ok(Replay { sent: r.sent, edge: r.edge, received: r.received() })
}

/// The fixed part of `xfrm_replay_state_esn`.
const HEAD_LEN: usize = 24;
