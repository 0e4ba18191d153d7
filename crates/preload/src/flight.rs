//! Which requests still wait for an answer.
//!
//! A request is remembered only if an answer to it is certain: an acknowledgement was asked for,
//! it is a dump, or it asks for something. The rest is carried out silently, and to send it again
//! much later could do harm.

use std::collections::VecDeque;
use std::hint::black_box;
use std::time::{Duration, Instant};

use crate::netlink::{self, DONE, ERROR, F_ACK, F_DUMP, Header, xfrm};

/// Datagrams remembered for each socket. A program that has more in the air loses the oldest.
const MAX_DATAGRAMS: usize = 64;

/// Message that ends the wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expects {
    /// An NLMSG_ERROR, which may say "no error".
    Acknowledgement,
    /// One message of any kind.
    Reply,
    /// An NLMSG_DONE; `begun` once the first part has come.
    Dump { begun: bool },
}

#[derive(Debug)]
struct Request {
    header: Header,
    expects: Expects,
}

/// One datagram that the program sent, and its requests that are not answered.
struct Datagram {
    bytes: Vec<u8>,
    requests: Vec<Request>,
    sent_at: Instant,
}

impl Drop for Datagram {
    fn drop(&mut self) {
        wipe(&mut self.bytes);
    }
}

/// Overwrites bytes that may hold keys.
pub(crate) fn wipe(bytes: &mut [u8]) {
    bytes.fill(0);
    // Keeps the compiler from seeing that nobody reads the zeros.
    black_box(bytes);
}

/// The requests of one socket that wait for their answers.
#[derive(Default)]
pub(crate) struct Flight {
    datagrams: VecDeque<Datagram>,
}

impl Flight {
    /// Notes a datagram that is being sent.
    pub(crate) fn sent(&mut self, bytes: &[u8], now: Instant) {
        let requests: Vec<Request> = netlink::headers(bytes).filter_map(Request::new).collect();
        if requests.is_empty() {
            return;
        }
        if self.datagrams.len() == MAX_DATAGRAMS {
            self.datagrams.pop_front();
        }
        self.datagrams.push_back(Datagram { bytes: bytes.to_vec(), requests, sent_at: now });
    }

    /// Forgets the datagram noted last: it could not be sent.
    pub(crate) fn take_back(&mut self, bytes: &[u8]) {
        if self.datagrams.back().is_some_and(|d| d.bytes == bytes) {
            self.datagrams.pop_back();
        }
    }

    /// Notes a datagram that the program is given; true if a message in it answers a request.
    pub(crate) fn received(&mut self, bytes: &[u8], port_id: u32) -> bool {
        let mut answers = false;
        for header in netlink::headers(bytes).filter(|h| h.port_id == port_id) {
            for datagram in &mut self.datagrams {
                datagram.requests.retain_mut(|r| {
                    let same = r.header.seq == header.seq;
                    answers |=
                        same && (r.expects != Expects::Acknowledgement || header.kind == ERROR);
                    !(same && r.ends_with(header.kind))
                });
            }
        }
        self.datagrams.retain(|d| !d.requests.is_empty());
        answers
    }

    /// True if a message in the datagram answers a request. Changes nothing.
    pub(crate) fn would_answer(&self, bytes: &[u8], port_id: u32) -> bool {
        let requests = || self.datagrams.iter().flat_map(|d| &d.requests);
        netlink::headers(bytes).filter(|h| h.port_id == port_id).any(|h| {
            requests().any(|r| {
                r.header.seq == h.seq && (r.expects != Expects::Acknowledgement || h.kind == ERROR)
            })
        })
    }

    /// Gives up what was sent longer than `limit` ago, as [`give_up`](Flight::give_up) does:
    /// sent again so late it could do harm.
    pub(crate) fn give_up_older(
        &mut self,
        now: Instant,
        limit: Duration,
        errno: i32,
        port_id: u32,
    ) -> Vec<Vec<u8>> {
        let old = |d: &Datagram| now.saturating_duration_since(d.sent_at) > limit;
        let given_up = self.datagrams.iter().filter(|d| old(d)).flat_map(|d| &d.requests);
        let errors = given_up.map(|r| netlink::error_answer(&r.header, errno, port_id)).collect();
        self.datagrams.retain(|d| !old(d));
        errors
    }

