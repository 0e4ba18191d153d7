//! While the daemon hangs, what Linux sends to the private interface is led past it, where Linux can carry on
//! in culvert's place.
//!
//! A program on the interface ([`steer::Detour`]) has such packets come in there, with the mark that one of
//! culvert's rules leads past its table. So Linux forwards them: its firewall sees them come in by the
//! private interface, its policies protect them, and their TTL is one less.

use std::fs;

use config::TunConfig;
use steer::Detour;
use tracing::warn;

use crate::clock::Now;
use crate::heartbeat::Heartbeat;

/// The program, while it is wanted.
pub struct PastDaemon {
    interface: String,
    mark: u32,
    is_on: bool,
    heartbeat: Heartbeat,
    program: Option<Detour>,
    /// Why there is no program, though one is wanted.
    trouble: Option<String>,
}

impl PastDaemon {
    /// Nothing is led past yet.
    pub fn new(config: &TunConfig) -> PastDaemon {
        PastDaemon {
            interface: config.interface.clone(),
            mark: config.mark,
            is_on: false,
            heartbeat: Heartbeat::default(),
            program: None,
            trouble: None,
        }
    }

    /// Has packets led past a daemon that hangs, or not. With it, [`PastDaemon::beat`] is due. A failure is
    /// a warning.
    pub fn set(&mut self, now: Now, is_on: bool) {
        if self.is_on == is_on {
            return;
        }
        self.is_on = is_on;
        (self.heartbeat, self.program, self.trouble) = Default::default();
        if !is_on {
            return;
        }
        if self.mark == 0 {
            return self.fail(&"tun.mark is 0");
        }
        // A new heartbeat is due.
        let until_ns = self.heartbeat.due(now).unwrap_or(0);
        match Detour::load_and_attach(&self.interface, self.mark, until_ns) {
            Ok(program) => self.program = Some(program),
            Err(error) => self.fail(&error),
        }
    }

    /// Tells the program, if there is one, that the control thread works. To be called in each round.
    pub fn beat(&mut self, now: Now) {
        if let Some(program) = &mut self.program
            && let Some(until_ns) = self.heartbeat.due(now)
            && let Err(error) = program.beat(until_ns)
        {
            // It would lead packets past a daemon that works.
            self.program = None;
            self.fail(&error);
        }
    }

    fn fail(&mut self, why: &dyn std::fmt::Display) {
        let trouble = lost(&self.interface, why);
        warn!("{trouble}");
        self.trouble = Some(trouble);
    }

    /// Warnings for the operator.
    pub fn warnings(&self) -> impl Iterator<Item = String> {
        let setting = format!("net.ipv4.conf.{}.forwarding", self.interface);
        let is_stopped = self.program.is_some() && !forwards(&self.interface);
        let stopped = is_stopped.then(|| lost(&self.interface, &format!("{setting} is 0")));
        self.trouble.clone().into_iter().chain(stopped)
    }
}

/// True if Linux forwards IPv4 packets that come in by this interface. Also true where that cannot
/// be read.
fn forwards(interface: &str) -> bool {
    let path = format!("/proc/sys/net/ipv4/conf/{interface}/forwarding");
    fs::read_to_string(path).map_or(true, |value| value.trim() != "0")
}

fn lost(interface: &str, why: &dyn std::fmt::Display) -> String {
    format!("while culvert hangs, what Linux sends to {interface} is lost: {why}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_mark_the_operator_is_warned() {
        let config = TunConfig { mark: 0, ..TunConfig::default() };
        let mut past = PastDaemon::new(&config);
        assert_eq!(past.warnings().count(), 0);
        past.set(Now::read(), true);
        past.beat(Now::read());
        let expected = "while culvert hangs, what Linux sends to culvert0 is lost: tun.mark is 0";
        assert_eq!(past.warnings().collect::<Vec<_>>(), [expected]);
        past.set(Now::read(), false);
        assert_eq!(past.warnings().count(), 0);
    }

    #[test]
    fn a_program_that_cannot_be_is_a_warning() {
        let interface = "no-such-device".to_owned();
        let config = TunConfig { interface, ..TunConfig::default() };
        let mut past = PastDaemon::new(&config);
        past.set(Now::read(), true);
        past.beat(Now::read());
        let warnings: Vec<String> = past.warnings().collect();
        assert_eq!(warnings.len(), 1);
        assert!(warnings[0].starts_with("while culvert hangs, what Linux sends to no-such-device"));
    }
}
