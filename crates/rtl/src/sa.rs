//! SAs as the gateway carries them.

use core::net::IpAddr;

use crypto::{IcvLen, Integrity, Keys, Suite};
use esp::{Mode, SaFlags, SaParams};
use zeroize::Zeroizing;

use crate::keys;
use crate::record::Record;
use crate::registers::{REPLAY_WINDOW, SA_BITS};

/// The cipher. AES keys have 16, 24 or 32 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cipher {
    /// AES-CBC (RFC 3602).
    AesCbc,
    /// AES-GCM with an ICV of 16 bytes (RFC 4106); authenticates by itself.
    AesGcm,
    /// DES-CBC (RFC 2405), key of 8 bytes: for peers that have nothing better.
    Des,
    /// 3DES-CBC (RFC 2451), key of 24 bytes.
    TripleDes,
}

/// The HMAC (RFC 2404, RFC 4868).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Auth {
    /// None beside the cipher: AES-GCM.
    None,
    /// HMAC-SHA1-96 (RFC 2404).
    Sha1,
    /// HMAC-SHA2-256-128 (RFC 4868).
    Sha256,
}

/// An SA's lifetime; 0 is no limit. Counted are packets, and the bytes that Linux counts: inside ESP,
/// without padding. Inbound these are known when a packet has been decrypted, so packets that are inside
/// when a limit in bytes is reached pass too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Limits {
    /// Bytes after which its owner is told, once; below 2^48.
    pub soft_bytes: u64,
    /// Bytes after which packets are dropped.
    pub hard_bytes: u64,
    /// Packets after which its owner is told, once.
    pub soft_packets: u64,
    /// Packets after which packets are dropped.
    pub hard_packets: u64,
}

/// An SA in the gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SaIndex(pub u16);

/// An SA. Its keys are zeroised when it is dropped, and never shown.
#[derive(Clone, Debug)]
pub struct Sa {
    /// Tunnel or transport.
    pub mode: Mode,
    /// Source of the outer header.
    pub src: IpAddr,
    /// Outer destination; in transport mode the packets' own.
    pub dst: IpAddr,
    /// The SPI, in host byte order.
    pub spi: u32,
    /// Extended sequence numbers.
    pub esn: bool,
    /// Cipher with its key.
    pub cipher: Cipher,
    /// HMAC with its key.
    pub auth: Auth,
    /// TTL or hop limit of the outer header.
    pub hop_limit: u8,
    /// True if DF of an inner IPv4 header is copied to the outer one. Else the outer DF is set.
    pub copy_df: bool,
    /// Name of the SA in inbound policies, below 1024. An SA and its successor have the same, so
    /// that packets of either pass while the peers change over.
    pub reqid: u16,
    /// Keys; the salt has 4 bytes with AES-GCM.
    pub keys: Keys,
    /// Lifetime of the SA.
    pub limits: Limits,
}

/// Why the gateway cannot carry an SA.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SaError {
    /// The gateway lacks the suite.
    #[error(
        "the gateway has no {0}; it has AES-CBC with SHA1 or SHA2-256, and AES-GCM with ICVs of 16 bytes"
    )]
    Suite(Suite),
    /// The SA needs a feature that the gateway lacks.
    #[error("the gateway has no {0}")]
    Feature(&'static str),
    /// The window is wider.
    #[error("a replay window of {0} packets is wider than the gateway's, {REPLAY_WINDOW}")]
    Window(u32),
    /// A key has another length.
    #[error("the {what} has {len} bytes; it must have {wanted}")]
    KeyLen {
        /// Name of the key.
        what: &'static str,
        /// Length in bytes.
        len: usize,
        /// Lengths that are allowed.
        wanted: &'static str,
    },
    /// A GCM SA with an HMAC, or another without.
    #[error("AES-GCM goes without an HMAC, every other cipher with one")]
    Auth,
    /// Addresses of two families.
    #[error("source {0} and destination {1} are not of one family")]
    Family(IpAddr, IpAddr),
    /// A reqid of more bits than the gateway has.
    #[error("a reqid of {0} is above what the gateway tells apart, 1023")]
    Reqid(u16),
    /// A limit of 2^48 or more.
    #[error("a limit of {0} is above what the gateway counts, 2^48 - 1")]
    Limit(u64),
    /// The crypto library failed.
    #[error("the hash key could not be computed")]
    HashKey,
}

impl Sa {
    /// True if the gateway has a suite.
    pub fn has(suite: Suite) -> bool {
        algorithms(suite).is_some()
    }

