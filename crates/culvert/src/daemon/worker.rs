//! The worker's thread, from the outside.

use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use dataplane::{Command, Counters, CryptoParts, Polling, Waker, Worker, WorkerParts};
use rustix::thread::{CpuSet, sched_setaffinity};
use tracing::warn;

/// How long the worker may take to answer; it does so every round, and sleeps 50 ms at most.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(500);

/// A running worker, and the crypto threads that serve it.
pub struct WorkerHandle {
    commands: Sender<Command>,
    waker: Waker,
    counters: Arc<Counters>,
    thread: Option<JoinHandle<()>>,
    crypto: Vec<JoinHandle<()>>,
}

/// One crypto thread to be.
pub struct CryptoThread {
    /// The core that it is pinned to.
    pub cpu: usize,
    /// What it has of its own.
    pub parts: CryptoParts,
}

impl WorkerHandle {
    /// Starts the thread, pinned to a core if one is given, and a thread for each of `crypto`.
    ///
    /// # Errors
    /// When no thread can be made, or the process has no free descriptor.
    pub fn start(
        parts: WorkerParts,
        commands: Sender<Command>,
        cpu: Option<usize>,
        polling: Polling,
        crypto: Vec<CryptoThread>,
    ) -> std::io::Result<WorkerHandle> {
        let waker = parts.waker.clone();
        let counters = Arc::clone(&parts.counters);
        let mut worker = Worker::new(parts);
        worker.set_polling(polling);
        let cpus: Vec<usize> = crypto.iter().map(|thread| thread.cpu).collect();
        let own: Vec<_> = crypto.into_iter().map(|thread| thread.parts).collect();
        let mut threads = Vec::with_capacity(cpus.len());
        if !own.is_empty() {
            for (cpu, crypto) in cpus.into_iter().zip(worker.add_crypto_pool(own)?) {
                let thread = Builder::new().name(format!("culvert-crypto{}", threads.len()));
                threads.push(thread.spawn(move || {
                    pin("worker.crypto_cpus", cpu);
                    crypto.run(polling);
                })?);
            }
        }
        let thread = Builder::new().name("culvert-worker".into()).spawn(move || {
            if let Some(cpu) = cpu {
                pin("worker.cpu", cpu);
            }
            worker.run();
        })?;
        Ok(WorkerHandle { commands, waker, counters, thread: Some(thread), crypto: threads })
    }

    /// Sends a command. A worker that has ended takes none: it only ends with us.
    pub fn send(&self, command: Command) {
        if self.commands.send(command).is_err() {
            warn!("the worker has ended");
        }
        self.waker.wake();
    }

    /// Sends a command and waits until it has been carried out, but not for ever.
    pub fn send_and_wait(&self, command: impl FnOnce(Sender<()>) -> Command) {
        let (done, is_done) = channel();
        self.send(command(done));
        if is_done.recv_timeout(ANSWER_TIMEOUT).is_err() {
            warn!("the worker is slow to answer");
        }
    }

    /// Wakes it, because something that it reads has changed.
    pub fn wake(&self) {
        self.waker.wake();
    }

    /// Its counters.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Waits until the commands sent so far have been carried out, but not for ever.
    pub fn wait_for_commands(&self) {
        let (answer, answered) = channel();
        self.send(Command::PortStats(answer));
        let _late = answered.recv_timeout(ANSWER_TIMEOUT);
    }

    /// Whether the thread has ended: it panicked, for it is not told to end before us.
    pub fn is_dead(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Ends it: everything that it holds is dropped and counted.
    pub fn stop(&mut self) {
        self.send(Command::Stop);
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            warn!("the worker had panicked");
        }
        // They end when their worker is gone.
        for thread in self.crypto.drain(..) {
            if thread.join().is_err() {
                warn!("a crypto thread had panicked");
            }
        }
    }
}

fn pin(key: &str, cpu: usize) {
    let mut set = CpuSet::new();
    if cpu < CpuSet::MAX_CPU {
        set.set(cpu);
    }
    if let Err(error) = sched_setaffinity(None, &set) {
        warn!(cpu, %error, "{key}: the thread is not pinned");
    }
}
