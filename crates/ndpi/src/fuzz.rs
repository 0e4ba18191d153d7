//! Entries of the fuzz targets: bytes as a child that strangers have taken over may send them.

use crate::message::{Answer, LONGEST_ANSWER, Packet};
use crate::protocols::application;
use crate::questions::Questions;

/// A message of the child, to a daemon that has asked two questions.
pub fn answer(bytes: &[u8]) {
    let parsed = Answer::parse(bytes);
    if let Ok(answer) = &parsed {
        assert!(bytes.len() <= LONGEST_ANSWER);
        assert_eq!(answer.emit(), bytes, "another message says the same");
        match answer {
            Answer::Ready(text) | Answer::Unable(text) => {
                assert!(text.bytes().all(|byte| (b' '..=b'~').contains(&byte)));
            }
            Answer::Flow { protocol, .. } => {
                assert!(protocol.is_none_or(|protocol| application(protocol).is_some()));
            }
        }
    }
    if let Some(packet) = Packet::parse(bytes) {
        let mut again = Vec::new();
        packet.emit(&mut again);
        assert_eq!(Packet::parse(&again).map(|packet| packet.question), Some(packet.question));
    }
    let mut asked = Questions::default();
    let _ = (asked.ask(7, 0), asked.ask(8, 0));
    if let Ok(Answer::Flow { question, .. }) = parsed {
        let flow = asked.answered(question);
        assert_eq!(flow.is_ok(), question == 0, "only the oldest question is answered");
    }
}
