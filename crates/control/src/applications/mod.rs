//! Applications of flows (`[applications]`): the classifier's thread, and what it has found out.
//!
//! Workers copy the first packets of flows whose application is not known; a thread of its own looks at the copies, and puts what
//! it learns where workers find it. Neither the control thread nor a packet waits for it: while it hangs, or when it has
//! ended, flows are not recognised, and nothing else is different. Where `applications.ndpi` is on, the thread asks a process that has
//! nDPI about flows that it cannot read.

mod looking;
mod names;
mod ndpi;
mod second;
mod shown;

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::Instant;

use apps::{AppId, Classifier, Hints};
use arc_swap::ArcSwap;
use config::{ApplicationConfig, ApplicationsConfig, catalogue};
use dataplane::{Applications, CopyCounts, CopyReader};
use report::{App, AppOnPath, Apps};

use self::looking::Looking;
pub use self::names::Names;
use self::ndpi::{Ndpi, News};
pub use self::ndpi::{NdpiProgram, probe as probe_ndpi};
use self::second::Second;
use self::shown::Shown;
use crate::confinement::Confinement;
use crate::workers::set::Workers;

/// Flows that are remembered, and as many servers and answers: 24 bytes each.
const ROOM: usize = 1 << 16;

/// Recognition of applications, where it is on.
#[derive(Default)]
pub struct Recognition {
    config: (ApplicationsConfig, Vec<ApplicationConfig>),
    running: Option<Running>,
    /// The program that asks nDPI.
    pub(crate) program: NdpiProgram,
    /// Why there is no thread.
    trouble: Option<String>,
}

struct Running {
    applications: Arc<Applications>,
    /// Takes the copies of another set of workers. The thread ends when this is gone.
    readers: Sender<CopyReader>,
    /// Counts of the copies, of each set of workers that there was.
    copies: Vec<Arc<CopyCounts>>,
    /// The set of workers that sends copies.
    of_set: u64,
    shown: Arc<ArcSwap<Shown>>,
    /// The second classifier, where one is asked.
    ndpi: Option<Ndpi>,
    thread: JoinHandle<()>,
}

impl Running {
    fn begin(
        config: &(ApplicationsConfig, Vec<ApplicationConfig>),
        program: &NdpiProgram,
        confinement: Confinement,
    ) -> io::Result<Running> {
        let (settings, entries) = config;
        let catalogue = catalogue(settings, entries).map_err(io::Error::other)?;
        let (catalogue, hints) = (Arc::new(catalogue), Arc::new(Hints::new(ROOM)));
        let forwarders = settings.forwarders.iter().map(|prefix| prefix.0).collect();
        let mut classifier =
            Classifier::new(Arc::clone(&catalogue), Arc::clone(&hints), forwarders);
        let (readers, readers_out) = channel();
        let shown = Arc::new(ArcSwap::from_pointee(Shown::default()));
        let (links, links_out) = channel();
        let news = Arc::new(News::default());
        let second = settings.ndpi.then(|| {
            classifier.ask_another();
            Second::new(links_out, Arc::clone(&news), &catalogue)
        });
        let looking = Looking::new(classifier, readers_out, Arc::clone(&shown), second);
        let thread = Builder::new().name("culvert-apps".into()).spawn(move || {
            looking::warm_up();
            confinement.for_packets();
            looking.run();
        })?;
        let ndpi = settings.ndpi.then(|| Ndpi::begin(program.clone(), links, news));
        let applications = Arc::new(Applications::new(catalogue, hints));
        Ok(Running { applications, readers, copies: Vec::new(), of_set: 0, shown, ndpi, thread })
    }

    /// Has each worker of a set send copies, if it is another one.
    fn follow_set(&mut self, workers: &Workers) {
        if self.of_set == workers.set_number() {
            return;
        }
        self.of_set = workers.set_number();
        let reader = workers.copies();
        self.copies.push(reader.shared());
        // A thread that has ended takes none; it is begun anew.
        let _ = self.readers.send(reader);
    }
}

