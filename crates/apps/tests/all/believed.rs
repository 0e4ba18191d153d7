//! Which answers of name servers are believed, and by whom.

use apps::KnownBy;
use policy::Prefix;

use crate::lab::{At, Bench, addr, client_hello, datagram, dns, in_records, segment};

const CLIENT: At = (1, 5353);
const RESOLVER: At = (53, 53);

/// A client asks, and this datagram comes back: which application a flow of the client to 10.1.0.9 is taken for.
fn after(answer: Vec<u8>) -> Option<String> {
    let mut bench = Bench::new(Vec::new());
    bench.classifier.packet(0, &datagram(CLIENT, RESOLVER, &dns(7, "wWw.CalLs.example", None, 0)));
    bench.classifier.packet(1, &answer);
    bench.likely(1, 9, 2)
}

#[test]
fn an_answer_to_the_question() {
    let answer = dns(7, "wWw.CalLs.example", Some(&[8, 9]), 300);
    assert_eq!(after(datagram(RESOLVER, CLIENT, &answer)).as_deref(), Some("calls"));
}

#[test]
fn answers_that_are_made_up() {
    let good = |id, name| dns(id, name, Some(&[9]), 300);
    let spelt = "wWw.CalLs.example";
    let tries = [
        ("another id", datagram(RESOLVER, CLIENT, &good(8, spelt))),
        ("another spelling", datagram(RESOLVER, CLIENT, &good(7, "www.calls.example"))),
        ("another question", datagram(RESOLVER, CLIENT, &good(7, "www.files.example"))),
        ("another server", datagram((54, 53), CLIENT, &good(7, spelt))),
        ("another port of the client", datagram(RESOLVER, (1, 5354), &good(7, spelt))),
        ("another client", datagram(RESOLVER, (2, 5353), &good(7, spelt))),
        ("a question", datagram(RESOLVER, CLIENT, &dns(7, spelt, None, 0))),
    ];
    for (what, packet) in tries {
        assert_eq!(after(packet), None, "{what}");
    }
}

#[test]
fn records_of_other_names_ride_along_in_vain() {
    let mut answer = dns(7, "wWw.CalLs.example", Some(&[8]), 300);
    // The record's owner is another name now, in front of the address that it had.
    let at = answer.windows(2).position(|bytes| bytes == [0xc0, 12]).expect("a record");
    answer.splice(at..at + 2, *b"\x03evl\x07example\x00");
    assert_eq!(after(datagram(RESOLVER, CLIENT, &answer)), None);
}

#[test]
fn an_answer_counts_once_and_in_time() {
    let question = datagram(CLIENT, RESOLVER, &dns(7, "calls.example", None, 0));
    let answer = |last| datagram(RESOLVER, CLIENT, &dns(7, "calls.example", Some(&[last]), 300));
    let mut bench = Bench::new(Vec::new());
    bench.classifier.packet(0, &question);
    bench.classifier.packet(1, &answer(8));
    bench.classifier.packet(2, &answer(9));
    assert_eq!(bench.likely(1, 9, 3), None, "the second answer");
    assert_eq!(
        (bench.classifier.tally().answers, bench.classifier.tally().strange_answers),
        (1, 1)
    );
    let mut bench = Bench::new(Vec::new());
    bench.classifier.packet(0, &question);
    bench.classifier.packet(11_000_000_000, &answer(9));
    assert_eq!(bench.likely(1, 9, 11_000_000_000), None, "too late");
}

#[test]
fn who_asks_a_server_of_its_own_changes_its_own_flows_alone() {
    let mut bench = Bench::new(Vec::new());
    let ask = |bench: &mut Bench, client: u8| {
        let at = (client, 4000);
        bench.classifier.packet(0, &datagram(at, RESOLVER, &dns(1, "calls.example", None, 0)));
        let answer = dns(1, "calls.example", Some(&[9]), 300);
        bench.classifier.packet(0, &datagram(RESOLVER, at, &answer));
    };
    ask(&mut bench, 66);
    assert_eq!(bench.likely(66, 9, 1).as_deref(), Some("calls"));
    assert_eq!(bench.likely(1, 9, 1), None);
    // A resolver that the operator has named asks for all.
    let mut bench = Bench::new(vec![Prefix { addr: addr(2), len: 32 }]);
    ask(&mut bench, 2);
    assert_eq!(bench.likely(1, 9, 1).as_deref(), Some("calls"));
}

#[test]
fn dns_over_tcp_is_believed_alike() {
    let framed = |message: Vec<u8>| [&(message.len() as u16).to_be_bytes()[..], &message].concat();
    let mut bench = Bench::new(Vec::new());
    let question = framed(dns(3, "files.example", None, 0));
    let (head, tail) = question.split_at(9);
    bench.classifier.packet(0, &segment(CLIENT, RESOLVER, 100, 0x18, head));
    let verdict = bench.classifier.packet(0, &segment(CLIENT, RESOLVER, 109, 0x18, tail));
    assert_eq!(verdict.map(|verdict| verdict.known_by), Some(KnownBy::Dns));
    let answer = framed(dns(3, "files.example", Some(&[9]), 300));
    bench.classifier.packet(0, &segment(RESOLVER, CLIENT, 900, 0x18, &answer));
    assert_eq!(bench.likely(1, 9, 1).as_deref(), Some("files"));
}

#[test]
fn a_flow_teaches_the_next_and_its_name_corrects_an_answer() {
    let mut bench = Bench::new(Vec::new());
    let hello = |host| in_records(&client_hello(Some(host), false, 0), 4000);
    bench.classifier.packet(0, &segment((1, 4000), (9, 443), 1, 0x18, &hello("a.calls.example")));
    assert_eq!(bench.likely(2, 9, 1).as_deref(), Some("calls"));
    bench.classifier.packet(0, &datagram(CLIENT, RESOLVER, &dns(1, "files.example", None, 0)));
    bench
        .classifier
        .packet(0, &datagram(RESOLVER, CLIENT, &dns(1, "files.example", Some(&[9]), 60)));
    assert_eq!(bench.likely(1, 9, 1).as_deref(), Some("files"), "the client's own answer first");
    let said = segment((1, 4001), (9, 443), 1, 0x18, &hello("b.calls.example"));
    let verdict = bench.classifier.packet(1, &said).expect("a verdict");
    assert_eq!(bench.classifier.catalogue().name(verdict.application), "calls");
    // Flows that name no host are taken for what the client was told.
    for n in 0..24 {
        let verdict = bench.classifier.packet(2, &segment((1, 4002), (9, 8443), n, 0x18, b"?"));
        if let Some(verdict) = verdict {
            let app = bench.classifier.catalogue().name(verdict.application);
            assert_eq!((app, verdict.known_by, n), ("files", KnownBy::Answer, 23));
        }
    }
}
