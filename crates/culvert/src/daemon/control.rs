//! The control socket: commands ask, the control thread answers.
//!
//! A thread of its own talks to the clients, so that one that is slow or silent holds up nobody
//! but the next client; the answers are made on the control thread, where the state is.

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::Builder;
use std::time::Duration;

use dataplane::Waker;
use rustix::fd::{AsFd, BorrowedFd};
use tracing::{debug, warn};

use super::confinement::Confinement;
use crate::report::Request;

/// How long a client may take to ask, and to take the answer.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(2);

/// How long no connection is accepted after `accept` failed.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The longest question.
const REQUEST_MAX_LEN: u64 = 4096;

/// A question, and where its answer goes.
pub struct Question {
    /// What is asked.
    pub request: Request,
    /// Takes the answer.
    pub answer: Sender<Reply>,
}

/// An answer.
pub enum Reply {
    /// JSON text.
    Text(String),
    /// Told by a thread of its own until the client has enough.
    Stream(Box<dyn FnOnce(UnixStream) + Send>),
}

/// The control thread's end: questions to answer, and a descriptor to wait on.
pub struct Control {
    questions: Receiver<Question>,
    waker: Waker,
    path: PathBuf,
}

impl Control {
    /// Listens at a path; only root can connect.
    ///
    /// # Errors
    /// When the socket cannot be made.
    pub fn listen(path: &Path, confinement: Confinement) -> io::Result<Control> {
        // A dead daemon's: a living one would hold the vault's lock.
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = UnixListener::bind(path)?;
        fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
        let (sender, questions) = channel();
        let waker = Waker::new()?;
        let thread_waker = waker.clone();
        Builder::new().name("culvert-ctl".into()).spawn(move || {
            confinement.for_clients();
            for stream in listener.incoming() {
                match stream {
                    Ok(stream) => serve(stream, &sender, &thread_waker),
                    Err(error) => {
                        warn!(%error, "control socket");
                        // Most likely out of descriptors: without a pause the loop would spin.
                        std::thread::sleep(ACCEPT_PAUSE);
                    }
                }
            }
        })?;
        Ok(Control { questions, waker, path: path.into() })
    }

    /// The questions that wait.
    pub fn questions(&self) -> impl Iterator<Item = Question> + '_ {
        self.waker.clear();
        self.questions.try_iter()
    }
}

impl AsFd for Control {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.waker.as_fd()
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        // An error means that it is gone already.
        let _ = fs::remove_file(&self.path);
    }
}

fn serve(stream: UnixStream, questions: &Sender<Question>, waker: &Waker) {
    if let Err(error) = converse(stream, questions, waker) {
        debug!(%error, "a control client went away");
    }
}

fn converse(mut stream: UnixStream, questions: &Sender<Question>, waker: &Waker) -> io::Result<()> {
    if !is_root(&stream) {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    stream.set_read_timeout(Some(CLIENT_TIMEOUT))?;
    stream.set_write_timeout(Some(CLIENT_TIMEOUT))?;
    let mut line = String::new();
    BufReader::new((&stream).take(REQUEST_MAX_LEN)).read_line(&mut line)?;
    let reply = match serde_json::from_str(&line) {
        Ok(request) => {
            let (answer, answered) = channel();
            let gone = |_| io::Error::from(io::ErrorKind::BrokenPipe);
            questions.send(Question { request, answer }).map_err(gone)?;
            waker.wake();
            answered.recv_timeout(CLIENT_TIMEOUT).map_err(|_| io::ErrorKind::TimedOut)?
        }
        Err(error) => Reply::Text(serde_json::json!({ "error": error.to_string() }).to_string()),
    };
    match reply {
        Reply::Text(text) => stream.write_all(text.as_bytes()),
        Reply::Stream(tell) => {
            let thread = Builder::new().name("culvert-capture".into());
            thread.spawn(move || tell(stream)).map(drop)
        }
    }
}

/// The socket's mode keeps others out already; this also holds where a directory is shared.
fn is_root(stream: &UnixStream) -> bool {
    rustix::net::sockopt::socket_peercred(stream).is_ok_and(|peer| peer.uid.is_root())
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
}