    /// The SA that the software path would carry, for the gateway.
    ///
    /// The gateway's window is always [`REPLAY_WINDOW`] packets: an SA that asks for less gets more.
    ///
    /// # Errors
    /// [`SaError`] for what the gateway does not do as asked.
    pub fn of(params: &SaParams, keys: &Keys) -> Result<Sa, SaError> {
        let suite = params.suite;
        let (cipher, auth) = algorithms(suite).ok_or(SaError::Suite(suite))?;
        if params.encap.is_some() {
            return Err(SaError::Feature("UDP encapsulation"));
        }
        if params.tfc_pad_len != 0 {
            return Err(SaError::Feature("traffic flow confidentiality"));
        }
        if params.flags != SaFlags::default() {
            return Err(SaError::Feature("special treatment of ECN, DSCP or DF"));
        }
        if params.replay_window == 0 {
            return Err(SaError::Feature("way to switch the replay check off"));
        }
        if params.replay_window > REPLAY_WINDOW {
            return Err(SaError::Window(params.replay_window));
        }
        let sa = Sa {
            mode: params.mode,
            src: params.src,
            dst: params.dst,
            spi: params.spi,
            esn: params.esn,
            cipher,
            auth,
            hop_limit: 64,
            copy_df: true,
            reqid: 0,
            keys: keys.clone(),
            limits: Limits::default(),
        };
        sa.check()?;
        Ok(sa)
    }

    /// Checks that the gateway can carry the SA.
    ///
    /// # Errors
    /// [`SaError`] says why not.
    pub fn check(&self) -> Result<(), SaError> {
        let len = |what, len, wanted| Err(SaError::KeyLen { what, len, wanted });
        match (self.cipher, self.keys.cipher.len()) {
            (Cipher::AesCbc | Cipher::AesGcm, 16 | 24 | 32) => {}
            (Cipher::AesCbc | Cipher::AesGcm, n) => return len("AES key", n, "16, 24 or 32"),
            (Cipher::Des, 8) | (Cipher::TripleDes, 24) => {}
            (Cipher::Des, n) => return len("DES key", n, "8"),
            (Cipher::TripleDes, n) => return len("3DES key", n, "24"),
        }
        if (self.cipher == Cipher::AesGcm) != (self.auth == Auth::None) {
            return Err(SaError::Auth);
        }
        match (self.auth, self.keys.auth.len()) {
            (Auth::None, 0) | (Auth::Sha1 | Auth::Sha256, 1..=64) => {}
            (Auth::None, n) => return len("integrity key", n, "none"),
            (_, n) => return len("integrity key", n, "1 to 64"),
        }
        match (self.cipher, self.keys.salt.len()) {
            (Cipher::AesGcm, 4) | (Cipher::AesCbc | Cipher::Des | Cipher::TripleDes, 0) => {}
            (Cipher::AesGcm, n) => return len("salt", n, "4"),
            (_, n) => return len("salt", n, "none"),
        }
        if self.src.is_ipv4() != self.dst.is_ipv4() {
            return Err(SaError::Family(self.src, self.dst));
        }
        if self.reqid >> SA_BITS != 0 {
            return Err(SaError::Reqid(self.reqid));
        }
        let l = self.limits;
        match [l.soft_bytes, l.hard_bytes, l.soft_packets, l.hard_packets].into_iter().max() {
            Some(limit) if limit >> 48 != 0 => Err(SaError::Limit(limit)),
            _ => Ok(()),
        }
    }

    /// Bytes that the gateway hashes of an inbound SA: destination and SPI.
    pub(crate) fn hashed(&self) -> Vec<u8> {
        let mut text = match self.dst {
            IpAddr::V4(a) => a.octets().to_vec(),
            IpAddr::V6(a) => a.octets().to_vec(),
        };
        text.extend(self.spi.to_be_bytes());
        text
    }

    /// Record for the gateway's table. [`Sa::check`] has passed.
    pub(crate) fn record(&self, valid: bool, next: Option<u16>) -> Result<Record, SaError> {
        let auth_keys = match self.auth {
            Auth::None => keys::gcm_powers(&self.keys.cipher).map_err(|_| SaError::HashKey)?,
            Auth::Sha1 => keys::hmac_sha1(&self.keys.auth),
            Auth::Sha256 => keys::hmac_sha256(&self.keys.auth),
        };
        let key_len = match (self.cipher, self.keys.cipher.len()) {
            (Cipher::AesCbc | Cipher::AesGcm, 24) => 1,
            (Cipher::AesCbc | Cipher::AesGcm, 32) => 2,
            _ => 0,
        };
        let salt: Zeroizing<[u8; 4]> =
            Zeroizing::new(self.keys.salt.as_slice().try_into().unwrap_or_default());
        let mut record = Record::new();
        record.flag(valid).flag(self.mode == Mode::Tunnel).flag(self.dst.is_ipv6()).flag(self.esn);
        record.put(3, self.cipher as u64).put(2, key_len).put(2, self.auth as u64);
        record.put(32, self.spi.into());
        record.address(self.src).address(self.dst);
        record.put(8, self.hop_limit.into()).flag(self.copy_df);
        record.bytes(32, &self.keys.cipher).bytes(4, salt.as_slice());
        record.bytes(64, auth_keys.as_slice()).put(SA_BITS, self.reqid.into());
        let l = &self.limits;
        for limit in [l.soft_bytes, l.hard_bytes, l.soft_packets, l.hard_packets] {
            record.put(48, limit);
        }
        record.flag(next.is_some()).put(SA_BITS, next.unwrap_or(0).into());
        Ok(record)
    }

