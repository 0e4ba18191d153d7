//! SAs of counter modes that have one key.
//!
//! Keys set by hand often are: many instructions for `ip xfrm` use one for both directions. Under one key
//! a nonce must not come twice (RFC 4106 §3.1), and nothing but the random salts of the SAs' IVs sees to
//! that then ([`LiveNumbers::iv_salt`](esp::LiveNumbers::iv_salt)): two SAs of a packets each meet with a
//! probability of about a / 2^64. So such SAs are carried, as Linux carries them, and the operator is
//! told. To refuse them would break tunnels that Linux accepts.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher as _, RandomState};
use std::net::IpAddr;

use crypto::Keys;
use policy::{SaConfig, SaId};
use tracing::warn;

use crate::texts::spi_text;

/// So many lines are logged until no key is shared any more.
const MOST_LINES: usize = 16;

/// So many keys are named in a warning.
const MOST_NAMED: usize = 3;

/// The keys of all SAs of counter modes, as digests, and who has them.
#[derive(Default)]
pub struct SharedKeys {
    /// Secret of the digests: they tell nothing about the keys.
    hasher: RandomState,
    digests: HashMap<SaId, u64>,
    holders: HashMap<u64, Holders>,
    /// Digests of keys that several SAs have.
    shared: HashSet<u64>,
    lines: usize,
}

/// An SA, with its source to name it by.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Holder {
    spi: u32,
    src: IpAddr,
    dst: IpAddr,
}

/// SAs that have a key: nearly always one.
enum Holders {
    One(SaId, Holder),
    Several(HashMap<SaId, Holder>),
}

impl Holders {
    /// The first two, and how many there are.
    fn first_two(&self) -> Option<(Holder, Holder, usize)> {
        let Holders::Several(all) = self else { return None };
        let first = all.values().min()?;
        let second = all.values().filter(|holder| *holder != first).min().unwrap_or(first);
        Some((*first, *second, all.len()))
    }
}

impl std::fmt::Display for Holder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({} > {})", spi_text(self.spi), self.src, self.dst)
    }
}

impl SharedKeys {
    /// An SA came.
    pub fn add(&mut self, config: &SaConfig, keys: &Keys) {
        if !config.params.suite.has_counter_iv() {
            return;
        }
        let id = config.id();
        let params = &config.params;
        let new = Holder { spi: params.spi, src: params.src, dst: params.dst };
        // The keys alone: AES is the same cipher in GCM, CCM, GMAC and CTR.
        let digest = self.hasher.hash_one((&keys.cipher, &keys.salt));
        self.remove(&id);
        self.digests.insert(id, digest);
        match self.holders.get_mut(&digest) {
            None => drop(self.holders.insert(digest, Holders::One(id, new))),
            Some(Holders::Several(all)) => drop(all.insert(id, new)),
            Some(holders) => {
                let Holders::One(other_id, other) = *holders else { return };
                *holders = Holders::Several(HashMap::from([(other_id, other), (id, new)]));
                self.shared.insert(digest);
                self.tell(new, other);
            }
        }
    }

    /// An SA went.
    pub fn remove(&mut self, id: &SaId) {
        let Some(digest) = self.digests.remove(id) else { return };
        let Some(Holders::Several(all)) = self.holders.get_mut(&digest) else {
            self.holders.remove(&digest);
            return;
        };
        all.remove(id);
        let first = all.iter().next().map(|(id, holder)| (*id, *holder));
        if all.len() == 1
            && let Some((id, last)) = first
        {
            self.holders.insert(digest, Holders::One(id, last));
            self.shared.remove(&digest);
            if self.shared.is_empty() {
                self.lines = 0;
            }
        }
    }

    fn tell(&mut self, new: Holder, other: Holder) {
        self.lines += 1;
        if self.lines < MOST_LINES {
            warn!(sa = %new, other = %other, "an SA has the key of another one; each needs its own");
        } else if self.lines == MOST_LINES {
            warn!("more SAs have the key of another one: culvert status counts them");
        }
    }

