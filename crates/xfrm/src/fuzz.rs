//! Entry points for fuzz targets: any bytes may come in, nothing may panic.

use crypto::Keys;
use policy::{Action, Direction, PolicyConfig, SaConfig, SaId};

use crate::backend::{Backend, Counters, PolicyLive, Refusal, Replay, SaLive, Start};
use crate::clock::Now;
use crate::codec::{Aead, Attributes, Auth, Cipher, EsnReplay, Messages, SpdAttributes};
use crate::database::{Database, LearntPolicy, LearntSa, Output, Sender, Settings};
use crate::shim_protocol;

/// All decoders of bytes from a client.
pub fn decode(bytes: &[u8]) {
    for (_, message) in Messages::new(bytes) {
        let _ = Attributes::parse(message.get(16..).unwrap_or_default());
    }
    let _ = Attributes::parse(bytes);
    let _ = SpdAttributes::parse(bytes);
    let _ = Aead::decode(bytes);
    let _ = Auth::decode(bytes);
    let _ = Auth::decode_truncated(bytes);
    let _ = Cipher::decode(bytes);
    if let Ok(replay) = EsnReplay::decode(bytes) {
        let _ = replay.received();
    }
    if let Some(records) = shim_protocol::records(bytes) {
        let _ = records.count();
    }
}

/// One datagram of the kernel's: an event, an SA, a policy.
pub fn kernel(bytes: &[u8]) {
    let _ = crate::kernel::decode(bytes).count();
    let _ = LearntSa::decode(bytes, 1, Now::default());
    let _ = LearntPolicy::decode(bytes);
}

/// One datagram to empty databases, its dumps to their ends, then as a record; time passes.
pub fn request(bytes: &[u8]) {
    let mut database = Database::new(Willing, Settings::default());
    let sender = Sender { port_id: 1, ext_ack: true, cap_ack: false };
    let mut out = Vec::new();
    // Twice, so that what the first one made is met by the second.
    for _ in 0..2 {
        database.request(&sender, bytes, Now::default(), &mut out);
    }
    // There are too few SAs for a flush that takes turns.
    for output in &mut out {
        if let Output::Dump(dump) = output {
            while database.dump_chunk(dump, 4096).is_some() {}
        }
    }
    let later = Now { wall_s: 1 << 40, mono_ms: 1 << 50 };
    database.tick(later, &mut out);
    let _ = database.restore(bytes, later);
    let _ = database.records().count();
}

/// A data path that takes everything.
#[derive(Debug)]
struct Willing;

impl Backend for Willing {
    fn sa_add(&mut self, _: &SaConfig, _: &Keys, _: &Start) -> Result<(), Refusal> {
        Ok(())
    }

    fn sa_update(&mut self, _: &SaConfig) -> Result<(), Refusal> {
        Ok(())
    }

    fn sa_delete(&mut self, _: &SaId, _: &Keys, _: crate::SaEnd) {}

    fn sa_live(&self, _: &SaId) -> Option<SaLive> {
        // An edge at the largest number, and every bit set.
        let replay = Replay { sent: u64::MAX, edge: u64::MAX, received: vec![u64::MAX; 64] };
        Some(SaLive { replay, ..SaLive::default() })
    }

    fn sa_set_replay(&mut self, _: &SaId, _: &Replay) -> Result<(), Refusal> {
        Ok(())
    }

    fn sa_set_counters(&mut self, _: &SaId, _: &Counters) -> Result<(), Refusal> {
        Ok(())
    }

    fn policy_put(&mut self, _: &PolicyConfig) -> Result<(), Refusal> {
        Ok(())
    }

    fn ask_again(&mut self, _: u32) {}

    fn policy_delete(&mut self, _: u32) {}

    fn policy_live(&self, _: u32) -> Option<PolicyLive> {
        None
    }

    fn set_default(&mut self, _: Direction, _: Action) {}
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::codec::{Field, MessageWriter, SaInfo, attr, flag, kind};

    proptest! {
        #[test]
        fn noise(noise in proptest::collection::vec(any::<u8>(), 0..400)) {
            decode(&noise);
            request(&noise);
        }

        #[test]
        fn noise_behind_a_sound_header(
            kind in kind::BASE..=kind::MAX,
            flags in any::<u16>(),
            noise in proptest::collection::vec(any::<u8>(), 0..400),
        ) {
            let mut w = MessageWriter::new(kind, flags | flag::REQUEST, 1, 1);
            request(&w.raw(&noise).take());
        }

        #[test]
        fn attributes_behind_a_sound_sa(
            noise in proptest::collection::vec(any::<u8>(), 0..120),
            kind in 0..=attr::MAX,
            words in 0u32..5,
        ) {
            let mut info = SaInfo { family: 2, mode: 1, ..SaInfo::default() };
            (info.id.protocol, info.id.spi.0) = (50, 1);
            let mut w = MessageWriter::new(kind::NEWSA, flag::REQUEST | flag::ACK, 1, 1);
            let mut name = b"rfc4106(gcm(aes))".to_vec();
            name.resize(64, 0);
            let numbers = [160u32, 128].map(u32::to_ne_bytes).concat();
            w.fixed(&info).attribute(attr::ALG_AEAD, &[name, numbers, vec![1; 20]].concat());
            let window = words * 32;
            let bitmap = vec![u32::MAX; words as usize];
            let esn = EsnReplay { sent: u64::MAX, edge: u64::MAX, window, bitmap };
            w.attribute(attr::REPLAY_ESN_VAL, &esn.to_bytes());
            request(&w.attribute(kind, &noise).take());
            prop_assert_eq!(info.to_bytes().len(), 224);
        }
    }
}