    /// The connection broke: ends the dumps that have begun, whose ends it returns.
    pub(crate) fn interrupt(&mut self, port_id: u32) -> Vec<Vec<u8>> {
        let mut ends = Vec::new();
        for datagram in &mut self.datagrams {
            datagram.requests.retain(|r| {
                let begun = r.expects == Expects::Dump { begun: true };
                if begun {
                    ends.push(netlink::interrupted_dump(&r.header, port_id));
                }
                !begun
            });
        }
        self.datagrams.retain(|d| !d.requests.is_empty());
        ends
    }

    /// Gives up all requests: returns an error as the answer to each.
    pub(crate) fn give_up(&mut self, errno: i32, port_id: u32) -> Vec<Vec<u8>> {
        let datagrams = std::mem::take(&mut self.datagrams);
        let requests = datagrams.iter().flat_map(|d| &d.requests);
        requests.map(|r| netlink::error_answer(&r.header, errno, port_id)).collect()
    }

    /// Requests to be sent again over a new connection, oldest first.
    pub(crate) fn unanswered(&self) -> impl Iterator<Item = &[u8]> {
        self.datagrams.iter().map(|d| d.bytes.as_slice())
    }

    /// True if no request waits for an answer.
    pub(crate) fn is_empty(&self) -> bool {
        self.datagrams.is_empty()
    }
}

impl Request {
    fn new(header: Header) -> Option<Request> {
        let dumps = matches!(header.kind, xfrm::GETSA | xfrm::GETPOLICY);
        let asks = matches!(
            header.kind,
            xfrm::GETSA
                | xfrm::GETPOLICY
                | xfrm::GETAE
                | xfrm::GETSADINFO
                | xfrm::GETSPDINFO
                | xfrm::GETDEFAULT
                | xfrm::ALLOCSPI
        );
        // For additions, the same two bits mean NLM_F_REPLACE and NLM_F_EXCL.
        let expects = if dumps && header.flags & F_DUMP == F_DUMP {
            Expects::Dump { begun: false }
        } else if header.flags & F_ACK != 0 {
            Expects::Acknowledgement
        } else if asks {
            Expects::Reply
        } else {
            return None;
        };
        Some(Request { header, expects })
    }

