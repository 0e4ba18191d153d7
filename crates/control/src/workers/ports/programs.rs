//! The steering programs of ports, loaded while the daemon starts.

use std::thread;

use steer::{Hook, Loader, Sizes, Steer, SteerConfig, SteerError};

use config::{PortConfig, Sockets, SourceChoice};

/// A loaded program that is not attached, or why there is none.
pub(super) type Program = Result<Steer, SteerError>;

/// Programs that are being loaded: half of a start's time, spent in parallel.
pub struct Programs(pub(super) thread::JoinHandle<(Loader, Vec<Program>)>);

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
                let join = |(i, t): (_, Option<thread::ScopedJoinHandle<'_, Program>>)| {
                    t.and_then(|t| t.join().ok()).unwrap_or_else(|| load(i))
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
pub(super) fn load(loader: &Loader, interface: &str, hook: Hook, flows: u32) -> Program {
    let sizes = Sizes { flows, ..Sizes::default() };
    let config = SteerConfig { hook, sizes, ..SteerConfig::default() };
    let mut steer = Steer::load(loader, interface, &config)?;
    // A kernel without ESP answers unknown SPIs with an ICMP error.
    steer.set_take_unknown_esp(true)?;
    Ok(steer)
}
