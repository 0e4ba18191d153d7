//! Memif ports count on when a reload changes their settings.

use super::Plane;
use crate::memifs::MemifState;
use crate::plan::testing::PORTS;

/// A memif port, and an Ethernet port whose settings change too.
fn config(ring_size: u32, queues: u32) -> String {
    let port = PORTS[0];
    format!(
        "[[port]]\ninterface = \"{port}\"\nqueues = {queues}\n[[port]]\ninterface = \"app0\"\nkind = \"memif\"\n\
         socket = \"/nonexistent/app0.sock\"\nring_size = {ring_size}\n"
    )
}

impl Plane {
    fn reload_to(&mut self, text: &str) -> bool {
        std::fs::write(&self.config, text).expect("a file");
        let reloaded = self.daemon.reload(self.now).reloaded;
        self.hardware.mend();
        self.settle();
        reloaded
    }

    /// Packets that each memif port has received.
    fn received(&self) -> Vec<u64> {
        let sum = |state: MemifState<'_>| state.stats.iter().map(|stats| stats.rx_packets).sum();
        self.daemon.linux.memifs.states().map(sum).collect()
    }
}

#[test]
fn they_count_on_with_other_settings() {
    let mut plane = Plane::start(&config(1024, 1));
    plane.settle();
    assert_eq!(plane.received(), [0]);
    plane.daemon.linux.memifs.count("app0", 0, 3);
    plane.daemon.linux.memifs.count("app0", 1, 4);
    assert!(plane.reload_to(&config(2048, 1)));
    assert_eq!(plane.received(), [7], "other rings");
    assert!(plane.reload_to(&config(2048, 2)));
    assert_eq!(plane.received(), [7], "another port");
    plane.daemon.linux.memifs.count("app0", 0, 1);
    assert_eq!(plane.received(), [8]);
}

#[test]
fn they_count_on_when_a_reload_is_taken_back() {
    let mut plane = Plane::start(&config(1024, 1));
    plane.settle();
    plane.daemon.linux.memifs.count("app0", 0, 3);
    let wanted = config(2048, 1);
    let parsed = config::Config::parse(&wanted, &plane.config).expect("it is valid");
    plane.hardware.refuse_memif(&parsed.memifs[0]);
    assert!(!plane.reload_to(&wanted), "its interface cannot be made");
    assert_eq!(plane.received(), [3]);
}

#[test]
fn one_that_was_taken_out_begins_anew() {
    let mut plane = Plane::start(&config(1024, 1));
    plane.settle();
    plane.daemon.linux.memifs.count("app0", 0, 3);
    assert!(plane.reload_to(""));
    assert_eq!(plane.received(), [0; 0]);
    assert!(plane.reload_to(&config(1024, 1)));
    assert_eq!(plane.received(), [0]);
}
