//! Requests about the databases as a whole: sizes, hash thresholds, default actions.

use policy::{Action, Direction};

use super::Database;
use super::call::{Call, bad_attribute};
use super::output::{Group, Output};
use crate::backend::Backend;
use crate::codec::{
    Field, PolicyDefault, SadHashInfo, SpdAttributes, SpdHashInfo, SpdInfo, SpdThreshold, attr,
    constant as c, kind,
};
use crate::failure::Failure;

impl<B: Backend> Database<B> {
    /// `GETSADINFO`: tells counts of the SAD.
    pub(super) fn get_sad_info(&mut self, call: &mut Call<'_>) -> Result<(), Failure> {
        let (flags, _) = call.parse::<u32>()?;
        let count = saturated(self.sad.len());
        let mut w = call.answer().writer(kind::NEWSADINFO);
        w.fixed(&flags);
        w.field(attr::SAD_CNT, &count);
        // As Linux would have grown its table: a bucket for each SA, at least 8.
        let buckets = count.max(8).checked_next_power_of_two().unwrap_or(MAX_BUCKETS);
        let hash = SadHashInfo { buckets: buckets.min(MAX_BUCKETS), max_buckets: MAX_BUCKETS };
        w.field(attr::SAD_HINFO, &hash);
        call.reply(w.finish());
        Ok(())
    }

    /// `GETSPDINFO`: tells counts of the SPD.
    pub(super) fn get_spd_info(&mut self, call: &mut Call<'_>) -> Result<(), Failure> {
        let (flags, _) = call.parse::<u32>()?;
        let [input, output, forward] = self.spd.counts();
        let mut w = call.answer().writer(kind::NEWSPDINFO);
        w.fixed(&flags);
        w.field(attr::SPD_INFO, &SpdInfo { input, output, forward, ..SpdInfo::default() });
        let total = input.saturating_add(output).saturating_add(forward);
        // Linux gives the mask here, not the count.
        let buckets = total.max(8).checked_next_power_of_two().unwrap_or(MAX_BUCKETS);
        let hash = SpdHashInfo { buckets: buckets.min(MAX_BUCKETS) - 1, max_buckets: MAX_BUCKETS };
        w.field(attr::SPD_HINFO, &hash);
        let [ipv4, ipv6] = &self.thresholds;
        w.field(attr::SPD_IPV4_HTHRESH, ipv4).field(attr::SPD_IPV6_HTHRESH, ipv6);
        call.reply(w.finish());
        Ok(())
    }

    /// `NEWSPDINFO`: the hash thresholds are kept and given back; look-ups do not depend on them.
    pub(super) fn set_spd_info(&mut self, call: &mut Call<'_>) -> Result<(), Failure> {
        let rest = call.body.get(u32::LEN..).ok_or(Failure::HeaderLength)?;
        let given = SpdAttributes::parse(rest).map_err(|e| bad_attribute(e, u32::LEN))?;
        let threshold = |bytes: Option<&[u8]>, max: u8| {
            let Some(bytes) = bytes else { return Ok(None) };
            match SpdThreshold::decode(bytes) {
                Ok(t) if t.local_bits <= max && t.remote_bits <= max => Ok(Some(t)),
                _ => Err(Failure::HashThreshold),
            }
        };
        let (new4, new6) = (threshold(given.ipv4, 32)?, threshold(given.ipv6, 128)?);
        let [ipv4, ipv6] = &mut self.thresholds;
        if let Some(new) = new4 {
            *ipv4 = new;
        }
        if let Some(new) = new6 {
            *ipv6 = new;
        }
        Ok(())
    }

    /// `SETDEFAULT`: what is neither block nor accept is left as it is.
    pub(super) fn set_default(&mut self, call: &mut Call<'_>) -> Result<(), Failure> {
        let (wanted, _) = call.parse::<PolicyDefault>()?;
        self.apply_defaults(&wanted);
        let mut w = super::envelope::Envelope::default().writer(kind::GETDEFAULT);
        w.fixed(&self.defaults_info());
        call.event(Group::Policy, w.finish());
        let change = self.defaults_change();
        call.out.push(Output::Change(change));
        Ok(())
    }

    /// `GETDEFAULT`: tells the default actions.
    pub(super) fn get_default(&mut self, call: &mut Call<'_>) -> Result<(), Failure> {
        call.parse::<PolicyDefault>()?;
        let mut w = call.answer().writer(kind::GETDEFAULT);
        w.fixed(&self.defaults_info());
        call.reply(w.finish());
        Ok(())
    }

    /// Sets the default actions that are given.
    pub(super) fn apply_defaults(&mut self, wanted: &PolicyDefault) {
        let [input, output, forward] = &mut self.defaults;
        for (direction, slot, wanted) in [
            (Direction::In, input, wanted.input),
            (Direction::Out, output, wanted.output),
            (Direction::Forward, forward, wanted.forward),
        ] {
            let action = match wanted {
                c::DEFAULT_BLOCK => Action::Block,
                c::DEFAULT_ACCEPT => Action::Allow,
                _ => continue,
            };
            if *slot != action {
                *slot = action;
                self.backend.set_default(direction, action);
            }
        }
    }

    /// The default actions on the wire.
    pub(super) fn defaults_info(&self) -> PolicyDefault {
        let number = |action| match action {
            // The other is no default, and would block.
            Action::Block | Action::Leave => c::DEFAULT_BLOCK,
            Action::Allow => c::DEFAULT_ACCEPT,
        };
        let [input, output, forward] = self.defaults.map(number);
        PolicyDefault { input, forward, output }
    }
}

fn saturated(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

/// Linux's largest hash table.
const MAX_BUCKETS: u32 = 1 << 20;
