//! Several providers in order of preference, and which of them serves a suite.

use core::fmt;
use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use crate::engine::{Engine, EngineError, Job, JobStatus, Provider};
use crate::key::Keys;
use crate::session::Session;
use crate::suite::Suite;

/// An ordered list of providers: the first that has a suite serves it.
///
/// Which one that is depends on the suite alone and stays for the life of the list, so sessions and
/// engines need no note of their provider. The list is never empty.
#[derive(Clone)]
pub struct Providers {
    first: Arc<dyn Provider>,
    /// All of them, the first included.
    list: Vec<Arc<dyn Provider>>,
    /// Places in the list, by [`Suite::number`].
    serving: Serving,
    /// True once another provider than the first that serves a suite has made a session. Until then
    /// all jobs are for one engine, and no job's suite need be compared.
    is_mixed: Arc<AtomicBool>,
}

/// The provider of each suite, as a place in a list.
type Serving = [Option<u8>; Suite::COUNT];

impl Providers {
    /// A list of one.
    pub fn new(first: Arc<dyn Provider>) -> Providers {
        let (serving, is_mixed) = ([None; Suite::COUNT], Arc::default());
        let mut providers =
            Providers { first: Arc::clone(&first), list: Vec::new(), serving, is_mixed };
        providers.push(first);
        providers
    }

    /// Appends a provider: it serves the suites that those before it lack. One beyond the 256th serves none.
    pub fn push(&mut self, provider: Arc<dyn Provider>) {
        self.append(provider, false);
    }

    /// Appends a provider that serves all of its suites, also those that an earlier one has: for
    /// algorithms that the others do slowly. To be called before the first session is made.
    pub fn push_specialist(&mut self, provider: Arc<dyn Provider>) {
        self.append(provider, true);
    }

    fn append(&mut self, provider: Arc<dyn Provider>, goes_first: bool) {
        let number = u8::try_from(self.list.len()).ok();
        for (suite, place) in Suite::all().zip(&mut self.serving) {
            let is_free = place.is_none() || goes_first && number.is_some();
            if is_free && provider.supports(suite) {
                *place = number;
            }
        }
        self.list.push(provider);
    }

    /// The most preferred provider: the one to measure.
    pub fn first(&self) -> &Arc<dyn Provider> {
        &self.first
    }

    /// The providers, most preferred first.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<dyn Provider>> {
        self.list.iter()
    }

    /// How many suites a provider of the list serves, by its place.
    fn count(&self, place: usize) -> usize {
        self.serving.iter().filter(|serving| serving.map(usize::from) == Some(place)).count()
    }

    /// The provider that serves a suite, as a place in the list.
    fn place(&self, suite: Suite) -> Option<u8> {
        self.serving.get(suite.number()).copied().flatten()
    }

    /// The provider that serves a suite.
    ///
    /// # Errors
    /// [`EngineError::NoProvider`] when none of the list has the suite.
    pub fn serving(&self, suite: Suite) -> Result<&Arc<dyn Provider>, EngineError> {
        let place = self.place(suite);
        place.and_then(|place| self.list.get(usize::from(place))).ok_or_else(|| {
            let asked = self.list.iter().map(|provider| provider.name()).collect();
            EngineError::NoProvider { suite, asked }
        })
    }

    /// Expands the keys of one SA with the provider that serves the suite.
    ///
    /// # Errors
    /// [`EngineError::NoProvider`], or what that provider reports. The next one is not asked then: wrong
    /// keys are wrong everywhere, and a library that fails is not passed over in silence.
    pub fn session(&self, suite: Suite, keys: &Keys) -> Result<Session, EngineError> {
        let session = self.serving(suite)?.session(suite, keys)?;
        if self.place(suite) != self.serving.iter().flatten().min().copied() {
            // Relaxed: handing the session to another thread makes this seen there, too.
            self.is_mixed.store(true, Ordering::Relaxed);
        }
        Ok(session)
    }

    /// An engine for one worker thread, for sessions of [`Providers::session`], of this list or a clone. Where one
    /// provider serves all suites it is that provider's own.
    ///
    /// # Errors
    /// When a library cannot be set up.
    pub fn engine(&self) -> Result<Box<dyn Engine>, EngineError> {
        let mut engines: Vec<Box<dyn Engine>> = Vec::new();
        let mut of = [None; Suite::COUNT];
        for (place, provider) in self.list.iter().enumerate() {
            if self.count(place) == 0 {
                continue;
            }
            let number = u8::try_from(engines.len()).ok();
            for (serving, engine) in self.serving.iter().zip(&mut of) {
                if serving.map(usize::from) == Some(place) {
                    *engine = number;
                }
            }
            engines.push(provider.engine()?);
        }
        match engines.pop() {
            Some(engine) if engines.is_empty() && of.iter().all(Option::is_some) => Ok(engine),
            last => {
                engines.extend(last);
                let is_mixed = Arc::clone(&self.is_mixed);
                Ok(Box::new(EngineBySuite { engines, of, is_mixed }))
            }
        }
    }
}