    /// Notes a message with this request's number; true if it was the last one.
    fn ends_with(&mut self, kind: u16) -> bool {
        match &mut self.expects {
            _ if kind == ERROR => true,
            Expects::Acknowledgement => false,
            Expects::Reply => true,
            Expects::Dump { begun } => {
                *begun = true;
                kind == DONE
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::{F_MULTI, message};

    const PORT: u32 = 4711;

    fn unanswered(flight: &Flight) -> usize {
        flight.unanswered().count()
    }

    #[test]
    fn an_acknowledged_request_waits_for_its_error_message_only() {
        let mut flight = Flight::default();
        flight.sent(&message(xfrm::NEWSA, F_ACK | 1, 5, 0, &[1; 8]), Instant::now());
        // The event that the request caused, with its number, on a socket that also listens.
        assert!(!flight.received(&message(xfrm::NEWSA, 0, 5, PORT, &[]), PORT));
        assert!(!flight.received(&message(ERROR, 0, 6, PORT, &[0; 4]), PORT));
        assert!(!flight.received(&message(ERROR, 0, 5, 1, &[0; 4]), PORT));
        assert_eq!(unanswered(&flight), 1);
        assert!(flight.received(&message(ERROR, 0, 5, PORT, &[0; 4]), PORT));
        assert!(flight.is_empty());
    }

    #[test]
    fn a_question_is_answered_by_one_message_and_silent_requests_are_not_kept() {
        let mut flight = Flight::default();
        flight.sent(&message(xfrm::GETSA, 1, 5, 0, &[]), Instant::now());
        assert!(flight.received(&message(xfrm::NEWSA, 0, 5, PORT, &[]), PORT));
        assert!(flight.is_empty());
        flight.sent(&message(xfrm::NEWSA, 1, 6, 0, &[]), Instant::now());
        flight.sent(&message(xfrm::NEWPOLICY, F_DUMP | 1, 6, 0, &[]), Instant::now());
        flight.sent(b"not netlink", Instant::now());
        assert!(flight.is_empty());
    }

    #[test]
    fn a_dump_ends_with_done_or_error_and_is_interrupted_once_begun() {
        let mut flight = Flight::default();
        let request = message(xfrm::GETPOLICY, F_DUMP | 1, 8, 0, &[]);
        flight.sent(&request, Instant::now());
        assert!(flight.interrupt(PORT).is_empty());
        assert_eq!(unanswered(&flight), 1, "not begun: sent again");
        let part = message(xfrm::NEWPOLICY, F_MULTI, 8, PORT, &[]);
        assert!(flight.would_answer(&part, PORT));
        assert!(flight.received(&part, PORT));
        assert_eq!(unanswered(&flight), 1);
        let ends = flight.interrupt(PORT);
        assert_eq!(ends.len(), 1);
        assert_eq!(netlink::headers(&ends[0]).next().unwrap().seq, 8);
        assert!(flight.is_empty());

        flight.sent(&request, Instant::now());
        assert!(flight.received(&[part, message(DONE, F_MULTI, 8, PORT, &[0; 4])].concat(), PORT));
        assert!(flight.is_empty());
    }

    #[test]
    fn a_datagram_stays_until_each_of_its_requests_is_answered() {
        let mut flight = Flight::default();
        let two = [message(xfrm::DELSA, F_ACK, 1, 0, &[]), message(xfrm::DELSA, F_ACK, 2, 0, &[])];
        flight.sent(&two.concat(), Instant::now());
        flight.received(&message(ERROR, 0, 1, PORT, &[0; 4]), PORT);
        assert_eq!(flight.unanswered().next(), Some(two.concat().as_slice()));
        let errors = flight.give_up(libc::ECONNREFUSED, PORT);
        assert_eq!(errors.len(), 1);
        assert_eq!(netlink::headers(&errors[0]).next().unwrap().seq, 2);
        assert!(flight.is_empty());
    }

    #[test]
    fn the_number_of_datagrams_is_bounded_and_a_failed_one_is_taken_back() {
        let mut flight = Flight::default();
        for seq in 0..1000 {
            flight.sent(&message(xfrm::DELSA, F_ACK, seq, 0, &[]), Instant::now());
        }
        assert_eq!(unanswered(&flight), MAX_DATAGRAMS);
        flight.take_back(&message(xfrm::DELSA, F_ACK, 998, 0, &[]));
        assert_eq!(unanswered(&flight), MAX_DATAGRAMS);
        flight.take_back(&message(xfrm::DELSA, F_ACK, 999, 0, &[]));
        assert_eq!(unanswered(&flight), MAX_DATAGRAMS - 1);
    }

    #[test]
    fn old_requests_are_given_up_alone() {
        let mut flight = Flight::default();
        let now = Instant::now();
        flight.sent(&message(xfrm::DELSA, F_ACK, 1, 0, &[]), now);
        flight.sent(&message(xfrm::DELSA, F_ACK, 2, 0, &[]), now + Duration::from_secs(20));
        let limit = Duration::from_secs(30);
        let errors =
            flight.give_up_older(now + Duration::from_secs(31), limit, libc::ECONNREFUSED, PORT);
        assert_eq!(errors.len(), 1);
        assert_eq!(netlink::headers(&errors[0]).next().unwrap().seq, 1);
        assert_eq!(netlink::headers(flight.unanswered().next().unwrap()).next().unwrap().seq, 2);
    }
}
