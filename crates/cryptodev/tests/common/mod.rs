//! DPDK with the devices of all tests, and SAs for them.

#![allow(dead_code, reason = "each test file uses a part")]

use core::net::{IpAddr, Ipv4Addr};

use crypto::{Engine, Job, JobStatus, Keys, Op, Provider, Suite};
use cryptodev::{CryptoDevice, Settings};
use engine_openssl::OpensslProvider;
use esp::SaParams;
use offload::{
    Burst, Completion, CryptoWork, Device, Live, NewSa, Queue, Request, SaDirection, SaHandle,
    Status, Work,
};
use policy::SaConfig;
use wire::Span;

/// Drivers that are software, and do crypto.
pub const DRIVERS: [&str; 5] = [
    "crypto_openssl",
    "crypto_aesni_mb",
    "crypto_aesni_gcm",
    "crypto_chacha20_poly1305",
    "crypto_scheduler",
];

/// A device for each test and driver, as a process starts DPDK once.
const TESTS: [&str; 6] = ["contract", "packets", "threads", "pairs", "reset", "removal"];

/// A test's device of a driver; a scheduler is made of two others, which are made first.
fn settings(test: &str, driver: &str) -> Settings {
    let mut settings = Settings { driver: driver.into(), ..Settings::default() };
    if driver == "crypto_scheduler" {
        let workers = [0, 1].map(|n| format!("crypto_openssl_{test}_w{n}"));
        settings.args = workers.iter().map(|worker| format!("worker={worker}")).collect();
        settings.args.push("mode=round-robin".into());
        settings.eal = workers.iter().map(|worker| format!("--vdev={worker}")).collect();
    }
    settings
}

fn start() {
    let all = TESTS.iter().flat_map(|test| {
        let drivers = DRIVERS.iter().chain(&["crypto_null"]);
        drivers.map(|driver| (*test, settings(test, driver)))
    });
    let mut all: Vec<(&str, Settings)> = all.collect();
    all[0].1.eal = ["--no-huge", "-m", "1024"].map(str::to_owned).into();
    let all: Vec<(&str, &Settings)> = all.iter().map(|(name, of)| (*name, of)).collect();
    cryptodev::start(&all).unwrap();
}

/// A test's device of a driver.
pub fn open(test: &str, driver: &str) -> CryptoDevice {
    try_open(test, driver).unwrap()
}

pub fn try_open(test: &str, driver: &str) -> Result<CryptoDevice, cryptodev::OpenError> {
    start();
    CryptoDevice::open(test, &settings(test, driver))
}

/// A device with an SA of each direction.
pub struct Bench {
    pub device: CryptoDevice,
    pub queue: Box<dyn Queue<Vec<u8>>>,
}

impl Bench {
    pub fn new(test: &str, driver: &str) -> Bench {
        let mut device = open(test, driver);
        let queue = tested(&mut device).queue().unwrap();
        Bench { device, queue }
    }

    pub fn put(&mut self, suite: Suite, spi: u32) -> [SaHandle; 2] {
        put(&mut self.device, suite, spi)
    }

    /// Submits one packet and waits for it.
    pub fn run(&mut self, work: Work, packet: &[u8]) -> (Vec<u8>, Status) {
        run(&mut *self.queue, work, packet)
    }
}

pub fn put(device: &mut CryptoDevice, suite: Suite, spi: u32) -> [SaHandle; 2] {
    [SaDirection::Outbound, SaDirection::Inbound].map(|direction| {
        let (config, keys, start) = (config(suite, spi), keys(suite), Live::default());
        let new = NewSa { direction, config: &config, keys: &keys, start: &start };
        tested(device).put_sa(new).unwrap()
    })
}

pub fn tested(device: &mut CryptoDevice) -> &mut dyn Device<Vec<u8>> {
    device
}

pub fn run(queue: &mut dyn Queue<Vec<u8>>, work: Work, packet: &[u8]) -> (Vec<u8>, Status) {
    let mut requests: Burst<_> = [Request { buffer: packet.to_vec(), work }].into_iter().collect();
    assert_eq!(queue.submit(&mut requests), 1);
    let Completion { buffer, status, .. } = wait(queue, 1).pop().unwrap();
    (buffer, status)
}

pub fn wait(queue: &mut dyn Queue<Vec<u8>>, count: usize) -> Vec<Completion<Vec<u8>>> {
    let mut back = Vec::new();
    for _ in 0..1_000_000 {
        let mut completions = Burst::new();
        queue.poll(&mut completions);
        back.extend(completions);
        if back.len() == count {
            return back;
        }
    }
    panic!("{} of {count} came back", back.len());
}

/// Work on a whole ESP packet behind `before` bytes.
pub fn work(op: Op, sa: SaHandle, before: usize, len: usize, seq_hi: Option<u32>) -> Work {
    let of = CryptoWork { sa, esp: Span { start: before, len: len - before }, seq_hi };
    match op {
        Op::Seal => Work::Seal(of),
        Op::Open => Work::Open(of),
    }
}

/// An ESP packet with so many bytes of text behind so many others.
pub fn packet(suite: Suite, before: usize, text: usize) -> Vec<u8> {
    let len = before + 8 + suite.iv_len_bytes() + text + suite.icv_len_bytes();
    (0..len).map(|n| (n * 7 + n / 256) as u8).collect()
}

pub fn keys(suite: Suite) -> Keys {
    Keys {
        cipher: (1..).take(suite.cipher_key_len_bytes()).collect(),
        salt: (0xa0..).take(suite.salt_len_bytes()).collect(),
        auth: (0x40..).take(suite.auth_key_len_bytes()).collect(),
    }
}

pub fn config(suite: Suite, spi: u32) -> SaConfig {
    let end = |last| IpAddr::V4(Ipv4Addr::new(192, 0, 2, last));
    let params = SaParams { replay_window: 64, ..SaParams::tunnel(suite, spi, (end(1), end(2))) };
    SaConfig { reqid: 7, ..SaConfig::plain(params) }
}

/// The software's engine.
pub struct Software(OpensslProvider, Box<dyn Engine>);

impl Software {
    pub fn new() -> Software {
        let provider = OpensslProvider::new().unwrap();
        let engine = provider.engine().unwrap();
        Software(provider, engine)
    }

    pub fn run(&mut self, suite: Suite, op: Op, esp: &[u8], seq_hi: Option<u32>) -> Vec<u8> {
        let session = self.0.session(suite, &keys(suite)).unwrap();
        let mut packet = esp.to_vec();
        let mut jobs = [Job::esp(&session, op, &mut packet, seq_hi)];
        self.1.run(&mut jobs);
        assert_eq!(jobs[0].status, JobStatus::Done, "{suite}");
        packet
    }
}

pub fn named(name: &str) -> Suite {
    Suite::all().find(|suite| suite.to_string() == name).unwrap()
}