impl fmt::Debug for Providers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.list.iter().map(|provider| provider.name())).finish()
    }
}

/// Each provider in order, with how many suites it serves.
impl fmt::Display for Providers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, provider) in self.list.iter().enumerate() {
            let (name, description) = (provider.name(), provider.description());
            let between = if place == 0 { "" } else { "; " };
            write!(f, "{between}{name} {description} ({} suites)", self.count(place))?;
        }
        Ok(())
    }
}

/// The engines of several providers as one.
struct EngineBySuite {
    engines: Vec<Box<dyn Engine>>,
    /// Places in `engines`, by [`Suite::number`].
    of: Serving,
    /// See [`Providers::is_mixed`]: shared with it.
    is_mixed: Arc<AtomicBool>,
}

impl Engine for EngineBySuite {
    /// Neighbours that one engine runs go to it together: an engine may fill its lanes with them.
    fn run(&mut self, jobs: &mut [Job<'_>]) {
        let EngineBySuite { engines, of, is_mixed } = self;
        if !is_mixed.load(Ordering::Relaxed) {
            return match engines.first_mut() {
                Some(engine) => engine.run(jobs),
                None => jobs.iter_mut().for_each(|job| job.status = JobStatus::Failed),
            };
        }
        let place = |job: &Job<'_>| of.get(job.session.suite().number()).copied().flatten();
        for jobs in jobs.chunk_by_mut(|a, b| place(a) == place(b)) {
            let place = jobs.first().and_then(place);
            let engine = place.and_then(|place| engines.get_mut(usize::from(place)));
            match engine {
                Some(engine) => engine.run(jobs),
                None => jobs.iter_mut().for_each(|job| job.status = JobStatus::Failed),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Op;
    use crate::{AesKey, IcvLen, Integrity};

    const GCM: Suite = Suite::AesGcm { key: AesKey::Aes128, icv: IcvLen::Icv16 };
    const CHACHA: Suite = Suite::ChaCha20Poly1305;
    const NULL: Suite = Suite::integrity_only(Integrity::Sha256_128);

    /// Knows some suites, and writes its name's first byte over every packet.
    struct Limited {
        name: &'static str,
        suites: Vec<Suite>,
    }

    struct Marks(u8);

    impl Engine for Marks {
        fn run(&mut self, jobs: &mut [Job<'_>]) {
            for job in jobs {
                let is_mine = job.session.state() == Some(&self.0);
                job.packet.fill(self.0);
                job.status = if is_mine { JobStatus::Done } else { JobStatus::Failed };
            }
        }
    }

    impl Provider for Limited {
        fn name(&self) -> &'static str {
            self.name
        }

        fn description(&self) -> String {
            "1.0".to_owned()
        }

        fn supports(&self, suite: Suite) -> bool {
            self.suites.contains(&suite)
        }

        fn session(&self, suite: Suite, _keys: &Keys) -> Result<Session, EngineError> {
            assert!(self.supports(suite), "{} asked for {suite}", self.name);
            Ok(Session::new(suite, Box::new(self.name.as_bytes()[0])))
        }

        fn engine(&self) -> Result<Box<dyn Engine>, EngineError> {
            assert!(!self.suites.is_empty(), "no suite of {} is served", self.name);
            Ok(Box::new(Marks(self.name.as_bytes()[0])))
        }
    }

    fn provider(name: &'static str, suites: &[Suite]) -> Arc<dyn Provider> {
        Arc::new(Limited { name, suites: suites.to_vec() })
    }

    fn providers() -> Providers {
        let mut providers = Providers::new(provider("a", &[GCM]));
        providers.push(provider("none", &[]));
        providers.push(provider("b", &[GCM, CHACHA]));
        providers
    }

    #[test]
    fn the_first_that_has_a_suite_serves_it() {
        let providers = providers();
        let name = |suite| providers.serving(suite).map(|provider| provider.name());
        assert_eq!((name(GCM), name(CHACHA)), (Ok("a"), Ok("b")));
        assert_eq!(format!("{providers:?}"), r#"["a", "none", "b"]"#);
        let text = "a 1.0 (1 suites); none 1.0 (0 suites); b 1.0 (1 suites)";
        assert_eq!(providers.to_string(), text);
        assert_eq!(providers.iter().count(), 3);
    }

    #[test]
    fn a_specialist_serves_what_others_have_too() {
        let mut providers = providers();
        providers.push_specialist(provider("special", &[CHACHA]));
        let name = |suite| providers.serving(suite).map(|provider| provider.name());
        assert_eq!((name(GCM), name(CHACHA)), (Ok("a"), Ok("special")));
        assert_eq!(providers.first().name(), "a");
        let session = providers.session(CHACHA, &Keys::default()).unwrap();
        let mut packet = [0; 4];
        let mut jobs = [Job::esp(&session, Op::Seal, &mut packet, None)];
        providers.engine().unwrap().run(&mut jobs);
        assert_eq!((jobs[0].status, packet), (JobStatus::Done, *b"ssss"));
    }

    #[test]
    fn a_suite_that_nobody_has_is_refused_by_name() {
        let error = providers().session(NULL, &Keys::default()).unwrap_err();
        assert_eq!(error, EngineError::NoProvider { suite: NULL, asked: vec!["a", "none", "b"] });
        let text = error.to_string();
        assert_eq!(text, "no engine implements null-sha256 (asked: a, none, b)");
    }

    #[test]
    fn jobs_go_to_the_engine_of_their_suite() {
        let providers = providers();
        let mut engine = providers.engine().unwrap();
        let keys = Keys::default();
        let [gcm, chacha] = [GCM, CHACHA].map(|suite| providers.session(suite, &keys).unwrap());
        let nobodys = Session::new(NULL, Box::new(b'a'));
        let order = [&gcm, &gcm, &chacha, &nobodys, &gcm, &chacha, &chacha];
        let mut packets = [[0; 4]; 7];
        let mut jobs: Vec<Job<'_>> = order
            .iter()
            .zip(&mut packets)
            .map(|(session, packet)| Job::esp(session, Op::Seal, packet, None))
            .collect();
        engine.run(&mut jobs);
        let done: Vec<bool> = jobs.iter().map(|job| job.status == JobStatus::Done).collect();
        assert_eq!(done, [true, true, true, false, true, true, true]);
        assert_eq!(packets.map(|packet| packet[3]), *b"aab\0abb");
        engine.run(&mut []);
    }

    #[test]
    fn the_first_engine_runs_all_until_another_has_a_session() {
        let providers = providers();
        let mut engine = providers.engine().unwrap();
        let keys = Keys::default();
        let gcm = providers.session(GCM, &keys).unwrap();
        // Not of this list: the first engine gets it, and knows that it is not its own.
        let foreign = Session::new(CHACHA, Box::new(b'b'));
        let mut run = |session: &Session| {
            let mut packet = [0; 4];
            let mut jobs = [Job::esp(session, Op::Seal, &mut packet, None)];
            engine.run(&mut jobs);
            (jobs[0].status, packet[0])
        };
        assert_eq!(run(&gcm), (JobStatus::Done, b'a'));
        assert_eq!(run(&foreign), (JobStatus::Failed, b'a'));
        let chacha = providers.clone().session(CHACHA, &keys).unwrap();
        assert_eq!(run(&chacha), (JobStatus::Done, b'b'));
        assert_eq!(run(&gcm), (JobStatus::Done, b'a'));
    }

    #[test]
    fn one_that_serves_everything_is_alone() {
        let all: Vec<Suite> = Suite::all().collect();
        let mut providers = Providers::new(provider("a", &all));
        // Its engine would panic: it has no suite that is asked for.
        providers.push(provider("unused", &[]));
        let session = providers.session(NULL, &Keys::default()).unwrap();
        let mut packet = [0; 4];
        let mut jobs = [Job::esp(&session, Op::Open, &mut packet, None)];
        providers.engine().unwrap().run(&mut jobs);
        assert_eq!(jobs[0].status, JobStatus::Done);
    }
}
