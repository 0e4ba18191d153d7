//! nDPI's process, as the control thread has it: begun, ended when it is of no use, and begun anew, ever more rarely.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use ndpi::{Broken, Child, Link};
use report::AppsNdpi;

/// Pause before the process is begun anew, the first time and at most. It doubles with each failure.
const PAUSE: Duration = Duration::from_secs(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(600);

/// A process that has worked for so long has no failures behind it.
const WELL: Duration = Duration::from_secs(600);

/// A program that serves, with its arguments.
#[derive(Clone, Debug)]
pub struct NdpiProgram {
    /// Path of the program.
    pub path: PathBuf,
    /// Arguments by which it serves.
    pub arguments: Vec<&'static str>,
}

impl Default for NdpiProgram {
    /// The program that runs, `culvert`, whatever has become of its file.
    fn default() -> NdpiProgram {
        NdpiProgram { path: "/proc/self/exe".into(), arguments: vec!["ndpi"] }
    }
}

/// How long a library may take to say that it is there.
const PROBE: Duration = Duration::from_secs(5);

/// Begins the process to hear whether it can work. Returns the version of the library.
///
/// # Errors
/// It cannot: why, and what to do about it.
pub fn probe() -> Result<String, String> {
    let NdpiProgram { path, arguments } = NdpiProgram::default();
    ::ndpi::probe(&path, &arguments, PROBE)
}

/// State of the process, by the thread that asks it.
#[derive(Clone, Debug)]
pub(super) enum State {
    /// It loads the library.
    Begins,
    /// It answers; version of the library.
    Answers(String),
    /// It is of no use any more.
    Broken(Broken),
    /// It could not be begun.
    Refused(String),
}

/// State and counts, which both threads see.
#[derive(Debug)]
pub(super) struct News {
    pub(super) state: ArcSwap<State>,
    /// Packets that it was asked about.
    pub(super) asked: AtomicU64,
    /// Packets that it was not, as too many waited or there was no process.
    pub(super) unasked: AtomicU64,
}

/// The process, while there is one, and when the next is begun.
pub(super) struct Ndpi {
    program: NdpiProgram,
    child: Option<Child>,
    links: Sender<Link>,
    news: Arc<News>,
    begun: Instant,
    failures: u32,
    again: Option<Instant>,
    counts: Counts,
}

/// Ends of processes by their kinds.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    begun: u64,
    crashes: u64,
    hangs: u64,
    refused: u64,
}

impl Default for News {
    fn default() -> News {
        let state = ArcSwap::from_pointee(State::Begins);
        News { state, asked: AtomicU64::new(0), unasked: AtomicU64::new(0) }
    }
}

impl Ndpi {
    /// Begins a process; the queue to it goes to the thread that asks.
    pub(super) fn begin(program: NdpiProgram, links: Sender<Link>, news: Arc<News>) -> Ndpi {
        let (begun, counts) = (Instant::now(), Counts::default());
        let mut ndpi =
            Ndpi { program, child: None, links, news, begun, failures: 0, again: None, counts };
        ndpi.begin_child(begun);
        ndpi
    }

    fn begin_child(&mut self, now: Instant) {
        self.news.state.store(Arc::new(State::Begins));
        self.again = None;
        self.begun = now;
        let NdpiProgram { path, arguments } = &self.program;
        match Child::begin(path, arguments) {
            Ok((child, socket)) => {
                self.counts.begun += 1;
                self.child = Some(child);
                // A thread that has ended takes none; it is begun anew, and this with it.
                let _ = self.links.send(Link::new(socket));
            }
            Err(error) => {
                self.news.state.store(Arc::new(State::Refused(refusal(&self.program, &error))));
                self.fail(now);
            }
        }
    }

    /// Ends a process that is of no use, and begins one when it is time.
    pub(super) fn tend(&mut self, now: Instant) {
        let state = self.news.state.load_full();
        if let State::Broken(broken) = &*state
            && self.child.take().is_some()
        {
            match broken {
                Broken::Ended => self.counts.crashes += 1,
                Broken::Hung => self.counts.hangs += 1,
                Broken::Unable(_) | Broken::Nonsense(_) | Broken::Lost(_) => {
                    self.counts.refused += 1
                }
            }
            if now.saturating_duration_since(self.begun) >= WELL {
                self.failures = 0;
            }
            self.fail(now);
            tracing::warn!("{broken}; flows are recognised without it");
        }
        if self.again.is_some_and(|again| now >= again) {
            self.begin_child(now);
        }
    }

