//! Providers, packets and data files for the tests.

use std::collections::BTreeMap;

use crypto::{Engine, Job, JobStatus, Keys, Op, Provider, Session, Suite};
use engine_gm::GmProvider;
use engine_openssl::OpensslProvider;
use ipsec_mb::IpsecMbProvider;

/// The engines that this machine has; OpenSSL's first. On x86-64 with the library installed a
/// broken ipsec-mb engine is an error, not a reason to skip.
pub fn providers() -> Vec<Box<dyn Provider>> {
    let mut providers: Vec<Box<dyn Provider>> = vec![Box::new(OpensslProvider::new().unwrap())];
    match IpsecMbProvider::new() {
        Ok(provider) => providers.push(Box::new(provider)),
        Err(error) => assert!(
            error.to_string().contains("libipsec-mb-dev"),
            "only a missing library may be passed over: {error}"
        ),
    }
    providers
}

/// These, and each implementation of the engine for SM4 and SM3 that this processor can run.
pub fn all() -> Vec<Box<dyn Provider>> {
    let mut all = providers();
    all.extend(GmProvider::all().map(|provider| Box::new(provider) as _));
    all
}

/// Two providers to compare: OpenSSL and the other one, or OpenSSL twice.
pub fn pair() -> [Box<dyn Provider>; 2] {
    let mut providers = providers();
    if providers.len() == 1 {
        providers.push(Box::new(OpensslProvider::new().unwrap()));
    }
    providers.try_into().unwrap_or_else(|_| panic!("two providers"))
}

/// The suites that a provider has.
pub fn suites(provider: &dyn Provider) -> impl Iterator<Item = Suite> {
    Suite::all().filter(|suite| provider.supports(*suite))
}

/// The engines that have every suite of a kind.
pub fn with(is_of_kind: impl Fn(&Suite) -> bool) -> Vec<Box<dyn Provider>> {
    let has = |provider: &dyn Provider| {
        Suite::all().filter(&is_of_kind).all(|suite| provider.supports(suite))
    };
    all().into_iter().filter(|provider| has(&**provider)).collect()
}

/// The suites that both of a pair have.
pub fn shared(pair: &[Box<dyn Provider>; 2]) -> Vec<Suite> {
    suites(&*pair[0]).filter(|suite| pair[1].supports(*suite)).collect()
}

/// Runs one job.
pub fn run(
    engine: &mut dyn Engine,
    session: &Session,
    op: Op,
    packet: &mut [u8],
    header_len: usize,
    seq_hi: Option<u32>,
) -> JobStatus {
    let mut job = Job::esp(session, op, packet, seq_hi);
    job.header_len = header_len;
    engine.run(std::slice::from_mut(&mut job));
    job.status
}

/// Header, IV, text, and a tag or room for one.
pub fn packet(parts: &[&[u8]]) -> Vec<u8> {
    parts.concat()
}

/// Keys of the right lengths, different for each `seed`.
pub fn keys(suite: Suite, seed: u64) -> Keys {
    let mut random = Random(seed);
    Keys {
        cipher: random.bytes(suite.cipher_key_len_bytes()),
        salt: random.bytes(suite.salt_len_bytes()),
        auth: random.bytes(suite.auth_key_len_bytes()),
    }
}

/// Reproducible bytes (SplitMix64).
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.next() as u8).collect()
    }
}

/// One block of a data file: `name = value` lines.
pub struct Case(BTreeMap<String, String>);

impl Case {
    pub fn text(&self, name: &str) -> &str {
        self.0.get(name).unwrap_or_else(|| panic!("no {name} in case"))
    }

    pub fn hex(&self, name: &str) -> Vec<u8> {
        let text = self.text(name).as_bytes();
        assert!(text.len().is_multiple_of(2), "{name}");
        let byte = |pair: &[u8]| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap();
        text.chunks(2).map(byte).collect()
    }

    pub fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    pub fn seq_hi(&self) -> Option<u32> {
        self.has("seq_hi").then(|| u32::from_str_radix(self.text("seq_hi"), 16).unwrap())
    }
}

/// Parses a data file: blocks of `name = value` lines with empty lines between them, `#` comments.
pub fn cases(file: &str) -> Vec<Case> {
    let mut cases = vec![Case(BTreeMap::new())];
    for line in file.lines().map(str::trim).filter(|line| !line.starts_with('#')) {
        match line.split_once(" =") {
            Some((name, value)) => {
                let block = &mut cases.last_mut().unwrap().0;
                block.insert(name.to_owned(), value.trim().to_owned());
            }
            None => {
                assert!(line.is_empty(), "{line}");
                cases.push(Case(BTreeMap::new()));
            }
        }
    }
    cases.retain(|case| !case.0.is_empty());
    cases
}

/// How many vectors ran, and how many did not and why.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub ran: usize,
    pub skipped: BTreeMap<&'static str, usize>,
}

impl Tally {
    pub fn skip(&mut self, reason: &'static str) {
        *self.skipped.entry(reason).or_default() += 1;
    }

    /// Asserts the exact counts.
    pub fn assert(&self, ran: usize, skipped: &[(&'static str, usize)]) {
        let want = Tally { ran, skipped: skipped.iter().copied().collect() };
        assert_eq!(self, &want);
    }
}
