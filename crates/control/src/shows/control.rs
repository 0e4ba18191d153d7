//! The control socket: commands ask, the control thread answers.
//!
//! A thread of its own talks to the clients of a socket, so that one that is slow or silent holds up nobody
//! but the next client there; the answers are made on the control thread, where the state is.

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::Builder;
use std::time::Duration;

use dataplane::Waker;
use report::{NotAllowed, Request};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::net::{RecvFlags, Shutdown, recv, shutdown};
use rustix::process::Uid;
use tracing::{debug, warn};
use xfrm::peer_uid;

use crate::confinement::Confinement;

/// How long a client may take to ask, and to take the answer.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(2);

/// How long no connection is accepted after `accept` failed.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The longest question.
const REQUEST_MAX_LEN: u64 = 4096;

/// A question, and where its answer goes.
pub struct Question {
    /// Request of the client.
    pub request: Request,
    /// Takes the answer.
    pub answer: Sender<Reply>,
}

impl Question {
    /// True for a command, which changes something: it is answered once that has been carried out.
    pub fn is_command(&self) -> bool {
        matches!(
            self.request,
            Request::Reload
                | Request::LimitSet(_)
                | Request::DeviceReset { .. }
                | Request::DeviceFault { .. }
        )
    }
}

/// Answer to a request.
pub enum Reply {
    /// A text in JSON.
    Text(String),
    /// Told by a thread of its own until the client has enough.
    Stream(Box<dyn FnOnce(UnixStream) + Send>),
}

/// Rules of a socket: its users, and their requests.
pub trait Door: Send + 'static {
    /// True if a client of this user may ask.
    fn admits(&self, uid: Uid) -> bool;

    /// Checks that a request is answered here.
    ///
    /// # Errors
    /// Why not, and what would be right.
    fn answers(&self, request: &Request) -> Result<(), &'static str>;

    /// Text for users who may not ask.
    fn refusal(&self) -> String;
}

/// Root may ask anything. The socket's mode keeps others out already; this also holds where a directory is shared.
struct Root;

impl Door for Root {
    fn admits(&self, uid: Uid) -> bool {
        uid.is_root()
    }

    fn answers(&self, _: &Request) -> Result<(), &'static str> {
        Ok(())
    }

    fn refusal(&self) -> String {
        "only root may ask".into()
    }
}

/// The control thread's end: questions to answer, and a descriptor to wait on.
pub struct Control {
    questions: Receiver<Question>,
    asker: Asker,
    _socket: Listening,
}

/// Passes questions on to the control thread.
#[derive(Clone)]
struct Asker {
    questions: Sender<Question>,
    waker: Waker,
}

/// A socket and its thread, until this is dropped.
pub struct Listening {
    path: PathBuf,
    socket: UnixListener,
    /// Set once no more clients are served.
    is_over: Arc<AtomicBool>,
}

impl Control {
    /// Listens at a path; only root can connect.
    ///
    /// # Errors
    /// When the socket cannot be made.
    pub fn listen(path: &Path, confinement: Confinement) -> io::Result<Control> {
        let (sender, questions) = channel();
        let asker = Asker { questions: sender, waker: Waker::new()? };
        let socket =
            asker.clone().listen("culvert-ctl", path, 0o600, Box::new(Root), confinement)?;
        Ok(Control { questions, asker, _socket: socket })
    }

    /// Listens at another path, of this mode, where others may ask: by a thread of this name.
    ///
    /// # Errors
    /// When the socket cannot be made.
    pub fn listen_too(
        &self,
        thread: &str,
        path: &Path,
        mode: u32,
        door: Box<dyn Door>,
        confinement: Confinement,
    ) -> io::Result<Listening> {
        self.asker.clone().listen(thread, path, mode, door, confinement)
    }

    /// The questions that wait.
    pub fn questions(&self) -> impl Iterator<Item = Question> + '_ {
        self.asker.waker.clear();
        self.questions.try_iter()
    }
}

impl AsFd for Control {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.asker.waker.as_fd()
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.is_over.store(true, Relaxed);
        // The thread waits for the next client no longer than this. An error means that it is gone already.
        let _ = shutdown(&self.socket, Shutdown::Both);
        let _ = fs::remove_file(&self.path);
    }
}

impl Asker {
    /// Serves a socket from a thread of its own.
    fn listen(
        self,
        thread: &str,
        path: &Path,
        mode: u32,
        door: Box<dyn Door>,
        confinement: Confinement,
    ) -> io::Result<Listening> {
        // A dead daemon's: a living one would hold the vault's lock.
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = UnixListener::bind(path)?;
        fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
        let is_over = Arc::<AtomicBool>::default();
        let socket = listener.try_clone()?;
        let listening = Listening { path: path.into(), socket, is_over: Arc::clone(&is_over) };
        Builder::new().name(thread.into()).spawn(move || {
            confinement.for_clients();
            for stream in listener.incoming() {
                match stream {
                    Ok(stream) => self.serve(stream, &*door),
                    Err(_) if is_over.load(Relaxed) => break,
                    Err(error) => {
                        warn!(%error, "control socket");
                        // Most likely out of descriptors: without a pause the loop would spin.
                        std::thread::sleep(ACCEPT_PAUSE);
                    }
                }
            }
        })?;
        Ok(listening)
    }

    fn serve(&self, stream: UnixStream, door: &dyn Door) {
        if let Err(error) = self.converse(stream, door) {
            debug!(%error, "a control client went away");
        }
    }

