//! The thread that looks at copies of packets.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::{Duration, Instant};

use apps::Classifier;
use apps::quic::{InitialKeys, Version, open_initials, seal_initial};
use arc_swap::ArcSwap;
use dataplane::{CopyReader, NoMoreCopies};

use super::second::Second;
use super::shown::Shown;

/// How long a look at the workers lasts while nothing comes.
const PATIENCE: Duration = Duration::from_millis(100);

/// How often what is shown is renewed at most.
const INTERVAL: Duration = Duration::from_millis(200);

/// The thread's own.
pub(super) struct Looking {
    classifier: Classifier,
    readers: Receiver<CopyReader>,
    shown: Arc<ArcSwap<Shown>>,
    next: Shown,
    told: Instant,
    has_news: bool,
    second: Option<Second>,
}

impl Looking {
    pub(super) fn new(
        classifier: Classifier,
        readers: Receiver<CopyReader>,
        shown: Arc<ArcSwap<Shown>>,
        second: Option<Second>,
    ) -> Looking {
        let (next, told) = (Shown::default(), Instant::now());
        Looking { classifier, readers, shown, next, told, has_news: false, second }
    }

    /// Looks at copies until nobody sends any more.
    pub(super) fn run(mut self) {
        let mut reader = self.readers.recv().ok();
        while let Some(copies) = reader {
            reader = self.follow(copies);
        }
    }

    /// Looks at the copies of one set of workers. Returns the reader of the next.
    fn follow(&mut self, reader: CopyReader) -> Option<CopyReader> {
        let mut last_ns = 0;
        loop {
            match self.readers.try_recv() {
                Ok(next) => return Some(next),
                Err(TryRecvError::Empty) => {}
                Err(TryRecvError::Disconnected) => return None,
            }
            let patience =
                self.second.as_ref().map_or(PATIENCE, |second| second.patience(PATIENCE));
            match reader.next(patience) {
                Ok(Some(copies)) => {
                    for (now_ns, packet) in copies.iter() {
                        if let Some(verdict) = self.classifier.packet(now_ns, packet) {
                            self.next.add(verdict);
                        }
                        last_ns = now_ns;
                        self.consult(last_ns);
                    }
                    reader.give_back(copies);
                    self.has_news = true;
                }
                Ok(None) => self.consult(last_ns),
                // The set has gone; another one comes, or the daemon ends.
                Err(NoMoreCopies) => return self.readers.recv().ok(),
            }
            self.tell();
        }
    }

    /// Asks the second classifier, and hears it.
    fn consult(&mut self, packets_ns: u64) {
        let Looking { classifier, second, next, has_news, .. } = self;
        if let Some(second) = second {
            second.consult(classifier, packets_ns, |verdict| {
                next.add(verdict);
                *has_news = true;
            });
        }
    }

    /// Shows what is new, from time to time.
    fn tell(&mut self) {
        if self.has_news && self.told.elapsed() >= INTERVAL {
            self.next.tally.clone_from(self.classifier.tally());
            self.shown.store(Arc::new(self.next.clone()));
            (self.told, self.has_news) = (Instant::now(), false);
        }
    }
}

/// Has the cipher's library do what it does when it is used first: it reads files, which the thread may not later.
pub(super) fn warm_up() {
    let id = [0; 8];
    let keys = InitialKeys::of(Version::V1, &id);
    let packet = keys.and_then(|keys| seal_initial(&keys, &id, 0, &[0; 32]));
    if let Some(packet) = packet {
        // It opens, or QUIC is not recognised: the next packet tells.
        let _ = open_initials(&packet);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use apps::{Catalogue, Hints};

    use super::*;

    #[test]
    fn the_thread_ends_with_the_workers_and_with_its_owner() {
        let looking = || {
            let catalogue = Arc::new(Catalogue::new(Vec::new()).expect("a catalogue"));
            let classifier = Classifier::new(catalogue, Arc::new(Hints::new(64)), Vec::new());
            let (readers, readers_out) = channel();
            let shown = Arc::new(ArcSwap::from_pointee(Shown::default()));
            let looking = Looking::new(classifier, readers_out, shown, None);
            (readers, std::thread::spawn(move || looking.run()))
        };
        let (readers, thread) = looking();
        let (copiers, reader) = dataplane::copies(2);
        readers.send(reader).expect("it listens");
        drop(copiers);
        let (copiers, reader) = dataplane::copies(1);
        readers.send(reader).expect("it goes on with the next set");
        drop(readers);
        thread.join().expect("no panic");
        drop(copiers);
    }

    #[test]
    fn the_cipher_is_ready() {
        warm_up();
    }
}