    /// Puts the next beginning off.
    fn fail(&mut self, now: Instant) {
        let pause = PAUSE.saturating_mul(1 << self.failures.min(16)).min(LONGEST_PAUSE);
        self.failures = self.failures.saturating_add(1);
        self.again = Some(now + pause);
    }

    /// Its part of `culvert app`.
    pub(super) fn report(&self) -> AppsNdpi {
        let (version, trouble) = match &**self.news.state.load() {
            State::Begins => (None, None),
            State::Answers(version) => (Some(version.clone()), None),
            State::Broken(broken) => (None, Some(broken.to_string())),
            State::Refused(why) => (None, Some(why.clone())),
        };
        let Counts { begun, crashes, hangs, refused } = self.counts;
        let asked = self.news.asked.load(Relaxed);
        let unasked = self.news.unasked.load(Relaxed);
        AppsNdpi { version, trouble, asked, unasked, begun, crashes, hangs, refused }
    }

    /// Number of the process, for tests.
    #[cfg(test)]
    pub(super) fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::pid)
    }
}

fn refusal(program: &NdpiProgram, error: &io::Error) -> String {
    format!("nDPI's process cannot be begun: {}: {error}", program.path.display())
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    /// One that ends at once, or never begins, by the program.
    fn subject(path: &str) -> (Ndpi, Arc<News>, std::sync::mpsc::Receiver<Link>) {
        let (links, links_out) = channel();
        let news = Arc::new(News::default());
        let program = NdpiProgram { path: path.into(), arguments: Vec::new() };
        (Ndpi::begin(program, links, Arc::clone(&news)), news, links_out)
    }

    #[test]
    fn a_process_that_crashes_is_begun_ever_more_rarely() {
        let (mut ndpi, news, links) = subject("/bin/true");
        let start = Instant::now();
        let mut begun = vec![0];
        for second in 0..3600 {
            // The thread that asks would say so.
            news.state.store(Arc::new(State::Broken(Broken::Ended)));
            let before = ndpi.counts.begun;
            ndpi.tend(start + Duration::from_secs(second));
            if ndpi.counts.begun > before {
                begun.push(second);
            }
        }
        assert!(begun.starts_with(&[0, 10, 31, 72, 153, 314, 635]), "{begun:?}");
        assert!(begun.len() <= 13, "{begun:?}");
        let report = ndpi.report();
        assert_eq!((report.begun, report.crashes), (begun.len() as u64, begun.len() as u64));
        assert_eq!(links.iter().take(begun.len()).count(), begun.len());
    }

    #[test]
    fn one_that_hangs_is_ended() {
        let (links, _links_out) = channel();
        let news = Arc::new(News::default());
        let program = NdpiProgram { path: "/bin/sleep".into(), arguments: vec!["1000"] };
        let mut ndpi = Ndpi::begin(program, links, Arc::clone(&news));
        let pid = ndpi.pid().expect("a process");
        news.state.store(Arc::new(State::Broken(Broken::Hung)));
        ndpi.tend(Instant::now());
        assert!(!PathBuf::from(format!("/proc/{pid}")).exists());
        assert_eq!((ndpi.report().hangs, ndpi.pid()), (1, None));
        assert!(ndpi.report().trouble.is_some_and(|why| why.contains("no answer")));
    }

    #[test]
    fn one_that_does_not_begin_is_said_and_tried_again() {
        let (mut ndpi, _, _links) = subject("/nonexistent/culvert");
        let why = ndpi.report().trouble.expect("trouble");
        assert!(why.contains("/nonexistent/culvert: No such file"), "{why}");
        ndpi.program.path = "/bin/true".into();
        ndpi.tend(Instant::now() + PAUSE);
        assert_eq!((ndpi.report().begun, ndpi.report().trouble), (1, None));
    }
}
