//! XFRM netlink: a sequence of datagrams to one database, with time passing in between, and its
//! journal restored into a second one.
//!
//! Input: chunks of a two-byte length (little endian; the top bit lets 100 s pass) and a datagram.
#![no_main]

use policy::{Action, Direction, PolicyConfig, SaConfig, SaId};
use xfrm::{
    Backend, Counters, Database, Now, Output, PolicyLive, Refusal, Replay, SaEnd, SaLive, Sender,
    Settings, Start,
};

/// A data path that takes everything but what its index says.
struct Anything;

impl Backend for Anything {
    fn sa_add(&mut self, config: &SaConfig, _: &crypto::Keys, _: &Start) -> Result<(), Refusal> {
        if config.reqid % 7 == 3 { Err(Refusal::new(22, "no")) } else { Ok(()) }
    }
    fn sa_update(&mut self, _: &SaConfig) -> Result<(), Refusal> {
        Ok(())
    }
    fn sa_delete(&mut self, _: &SaId, _: &crypto::Keys, _: SaEnd) {}
    fn sa_live(&self, _: &SaId) -> Option<SaLive> {
        Some(SaLive::default())
    }
    fn sa_set_replay(&mut self, _: &SaId, _: &Replay) -> Result<(), Refusal> {
        Ok(())
    }
    fn sa_set_counters(&mut self, _: &SaId, _: &Counters) -> Result<(), Refusal> {
        Ok(())
    }
    fn policy_put(&mut self, config: &PolicyConfig) -> Result<(), Refusal> {
        if config.priority % 7 == 3 { Err(Refusal::new(22, "no")) } else { Ok(()) }
    }
    fn ask_again(&mut self, _: u32) {}
    fn policy_delete(&mut self, _: u32) {}
    fn policy_live(&self, index: u32) -> Option<PolicyLive> {
        (index % 2 == 0).then(PolicyLive::default)
    }
    fn set_default(&mut self, _: Direction, _: Action) {}
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let mut database = Database::new(Anything, Settings::default());
    let mut now = Now { wall_s: 1_700_000_000, mono_ms: 1_000_000 };
    let sender = Sender { port_id: 7, ext_ack: true, cap_ack: false };
    let mut rest = data;
    let mut out = Vec::new();
    while let [low, high, tail @ ..] = rest {
        let len = usize::from(u16::from_le_bytes([*low, *high & 0x7f])).min(tail.len());
        let (datagram, after) = tail.split_at(len);
        rest = after;
        database.request(&sender, datagram, now, &mut out);
        for output in out.drain(..) {
            let Output::Dump(mut dump) = output else { continue };
            while database.dump_chunk(&mut dump, 4096).is_some() {}
        }
        if high & 0x80 != 0 {
            now = Now { wall_s: now.wall_s + 100, mono_ms: now.mono_ms + 100_000 };
            database.tick(now, &mut out);
            out.clear();
        }
    }
    // What was journalled can be taken back.
    let mut second = Database::new(Anything, Settings::default());
    for change in database.records() {
        let Some(record) = change.record else { continue };
        if let Err(failure) = second.restore(&record, now) {
            panic!("{:?} was not taken back: {failure:?}", change.key);
        }
    }
});
