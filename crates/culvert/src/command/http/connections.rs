//! The connections that are served, bounded in number.
//!
//! When there are as many as can be, a new one takes the place of one that does nothing: the oldest that has not asked
//! yet, else the one that has been taking its answer for longest. So clients that connect and stay silent keep nobody
//! out, however many they are.

use std::net::Shutdown;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use socket2::Socket;

/// How long an answer may take to be taken before its place can be given away.
const TAKE: Duration = Duration::from_secs(1);

/// How far a connection has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Nothing has been asked yet.
    Asking,
    /// The answer is being made, or comes by and by.
    Answering,
    /// The answer is there, and the client takes it.
    Taking,
}

struct Connection {
    number: u64,
    phase: Phase,
    since: Instant,
    socket: Arc<Socket>,
}

/// Connections that are served now, in the order in which they came.
pub struct Connections {
    most: usize,
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    /// The number of the next one.
    next: u64,
    connections: Vec<Connection>,
}

impl Connections {
    /// None yet, and so many at a time.
    pub fn new(most: usize) -> Arc<Connections> {
        Arc::new(Connections { most, table: Mutex::default() })
    }

    /// A place for a connection; `None` where all others are being answered.
    pub fn admit(self: &Arc<Connections>, socket: &Arc<Socket>, now: Instant) -> Option<Place> {
        let mut table = self.table();
        if table.connections.len() >= self.most {
            let idle = table.idle(now)?;
            let given_up = table.connections.remove(idle);
            // Its thread sees the end at once. An error means that the client has gone already.
            let _ = given_up.socket.shutdown(Shutdown::Both);
        }
        let number = table.next;
        table.next += 1;
        let socket = Arc::clone(socket);
        table.connections.push(Connection { number, phase: Phase::Asking, since: now, socket });
        Some(Place { connections: Arc::clone(self), number })
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        // A thread that panics has left nothing half done.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    /// A connection that can be given up.
    fn idle(&self, now: Instant) -> Option<usize> {
        let asks = |connection: &Connection| connection.phase == Phase::Asking;
        self.connections.iter().position(asks).or_else(|| {
            let taking = self.connections.iter().enumerate().filter(|(_, connection)| {
                connection.phase == Phase::Taking
                    && now.saturating_duration_since(connection.since) >= TAKE
            });
            taking.min_by_key(|(_, connection)| connection.since).map(|(at, _)| at)
        })
    }
}

/// A place among the connections, until it is dropped or given away.
pub struct Place {
    connections: Arc<Connections>,
    number: u64,
}

impl Place {
    /// The client has asked.
    pub fn has_asked(&self) {
        self.is_now(Phase::Answering);
    }

    /// The client has all of its answer to take.
    pub fn has_answer(&self) {
        self.is_now(Phase::Taking);
    }

    fn is_now(&self, phase: Phase) {
        let mut table = self.connections.table();
        if let Some(found) = table.connections.iter_mut().find(|c| c.number == self.number) {
            (found.phase, found.since) = (phase, Instant::now());
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.connections.table().connections.retain(|c| c.number != self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use socket2::{Domain, Type};
    use std::io::Read;

    fn socket() -> (Arc<Socket>, Socket) {
        let (one, other) = Socket::pair(Domain::UNIX, Type::STREAM, None).expect("a pair");
        (Arc::new(one), other)
    }

    /// True if the server has ended it.
    fn is_over(client: &Socket) -> bool {
        client.set_nonblocking(true).expect("set");
        matches!((&*client).read(&mut [0]), Ok(0))
    }

    #[test]
    fn the_oldest_that_has_not_asked_makes_room() {
        let connections = Connections::new(3);
        let now = Instant::now();
        let (sockets, clients): (Vec<_>, Vec<_>) = (0..5).map(|_| socket()).unzip();
        let mut places: Vec<_> =
            sockets[..3].iter().map(|socket| connections.admit(socket, now).unwrap()).collect();
        places[0].has_asked();
        places.push(connections.admit(&sockets[3], now).unwrap());
        assert_eq!([0, 1, 2, 3].map(|n| is_over(&clients[n])), [false, true, false, false]);
        // One that is given up keeps nothing, and takes nothing along when it ends.
        places[1].has_asked();
        drop(places.remove(1));
        places[1].has_asked();
        places[2].has_asked();
        assert!(connections.admit(&sockets[4], now).is_none(), "all are being answered");
        places.pop();
        assert!(connections.admit(&sockets[4], now).is_some());
    }

    #[test]
    fn an_answer_that_is_not_taken_makes_room_too() {
        let connections = Connections::new(1);
        let (one, client) = socket();
        let place = connections.admit(&one, Instant::now()).unwrap();
        place.has_answer();
        let (other, _client) = socket();
        assert!(connections.admit(&other, Instant::now()).is_none(), "it has had no time");
        assert!(connections.admit(&other, Instant::now() + TAKE).is_some() && is_over(&client));
    }
}