    /// For the operator: which SAs share a key.
    pub fn warning(&self) -> Option<String> {
        let mut shared: Vec<(Holder, Holder, usize)> =
            self.shared.iter().filter_map(|d| self.holders.get(d)?.first_two()).collect();
        if shared.is_empty() {
            return None;
        }
        shared.sort_unstable();
        let named = shared.iter().take(MOST_NAMED).map(|(first, second, count)| match count {
            2 => format!("SAs {first} and {second} have one key"),
            _ => format!("SAs {first}, {second} and {} more have one key", count - 2),
        });
        let mut text = named.collect::<Vec<_>>().join("; ");
        if let more @ 1.. = shared.len().saturating_sub(MOST_NAMED) {
            text += &format!("; {more} more keys are shared");
        }
        Some(text + ": give each SA a key of its own, or let an IKE daemon agree on keys")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use crypto::{AesKey, Cipher, IcvLen, Integrity, Suite};
    use proptest::prelude::*;

    use super::*;
    use crate::sources::testing::{HERE, THERE, config, keys};

    fn key(n: u64) -> Keys {
        let mut keys = keys();
        keys.cipher = [n, n].map(u64::to_be_bytes).concat();
        keys
    }

    #[test]
    fn both_directions_under_one_key_are_named_until_one_is_gone() {
        let mut shared = SharedKeys::default();
        let (out, back) = (config(1, (HERE, THERE), 1), config(2, (THERE, HERE), 1));
        shared.add(&out, &keys());
        assert_eq!(shared.warning(), None);
        // The same again, as after a change of its address.
        shared.add(&out, &keys());
        assert_eq!(shared.warning(), None);
        shared.add(&back, &keys());
        let warning = shared.warning().unwrap();
        let begins = "SAs 0x00000001 (192.0.2.1 > 192.0.2.2) and 0x00000002 (192.0.2.2 > 192.0.2.1) \
                      have one key: give each SA a key of its own";
        assert!(warning.starts_with(begins), "{warning}");
        shared.add(&back, &key(7));
        assert_eq!(shared.warning(), None, "it has another key now");
        shared.add(&back, &keys());
        shared.remove(&out.id());
        assert_eq!(shared.warning(), None);
    }

    #[test]
    fn it_is_about_nonces() {
        let cbc = Suite::Separate {
            cipher: Cipher::AesCbc(AesKey::Aes128),
            integrity: Integrity::Sha256_128,
        };
        let ctr = Suite::Separate {
            cipher: Cipher::AesCtr(AesKey::Aes128),
            integrity: Integrity::Sha256_128,
        };
        let ccm = Suite::AesCcm { key: AesKey::Aes128, icv: IcvLen::Icv16 };
        let with = |salt, auth| Keys { cipher: keys().cipher.clone(), salt, auth };
        let auth = |byte| with(keys().salt.clone(), vec![byte; 32]);
        let other_salt = with(vec![9; 4], Vec::new());
        for (suites, keys, is_told) in [
            ([cbc, cbc], [auth(1), auth(1)], false),
            ([cbc, ctr], [auth(1), auth(1)], false),
            // Whatever authenticates it.
            ([ctr, ctr], [auth(1), auth(2)], true),
            ([ccm, ctr], [keys(), auth(1)], true),
            ([ccm, ccm], [keys(), other_salt], false),
        ] {
            let mut shared = SharedKeys::default();
            for (spi, (suite, keys)) in (1..).zip(suites.into_iter().zip(keys)) {
                let mut config = config(spi, (HERE, THERE), 1);
                config.params.suite = suite;
                shared.add(&config, &keys);
            }
            assert_eq!(shared.warning().is_some(), is_told, "{suites:?}");
        }
    }

    proptest! {
        #[test]
        fn it_tells_what_a_count_by_hand_tells(
            steps in prop::collection::vec((1..12_u32, prop::option::weighted(0.7, 0..4_u64)), 1..60),
        ) {
            let mut shared = SharedKeys::default();
            let mut by_hand: BTreeMap<u32, u64> = BTreeMap::new();
            for (spi, step) in steps {
                let config = config(spi, (HERE, THERE), 1);
                match step {
                    Some(n) => {
                        shared.add(&config, &key(n));
                        by_hand.insert(spi, n);
                    }
                    None => {
                        shared.remove(&config.id());
                        by_hand.remove(&spi);
                    }
                }
                let mut counts = [0_usize; 4];
                by_hand.values().for_each(|n| counts[*n as usize] += 1);
                let several = counts.iter().filter(|count| **count > 1).count();
                prop_assert_eq!(shared.shared.len(), several);
                prop_assert_eq!(shared.warning().is_some(), several > 0);
                prop_assert_eq!(shared.digests.len(), by_hand.len());
                let keys = counts.iter().filter(|count| **count > 0).count();
                prop_assert_eq!(shared.holders.len(), keys, "nothing is left of those that went");
            }
        }
    }

    /// All have one key, or each its own. With a list for each key the first would take hours.
    #[test]
    fn a_hundred_thousand_come_and_go() {
        for keys_of in [|_| key(1), key as fn(u64) -> Keys] {
            let mut shared = SharedKeys::default();
            let configs: Vec<_> = (1..=100_000).map(|n| config(n, (HERE, THERE), 1)).collect();
            configs
                .iter()
                .for_each(|config| shared.add(config, &keys_of(config.params.spi.into())));
            let warning = shared.warning();
            assert!(warning.is_none_or(|text| text.contains("and 99998 more have one key")));
            configs.iter().for_each(|config| shared.remove(&config.id()));
            assert!(shared.holders.is_empty() && shared.shared.is_empty());
        }
    }
}