    /// A record without anything: what an SA is overwritten with.
    pub(crate) fn empty_record(next: Option<u16>) -> Record {
        let mut record = Record::new();
        for _ in 0..SA_RECORD_BITS - (SA_BITS + 1) {
            record.flag(false);
        }
        record.flag(next.is_some()).put(SA_BITS, next.unwrap_or(0).into());
        record
    }
}

/// A suite as the gateway names it.
fn algorithms(suite: Suite) -> Option<(Cipher, Auth)> {
    match suite {
        Suite::AesGcm { icv: IcvLen::Icv16, .. } => Some((Cipher::AesGcm, Auth::None)),
        Suite::Separate { cipher: crypto::Cipher::AesCbc(_), integrity } => match integrity {
            Integrity::Sha1_96 => Some((Cipher::AesCbc, Auth::Sha1)),
            Integrity::Sha256_128 => Some((Cipher::AesCbc, Auth::Sha256)),
            _ => None,
        },
        _ => None,
    }
}

/// Length of an SA's record (`sa_t`).
const SA_RECORD_BITS: u32 =
    4 + 3 + 2 + 2 + 32 + 128 + 128 + 8 + 1 + 256 + 32 + 512 + SA_BITS + 4 * 48 + 1 + SA_BITS;

#[cfg(test)]
mod tests {
    use crypto::AesKey;
    use esp::Protocol;

    use super::*;

    fn params(suite: Suite) -> SaParams {
        SaParams {
            spi: 0x1234_5678,
            src: "192.0.2.1".parse().unwrap(),
            dst: "192.0.2.2".parse().unwrap(),
            protocol: Protocol::Esp,
            mode: Mode::Tunnel,
            suite,
            encap: None,
            esn: true,
            replay_window: 64,
            tfc_pad_len: 0,
            flags: SaFlags::default(),
        }
    }

    fn keys(suite: Suite) -> Keys {
        Keys {
            cipher: vec![1; suite.cipher_key_len_bytes()],
            salt: vec![2; suite.salt_len_bytes()],
            auth: vec![3; suite.auth_key_len_bytes()],
        }
    }

    #[test]
    fn suites_are_taken_or_refused_by_name() {
        let taken = |suite: &Suite| Sa::of(&params(*suite), &keys(*suite)).is_ok();
        assert_eq!(Suite::all().filter(taken).count(), 9);
        let suite = Suite::ChaCha20Poly1305;
        let error = Sa::of(&params(suite), &keys(suite)).unwrap_err().to_string();
        assert!(error.contains("chacha20poly1305"), "{error}");
    }

    #[test]
    fn what_the_gateway_cannot_do_is_refused() {
        let suite = Suite::AesGcm { key: AesKey::Aes128, icv: IcvLen::Icv16 };
        let with = |change: &dyn Fn(&mut SaParams)| {
            let mut params = params(suite);
            change(&mut params);
            Sa::of(&params, &keys(suite)).map(|_| ())
        };
        assert_eq!(with(&|_| ()), Ok(()));
        assert_eq!(with(&|p| p.replay_window = 129), Err(SaError::Window(129)));
        assert!(matches!(with(&|p| p.replay_window = 0), Err(SaError::Feature(_))));
        assert!(matches!(with(&|p| p.tfc_pad_len = 100), Err(SaError::Feature(_))));
        assert!(matches!(with(&|p| p.flags.no_ecn = true), Err(SaError::Feature(_))));
        let encap = esp::UdpEncap { src_port: 4500, dst_port: 4500 };
        assert!(matches!(with(&|p| p.encap = Some(encap)), Err(SaError::Feature(_))));
        assert!(matches!(
            with(&|p| p.src = "2001:db8::1".parse().unwrap()),
            Err(SaError::Family(..))
        ));
        let mut sa = Sa::of(&params(suite), &keys(suite)).unwrap();
        sa.limits.hard_bytes = 1 << 48;
        assert_eq!(sa.check(), Err(SaError::Limit(1 << 48)));
        sa.limits.hard_bytes = 0;
        sa.reqid = 1024;
        assert_eq!(sa.check(), Err(SaError::Reqid(1024)));
        sa.keys.salt.pop();
        assert!(matches!(sa.check(), Err(SaError::KeyLen { what: "salt", len: 3, .. })));
    }

    #[test]
    fn records_have_the_length_of_the_struct() {
        let cipher = crypto::Cipher::AesCbc(AesKey::Aes256);
        let suite = Suite::Separate { cipher, integrity: Integrity::Sha256_128 };
        let sa = Sa::of(&params(suite), &keys(suite)).unwrap();
        let record = sa.record(true, Some(5)).unwrap();
        let words: Vec<u32> = record.words().collect();
        assert_eq!(words.len(), SA_RECORD_BITS.div_ceil(32) as usize);
        assert_eq!(words[0] & 0x7ff, 1 << 10 | 5, "the chain is lowest");
        let top = SA_RECORD_BITS - 1;
        assert_eq!(words[(top / 32) as usize] >> (top % 32), 1, "valid is highest");
        assert_eq!(Sa::empty_record(None).words().count(), words.len());
    }
}
