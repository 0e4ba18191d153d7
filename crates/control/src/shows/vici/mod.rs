//! Which of charon's configured children are up, asked by vici (`[vici]`).
//!
//! XFRM tells what there is; a connection that did not come up is in charon alone. A thread of its own asks, and publishes
//! what it hears: neither the control thread nor a packet waits for charon.

mod charon;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use config::ViciConfig;
use report::{ConfiguredChild, Connections};
use vici::lists::Child;

use crate::clock::wall_ms;
use crate::confinement::Confinement;

/// How often charon is asked.
const INTERVAL: Duration = Duration::from_secs(10);

/// How long it may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Of the time at most one part in so many is charon's answering: one with very many SAs is asked more rarely.
const SHARE: u32 = 10;

/// Age at which charon's last answer counts for nothing.
const STALE: Duration = Duration::from_secs(90);

/// The thread that asks, if one is to.
pub struct Vici {
    config: ViciConfig,
    asking: Option<Asking>,
    begin: Begin,
}

/// Begins a thread that asks.
pub type Begin = Box<dyn Fn(ViciConfig, Confinement) -> io::Result<Asking>>;

/// A thread that asks.
pub struct Asking {
    said: Arc<ArcSwap<Said>>,
    /// The thread ends when this is gone.
    _until: Sender<()>,
}

/// Last answer of charon.
struct Said {
    at: Instant,
    children: Result<Vec<ConfiguredChild>, String>,
}

impl Said {
    fn now(children: Result<Vec<ConfiguredChild>, String>) -> Arc<Said> {
        Arc::new(Said { at: Instant::now(), children })
    }
}

impl Default for Vici {
    fn default() -> Self {
        Vici::by(Box::new(Asking::begin))
    }
}

impl Vici {
    /// Nobody asks yet.
    pub fn by(begin: Begin) -> Vici {
        Vici { config: ViciConfig::default(), asking: None, begin }
    }

    /// Asks as the configuration wants it.
    ///
    /// # Errors
    /// There is no thread to be had; everything is as before.
    pub fn follow(&mut self, config: &ViciConfig, confinement: &Confinement) -> io::Result<()> {
        if *config == self.config {
            return Ok(());
        }
        self.asking = match config.socket {
            Some(_) => Some((self.begin)(config.clone(), confinement.clone())?),
            None => None,
        };
        self.config = config.clone();
        Ok(())
    }

    /// The configuration by which it is asked.
    #[cfg(test)]
    pub const fn config(&self) -> &ViciConfig {
        &self.config
    }

    /// Charon's connections. `None` where no thread asks.
    pub fn report(&self) -> Option<Connections> {
        let said = self.asking.as_ref()?.said.load();
        let (children, why) = match &said.children {
            _ if said.at.elapsed() > STALE => (Vec::new(), Some("no news for long".into())),
            Ok(children) => (children.clone(), None),
            Err(why) => (Vec::new(), Some(why.clone())),
        };
        let socket = self.config.socket.as_ref()?.display().to_string();
        Some(Connections { socket, reachable: why.is_none(), why, children })
    }
}

impl Asking {
    /// One that never hears anything.
    #[cfg(test)]
    pub fn silent() -> Asking {
        Asking { said: Arc::new(ArcSwap::new(Said::now(Ok(Vec::new())))), _until: channel().0 }
    }

    fn begin(config: ViciConfig, confinement: Confinement) -> io::Result<Asking> {
        let said = Arc::new(ArcSwap::new(Said::now(Err("not asked yet".into()))));
        let (until, is_over) = channel();
        let to = Arc::clone(&said);
        thread::Builder::new().name("culvert-vici".into()).spawn(move || {
            confinement.for_vici();
            run(&config, &to, &is_over);
        })?;
        Ok(Asking { said, _until: until })
    }
}

fn run(config: &ViciConfig, to: &ArcSwap<Said>, is_over: &Receiver<()>) {
    let Some(socket) = &config.socket else { return };
    let mut downs = Downs::default();
    loop {
        let begin = Instant::now();
        let lists = charon::ask(socket, PATIENCE);
        to.store(Said::now(lists.map(|(mut configured, up)| {
            configured.retain(|child| !config.leaves_out(child));
            downs.judge(configured, &up, wall_ms())
        })));
        let pause = INTERVAL.max(begin.elapsed() * SHARE);
        if is_over.recv_timeout(pause) != Err(RecvTimeoutError::Timeout) {
            return;
        }
    }
}

/// Since when children are down. While charon cannot be reached that is kept.
#[derive(Default)]
struct Downs(BTreeMap<Child, u64>);

impl Downs {
    fn judge(
        &mut self,
        configured: BTreeSet<Child>,
        up: &BTreeSet<Child>,
        now_ms: u64,
    ) -> Vec<ConfiguredChild> {
        self.0.retain(|child, _| configured.contains(child) && !up.contains(child));
        let each = configured.into_iter().map(|child| {
            let is_up = up.contains(&child);
            let down_since_ms = (!is_up).then(|| *self.0.entry(child.clone()).or_insert(now_ms));
            let (connection, child) = child;
            ConfiguredChild { connection, child, up: is_up, down_since_ms }
        });
        each.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(names: &[&str]) -> BTreeSet<Child> {
        names.iter().map(|name| ("hq".to_owned(), (*name).to_owned())).collect()
    }

    #[test]
    fn a_child_is_down_since_it_was_first_seen_so() {
        let mut downs = Downs::default();
        let mut at = |now, configured: &[&str], up: &[&str]| {
            let children = downs.judge(set(configured), &set(up), now);
            children.into_iter().map(|c| (c.child, c.up, c.down_since_ms)).collect::<Vec<_>>()
        };
        let (a, b) = (|| "a".to_owned(), || "b".to_owned());
        assert_eq!(at(1, &["a", "b"], &["a"]), [(a(), true, None), (b(), false, Some(1))]);
        assert_eq!(at(2, &["a", "b"], &[]), [(a(), false, Some(2)), (b(), false, Some(1))]);
        assert_eq!(at(3, &["a", "b"], &["b"]), [(a(), false, Some(2)), (b(), true, None)]);
        assert_eq!(at(4, &["b"], &["a"]), [(b(), false, Some(4))]);
        assert_eq!(at(5, &["a"], &[]), [(a(), false, Some(5))]);
    }

    #[test]
    fn who_cannot_be_reached_says_nothing_of_children() {
        let mut vici = Vici::default();
        assert_eq!(vici.report(), None);
        let confinement = Confinement::begin(false);
        let config =
            ViciConfig { socket: Some("/nonexistent/vici".into()), ..ViciConfig::default() };
        vici.follow(&config, &confinement).unwrap();
        let until = Instant::now() + Duration::from_secs(20);
        loop {
            let report = vici.report().unwrap();
            assert!(!report.reachable && report.children.is_empty(), "{report:?}");
            if report.why.is_some_and(|why| why.starts_with("No such file")) {
                break;
            }
            assert!(Instant::now() < until, "nobody asks");
            thread::sleep(Duration::from_millis(10));
        }
        vici.follow(&ViciConfig::default(), &confinement).unwrap();
        assert_eq!(vici.report(), None);
    }
}
