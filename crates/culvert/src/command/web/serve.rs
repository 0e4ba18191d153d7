//! A thread for each connection, with one request each; nobody is waited for long.

use std::error::Error;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::AcqRel};
use std::thread::{self, Builder};
use std::time::Duration;

use socket2::Socket;

use super::answers::{Answer, Answers};
use super::capture;
use super::connection::Client;
use super::files;
use super::gate::Gate;
use super::head::Head;
use super::response::{Fault, Status};

/// Connections at a time; one more is told to come again.
const MAX_CONNECTIONS: usize = 64;

/// How long a client may take to ask.
const ASK: Duration = Duration::from_secs(5);

/// How long it may take to take the answer.
const TAKE: Duration = Duration::from_secs(20);

/// How long is waited for what a client still says after it was told that it is wrong.
const LINGER: Duration = Duration::from_millis(500);

/// How long no connection is accepted after that failed, as for want of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What is served, and to whom.
pub struct Site {
    pub gate: Gate,
    pub answers: Answers,
}

/// Serves until the process is ended.
pub fn serve(socket: &Socket, site: &Arc<Site>) -> Result<String, Box<dyn Error>> {
    let connections = Arc::new(AtomicUsize::new(0));
    loop {
        let mut client = match socket.accept() {
            Ok((client, _)) => Client::new(client, ASK),
            Err(error) => {
                eprintln!("culvert web: {error}");
                thread::sleep(ACCEPT_PAUSE);
                continue;
            }
        };
        let slot = Slot::of(&connections);
        if slot.number > MAX_CONNECTIONS {
            // It fits into the socket's buffer.
            let fault = Fault::new(Status::NO_DAEMON, "too many connections at a time");
            let _ = client.refuse(&fault, false);
            continue;
        }
        let site = Arc::clone(site);
        let spawned = Builder::new().name("culvert-web".into()).spawn(move || {
            let _slot = slot;
            // An error means that the client has gone, or takes too long.
            let _ = site.serve_one(client);
        });
        if let Err(error) = spawned {
            eprintln!("culvert web: {error}");
            thread::sleep(ACCEPT_PAUSE);
        }
    }
}

impl Site {
    fn serve_one(&self, mut client: Client) -> io::Result<()> {
        let head = match Head::read(&mut client) {
            Ok(head) => head,
            Err(None) => return Ok(()),
            Err(Some(fault)) => {
                client.allow(LINGER);
                client.refuse(&fault, false)?;
                // What was not read would have the client's system throw the answer away.
                return client.drain();
            }
        };
        client.allow(TAKE);
        match self.answer(&head) {
            Ok(Answer::Text { content_type, text }) => {
                client.send(Status::OK, content_type, &text, head.is_head)
            }
            Ok(Answer::Capture(begun)) => {
                client.allow(begun.longest() + TAKE);
                capture::send(begun, &mut client, head.is_head)
            }
            Err(fault) => client.refuse(&fault, head.is_head),
        }
    }

    /// Files are for everybody who comes by the right name; what the daemon says is for those with the token.
    fn answer(&self, head: &Head) -> Result<Answer, Fault> {
        if !self.gate.knows_host(&head.host) {
            return Err(Fault::new(
                Status::MISDIRECTED,
                "this page does not go by that name; --host adds one",
            ));
        }
        if let Some(file) = files::find(&head.path) {
            return Ok(Answer::Text { content_type: file.content_type, text: file.text.into() });
        }
        let Some(what) = head.path.strip_prefix("/api/") else {
            return Err(Fault::new(Status::NOT_FOUND, "there is no such page"));
        };
        if !self.gate.knows_token(&head.authorization) {
            return Err(Fault::new(Status::NO_TOKEN, "the token is missing, or is another one"));
        }
        self.answers.find(what, &head.query)
    }
}

/// A place among the connections, until it is dropped.
struct Slot {
    taken: Arc<AtomicUsize>,
    number: usize,
}

impl Slot {
    fn of(taken: &Arc<AtomicUsize>) -> Slot {
        Slot { taken: Arc::clone(taken), number: taken.fetch_add(1, AcqRel) + 1 }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.taken.fetch_sub(1, AcqRel);
    }
}