    fn converse(&self, mut stream: UnixStream, door: &dyn Door) -> io::Result<()> {
        stream.set_read_timeout(Some(CLIENT_TIMEOUT))?;
        stream.set_write_timeout(Some(CLIENT_TIMEOUT))?;
        if !door.admits(Uid::from_raw(peer_uid(stream.as_fd())?)) {
            // Nobody is waited for; but with something unread the refusal would be lost.
            let _ = recv(&stream, &mut [0; REQUEST_MAX_LEN as usize], RecvFlags::DONTWAIT);
            return stream.write_all(not_allowed(door.refusal()).as_bytes());
        }
        let mut line = String::new();
        BufReader::new((&stream).take(REQUEST_MAX_LEN)).read_line(&mut line)?;
        let reply =
            match serde_json::from_str(&line).map(|request| (door.answers(&request), request)) {
                Ok((Ok(()), request)) => {
                    let (answer, answered) = channel();
                    let patience = request.patience();
                    let gone = |_| io::Error::from(io::ErrorKind::BrokenPipe);
                    self.questions.send(Question { request, answer }).map_err(gone)?;
                    self.waker.wake();
                    answered.recv_timeout(patience).map_err(|_| io::ErrorKind::TimedOut)?
                }
                Ok((Err(why), _)) => Reply::Text(not_allowed(why.into())),
                Err(error) => {
                    Reply::Text(serde_json::json!({ "error": error.to_string() }).to_string())
                }
            };
        match reply {
            Reply::Text(text) => stream.write_all(text.as_bytes()),
            Reply::Stream(tell) => {
                let thread = Builder::new().name("culvert-capture".into());
                thread.spawn(move || tell(stream)).map(drop)
            }
        }
    }
}

fn not_allowed(why: String) -> String {
    serde_json::json!(NotAllowed { not_allowed: why }).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_are_answered_and_nonsense_is_named() {
        if !rustix::process::getuid().is_root() {
            println!("skipped: needs root");
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("control.sock");
        let control = Control::listen(&path, Confinement::Off).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let ask = |text: &'static str| {
            let path = path.clone();
            std::thread::spawn(move || {
                let mut stream = UnixStream::connect(path).unwrap();
                stream.write_all(text.as_bytes()).unwrap();
                let mut answer = String::new();
                stream.read_to_string(&mut answer).unwrap();
                answer
            })
        };
        let nonsense = ask("{\"request\":\"nonsense\"}\n");
        assert!(nonsense.join().unwrap().contains("unknown variant"));
        let good = ask("{\"request\":\"status\"}\n");
        let question = loop {
            if let Some(question) = control.questions().next() {
                break question;
            }
            std::thread::sleep(Duration::from_millis(1));
        };
        assert_eq!(question.request, Request::Status);
        question.answer.send(Reply::Text("{}".into())).unwrap();
        assert_eq!(good.join().unwrap(), "{}");
    }

    /// Everybody may ask for one thing.
    struct Narrow(bool);

    impl Door for Narrow {
        fn admits(&self, _: Uid) -> bool {
            self.0
        }

        fn answers(&self, request: &Request) -> Result<(), &'static str> {
            if *request == Request::Drops { Ok(()) } else { Err("drops alone") }
        }

        fn refusal(&self) -> String {
            "nobody may ask".into()
        }
    }

    #[test]
    fn what_a_door_does_not_answer_does_not_reach_the_control_thread() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let control = Control::listen(&path("control"), Confinement::Off).unwrap();
        let open = |name, admits| {
            let door = Box::new(Narrow(admits));
            control.listen_too(name, &path(name), 0o666, door, Confinement::Off)
        };
        let (narrow, shut) = (open("narrow", true).unwrap(), open("shut", false).unwrap());
        let ask = |name: &str, text: &str| {
            let mut stream = UnixStream::connect(path(name)).unwrap();
            // The door may be shut before anything is said.
            let _ = stream.write_all(text.as_bytes());
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            answer
        };
        let keys = "{\"request\":\"sa\",\"show_keys\":true,\"spi\":null}\n";
        assert_eq!(ask("narrow", keys), "{\"not_allowed\":\"drops alone\"}");
        assert_eq!(ask("shut", ""), "{\"not_allowed\":\"nobody may ask\"}");
        assert!(control.questions().next().is_none());
        drop((narrow, shut));
        assert!(!path("narrow").exists() && path("control").exists());
    }

    /// Tells when its thread lets go of it.
    struct Leaving(Sender<()>);

    impl Door for Leaving {
        fn admits(&self, _: Uid) -> bool {
            false
        }

        fn answers(&self, _: &Request) -> Result<(), &'static str> {
            Err("nothing")
        }

        fn refusal(&self) -> String {
            String::new()
        }
    }

    impl Drop for Leaving {
        fn drop(&mut self) {
            let _ = self.0.send(());
        }
    }

    #[test]
    fn a_thread_ends_with_its_socket() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("control.sock");
        let control = Control::listen(&path, Confinement::Off).unwrap();
        let other = directory.path().join("other.sock");
        let (left, has_left) = channel();
        let door = Box::new(Leaving(left));
        let listening = control.listen_too("other", &other, 0o600, door, Confinement::Off).unwrap();
        drop(control);
        assert!(has_left.recv_timeout(Duration::from_millis(10)).is_err(), "it waits for clients");
        drop(listening);
        has_left.recv_timeout(Duration::from_secs(60)).unwrap();
    }
}
