//! The steering programs of ports, loaded while the daemon starts.

use std::collections::HashMap;
use std::thread;

use steer::{Hook, Loader, Sizes, Steer, SteerConfig, SteerError};

use config::{PortConfig, Sockets, SourceChoice};

/// A loaded program that is not attached, or why there is none.
pub(super) type Loaded = Result<Steer, SteerError>;

/// Programs that are being loaded: half of a start's time, spent in parallel.
pub struct Programs(thread::JoinHandle<(Loader, HashMap<String, Loaded>)>);

/// The programs of a start, which are there when the first port is opened.
#[derive(Default)]
pub(super) struct Loading {
    begun: Option<Programs>,
    loader: Option<Loader>,
    loaded: HashMap<String, Loaded>,
}

impl Loading {
    pub(super) fn begun(programs: Programs) -> Loading {
        Loading { begun: Some(programs), ..Loading::default() }
    }

    /// The loader, and what was loaded, by interface.
    pub(super) fn programs(&mut self) -> (&Loader, &mut HashMap<String, Loaded>) {
        // A thread that panicked has loaded nothing: that is done when a port is opened.
        if let Some(Ok((loader, loaded))) = self.begun.take().map(|programs| programs.0.join()) {
            (self.loader, self.loaded) = (Some(loader), loaded);
        }
        (self.loader.get_or_insert_with(Loader::new), &mut self.loaded)
    }
}

impl Programs {
    /// Loads one for each port, on threads of their own; with room for so many directions of known flows.
    ///
    /// # Errors
    /// When no thread can be made.
    pub fn load(
        configs: &[PortConfig],
        flows: u32,
        source: SourceChoice,
    ) -> std::io::Result<Programs> {
        let ports = configs.iter().map(|c| (c.interface.clone(), likely_hook(c.kind, source)));
        let ports: Vec<(String, Hook)> = ports.collect();
        let thread = thread::Builder::new().name("culvert-bpf".into()).spawn(move || {
            let loader = Loader::new();
            let load = |(interface, hook): &(String, Hook)| load(&loader, interface, *hook, flows);
            let load = &load;
            let programs = thread::scope(|scope| {
                let start = |i| thread::Builder::new().spawn_scoped(scope, move || load(i));
                let threads: Vec<_> = ports.iter().map(|i| (i, start(i).ok())).collect();
                // Without a thread of its own, or after a panic of it, a program is loaded here.
                type Thread<'s> = Option<thread::ScopedJoinHandle<'s, Loaded>>;
                let join = |(i, t): (&(String, Hook), Thread<'_>)| {
                    (i.0.clone(), t.and_then(|t| t.join().ok()).unwrap_or_else(|| load(i)))
                };
                threads.into_iter().map(join).collect()
            });
            (loader, programs)
        })?;
        Ok(Programs(thread))
    }
}

/// The hook of the program that a port most likely needs. Another one costs its loading, a tenth of a second.
fn likely_hook(kind: Sockets, source: SourceChoice) -> Hook {
    match (kind, source) {
        (Sockets::Xdp, _) | (Sockets::Auto, SourceChoice::Kernel) => Hook::Xdp,
        (Sockets::Packet | Sockets::Auto, _) => Hook::Packet,
    }
}

/// Loads the program of a port.
pub(super) fn load(loader: &Loader, interface: &str, hook: Hook, flows: u32) -> Loaded {
    let sizes = Sizes { flows, ..Sizes::default() };
    let config = SteerConfig { hook, sizes, ..SteerConfig::default() };
    let mut steer = Steer::load(loader, interface, &config)?;
    // A kernel without ESP answers unknown SPIs with an ICMP error.
    steer.set_take_unknown_esp(true)?;
    Ok(steer)
}
