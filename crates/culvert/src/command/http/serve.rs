//! A thread for each connection, with one request each; nobody is waited for long.

use std::borrow::Cow;
use std::error::Error;
use std::io;
use std::sync::Arc;
use std::thread::{self, Builder};
use std::time::{Duration, Instant};

use socket2::Socket;

use super::connection::Client;
use super::connections::{Connections, Place};
use super::head::Head;
use super::response::{Fault, Status};

/// Connections at a time. One more takes the place of one that does nothing; where there is none it is told to come again.
const MAX_CONNECTIONS: usize = 64;

/// How long a client may take to ask.
const ASK: Duration = Duration::from_secs(5);

/// How long it may take to take the answer.
const TAKE: Duration = Duration::from_secs(20);

/// How long is waited for what a client still says after it was told that it is wrong.
const LINGER: Duration = Duration::from_millis(500);

/// How long no connection is accepted after that failed, as for want of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A site to be served. Threads call it at the same time.
pub trait Site: Send + Sync + 'static {
    /// Answer to a request.
    ///
    /// # Errors
    /// The fault, which is answered instead.
    fn answer(&self, head: &Head) -> Result<Answer, Fault>;
}

/// Answer to a request.
pub enum Answer {
    /// All of it.
    Text { content_type: &'static str, text: Cow<'static, str> },
    /// A body that comes piece by piece.
    Stream(Box<dyn Stream>),
}

/// An answer that is not there yet.
pub trait Stream {
    /// How long it may go on. Its client has the time to take it on top of that.
    fn longest(&self) -> Duration;

    /// Sends it, its head included.
    fn send(self: Box<Self>, client: &mut Client, is_head: bool) -> io::Result<()>;
}

/// Serves until the process is ended. The command names threads, and what is written to the log.
pub fn serve(
    command: &'static str,
    socket: &Socket,
    site: &Arc<impl Site>,
) -> Result<String, Box<dyn Error>> {
    let connections = Connections::new(MAX_CONNECTIONS);
    loop {
        let client = match socket.accept() {
            Ok((client, _)) => Arc::new(client),
            Err(error) => {
                eprintln!("culvert {command}: {error}");
                thread::sleep(ACCEPT_PAUSE);
                continue;
            }
        };
        let place = connections.admit(&client, Instant::now());
        let mut client = Client::new(client, ASK);
        let Some(place) = place else {
            // It fits into the socket's buffer.
            let fault = Fault::new(Status::NO_DAEMON, "too many connections at a time");
            let _ = client.refuse(&fault, false);
            continue;
        };
        let site = Arc::clone(site);
        let spawned = Builder::new().name(format!("culvert-{command}")).spawn(move || {
            // An error means that the client has gone, takes too long, or has had to make room.
            let _ = serve_one(&*site, client, &place);
        });
        if let Err(error) = spawned {
            eprintln!("culvert {command}: {error}");
            thread::sleep(ACCEPT_PAUSE);
        }
    }
}

fn serve_one(site: &impl Site, mut client: Client, place: &Place) -> io::Result<()> {
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
    place.has_asked();
    let answer = site.answer(&head);
    if !matches!(answer, Ok(Answer::Stream(_))) {
        place.has_answer();
    }
    client.allow(TAKE);
    match answer {
        Ok(Answer::Text { content_type, text }) => {
            client.send(Status::OK, content_type, &text, head.is_head)
        }
        Ok(Answer::Stream(stream)) => {
            client.allow(stream.longest() + TAKE);
            stream.send(&mut client, head.is_head)
        }
        Err(fault) => client.refuse(&fault, head.is_head),
    }
}