impl Recognition {
    /// Follows the configuration, and the set of workers that runs. Returns the applications for workers.
    pub fn follow(
        &mut self,
        config: (&ApplicationsConfig, &[ApplicationConfig]),
        workers: &Workers,
        confinement: &Confinement,
    ) -> Option<Arc<Applications>> {
        let has_ended = self.running.as_ref().is_some_and(|running| running.thread.is_finished());
        if has_ended {
            tracing::error!(
                "the thread that recognises applications has ended; another one begins"
            );
        }
        if has_ended || self.config.0 != *config.0 || self.config.1 != config.1 {
            self.config = (config.0.clone(), config.1.to_vec());
            (self.running, self.trouble) = (None, None);
        }
        if config.0.enabled && self.running.is_none() {
            match Running::begin(&self.config, &self.program, confinement.clone()) {
                Ok(running) => self.running = Some(running),
                Err(error) => self.trouble = Some(format!("no thread: {error}")),
            }
        }
        let running = self.running.as_mut()?;
        running.follow_set(workers);
        Some(Arc::clone(&running.applications))
    }

    /// Has the thread end, as if it had by itself.
    #[cfg(test)]
    pub(crate) fn end_thread(&mut self) {
        if let Some(running) = &mut self.running {
            running.readers = channel().0;
        }
    }

    /// Tries again what failed: the process that asks nDPI.
    pub fn retry(&mut self, now: Instant) {
        if let Some(ndpi) = self.running.as_mut().and_then(|running| running.ndpi.as_mut()) {
            ndpi.tend(now);
        }
    }

    /// Number of an application, where applications are told apart.
    pub fn id(&self, name: &str) -> Option<AppId> {
        self.running.as_ref()?.applications.catalogue().find(name)
    }

    /// True if the thread has ended by itself.
    pub fn has_ended(&self) -> bool {
        self.running.as_ref().is_some_and(|running| running.thread.is_finished())
    }

    /// Look-up of the applications of flows, from this time of the workers' clock on.
    pub fn names(&self, now_ns: u64) -> Names {
        let applications = self.running.as_ref().map(|running| Arc::clone(&running.applications));
        Names::new(applications, now_ns)
    }

    /// A warning for `culvert status`, where flows should be recognised and are not.
    pub fn warning(&self) -> Option<String> {
        let Apps { trouble, ndpi, .. } = self.report(0);
        let trouble = trouble.or(ndpi.and_then(|ndpi| ndpi.trouble));
        trouble.map(|trouble| format!("applications: {trouble}"))
    }

    /// `culvert app`, with so many verdicts.
    pub fn report(&self, recent: usize) -> Apps {
        let Some(running) = &self.running else {
            let (enabled, trouble) = (self.config.0.enabled, self.trouble.clone());
            return Apps { enabled, trouble, ..Apps::default() };
        };
        let shown = running.shown.load();
        let catalogue = running.applications.catalogue();
        let counts = catalogue.all().map(|(id, name)| {
            let looked = shown.tally.of(id);
            let (packets, bytes) = running.applications.counted(id);
            let mut known_by = looked.known_by();
            let by_rule = running.applications.flows_by_rule(id);
            if by_rule > 0 {
                known_by.insert(apps::KnownBy::Rule.word().into(), by_rule);
            }
            let paths = running
                .applications
                .by_path(id)
                .map(|(path, packets, bytes)| (path.to_string(), AppOnPath { packets, bytes }));
            App {
                name: name.to_owned(),
                flows: known_by.values().sum(),
                known_by,
                packets: packets + looked.packets,
                bytes: bytes + looked.bytes,
                paths: paths.collect(),
            }
        });
        let mut applications: Vec<App> =
            counts.filter(|app| app.flows > 0 || app.packets > 0).collect();
        applications.sort_by_key(|app| core::cmp::Reverse(app.bytes));
        let ended = "the thread that recognises applications has ended; another one begins soon";
        Apps {
            enabled: true,
            trouble: self.has_ended().then(|| ended.to_owned()),
            applications,
            copied: running.copies.iter().map(|copies| copies.copied()).sum(),
            lost: running.copies.iter().map(|copies| copies.lost()).sum(),
            odd: shown.tally.odd,
            answers: shown.tally.answers,
            strange_answers: shown.tally.strange_answers,
            displaced: shown.tally.displaced,
            ndpi: running.ndpi.as_ref().map(Ndpi::report),
            recent: shown.recent(recent, catalogue),
        }
    }
}
