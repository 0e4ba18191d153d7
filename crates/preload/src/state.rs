//! The one lock, all sockets behind it, and what becomes of it in a fork.

use std::cell::RefCell;
use std::process;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use crate::config::Config;
use crate::given::Given;
use crate::shim_protocol::MAX_DATAGRAM_LEN;
use crate::socket::Socket;
use crate::sys;
use crate::table::{self, Owner};

/// The sockets and what goes with them.
pub(crate) struct State {
    /// By the number that the table of descriptors holds.
    pub(crate) sockets: Vec<Option<Socket>>,
    /// UDP sockets of the program whose ESP is culvert's.
    pub(crate) given: Vec<Given>,
    /// True if the thread that reconnects runs in this process.
    pub(crate) rescuer_runs: bool,
    /// Datagrams are received here before the program gets them; empty until first used.
    pub(crate) buffer: Vec<u8>,
    next_sync: u32,
}

static STATE: Mutex<State> = Mutex::new(State {
    sockets: Vec::new(),
    given: Vec::new(),
    rescuer_runs: false,
    buffer: Vec::new(),
    next_sync: 0,
});

/// The process that the state belongs to. A child of `vfork` runs in its parent's memory without
/// being that process, and must leave the state alone.
static PROCESS: AtomicU32 = AtomicU32::new(0);

thread_local! {
    /// The lock, from before a fork until after it.
    static HELD: RefCell<Option<MutexGuard<'static, State>>> = const { RefCell::new(None) };
}

/// The configuration; `None` if the program is not to be served. The first call reads the
/// environment and sets up the fork handlers.
pub(crate) fn config() -> Option<&'static Config> {
    static CONFIG: OnceLock<Option<Config>> = OnceLock::new();
    let config = CONFIG.get_or_init(|| {
        let path = sys::environment(c"CULVERT_XFRM_SOCKET").filter(|p| !p.is_empty())?;
        let seconds = sys::environment(c"CULVERT_XFRM_WAIT");
        let seconds = seconds.and_then(|s| String::from_utf8(s).ok()?.trim().parse().ok());
        PROCESS.store(process::id(), Relaxed);
        sys::at_fork(before_fork, after_fork_in_parent, after_fork_in_child);
        Some(Config { path, wait: Duration::from_secs(seconds.unwrap_or(DEFAULT_WAIT_S)) })
    });
    config.as_ref()
}

const DEFAULT_WAIT_S: u64 = 30;

/// Takes the lock.
pub(crate) fn lock() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// True if this process is the one that the state is about.
pub(crate) fn is_own_process() -> bool {
    PROCESS.load(Relaxed) == process::id()
}

unsafe extern "C" fn before_fork() {
    let guard = lock();
    // In a thread that is ending there is no place to keep it; then the child may find it taken.
    let _ = HELD.try_with(|held| *held.borrow_mut() = Some(guard));
}

unsafe extern "C" fn after_fork_in_parent() {
    let _ = HELD.try_with(|held| held.borrow_mut().take());
}

unsafe extern "C" fn after_fork_in_child() {
    PROCESS.store(process::id(), Relaxed);
    let _ = HELD.try_with(|held| {
        if let Some(mut state) = held.borrow_mut().take() {
            state.rescuer_runs = false;
            state.sockets.iter_mut().flatten().for_each(crate::link::drop_fresh);
        }
    });
}

impl State {
    /// The socket behind `fd`, if that still is what it was: a descriptor that was closed without
    /// this library seeing it, and given out anew, is foreign.
    pub(crate) fn socket(&mut self, fd: i32) -> Option<(u32, &mut Socket)> {
        let Owner::Socket(number) = table::owner(fd) else { return None };
        let known = self.sockets.get(number as usize).and_then(Option::as_ref);
        if known.is_none_or(|s| sys::inode(fd) != Some(s.inode)) {
            self.forget(fd);
            return None;
        }
        let socket = self.sockets.get_mut(number as usize)?.as_mut()?;
        Some((number, socket))
    }

    /// Takes a socket in, under the descriptor `fd`; `None` if the number is too high.
    pub(crate) fn insert(&mut self, fd: i32, socket: Socket) -> Option<()> {
        let free = self.sockets.iter().position(Option::is_none);
        let number = free.unwrap_or(self.sockets.len());
        if !table::set(fd, Owner::Socket(number as u32)) {
            return None;
        }
        match free {
            Some(free) => self.sockets[free] = Some(socket),
            None => self.sockets.push(Some(socket)),
        }
        Some(())
    }

    /// `fd` is no longer ours, or about to be closed; a socket without descriptors ends.
    pub(crate) fn forget(&mut self, fd: i32) {
        let owner = table::owner(fd);
        table::set(fd, Owner::Foreign);
        match owner {
            Owner::Socket(number) => {
                let Some(entry) = self.sockets.get_mut(number as usize) else { return };
                if let Some(socket) = entry {
                    socket.registrations.retain(|r| r.fd != fd);
                }
                if table::descriptors(number).next().is_none()
                    && let Some(socket) = entry.take()
                {
                    crate::link::discard(&socket);
                }
            }
            Owner::Epoll => {
                for socket in self.sockets.iter_mut().flatten() {
                    socket.registrations.retain(|r| r.epoll != fd);
                }
            }
            Owner::Given => {
                let ends = |given: &Given| given.fd == fd;
                self.given
                    .iter()
                    .filter(|g| ends(g))
                    .for_each(|g| crate::link::close_internal(g.link));
                self.given.retain(|given| !ends(given));
            }
            Owner::Internal | Owner::Foreign => {}
        }
    }

    /// True if a socket has this port id.
    pub(crate) fn has_port_id(&self, port_id: u32) -> bool {
        self.sockets.iter().flatten().any(|s| s.port_id == Some(port_id))
    }

    /// A number for a request for synchronisation.
    pub(crate) fn sync_number(&mut self) -> u32 {
        self.next_sync = self.next_sync.wrapping_add(1);
        self.next_sync
    }

    /// Takes the buffer for datagrams out; to be put back.
    pub(crate) fn take_buffer(&mut self) -> Vec<u8> {
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.resize(MAX_DATAGRAM_LEN, 0);
        buffer
    }
}
