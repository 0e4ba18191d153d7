//! Flows that tell nothing are shown to a second classifier; what it says, and what it costs if it says nothing.

use apps::{KnownBy, MOST_ASKED, MOST_MEMORY, MOST_PACKETS, Verdict};

use crate::lab::{At, Bench, addr, client_hello, datagram, dns, in_records, segment};

const CLIENT: At = (1, 50_000);
const SERVER: At = (9, 9000);

/// A bench with a second classifier.
fn asking() -> Bench {
    let mut bench = Bench::new(Vec::new());
    bench.classifier.ask_another();
    bench
}

fn told(verdict: &Verdict) -> (usize, KnownBy) {
    (verdict.application.index(), verdict.known_by)
}

#[test]
fn a_strange_flow_is_asked_about_with_its_first_packet() {
    let mut s = asking();
    let packet = datagram(CLIENT, SERVER, b"\x80\x08strange");
    assert_eq!(s.classifier.packet(7, &packet), None);
    let question = s.classifier.question().expect("a question");
    assert_eq!((question.flow, question.is_last, question.now_ns), (0, false, 7));
    assert_eq!(*question.packet, *packet);
    assert_eq!(s.classifier.question(), None);
    assert_eq!(s.classifier.answered(8, 0, None), None, "it does not know yet");
    assert_eq!(s.classifier.packet(9, &datagram(SERVER, CLIENT, b"more")), None);
    assert_eq!(s.classifier.question().map(|question| question.flow), Some(0));
    let calls = s.classifier.catalogue().find("calls");
    let verdict = s.classifier.answered(10, 0, calls).expect("a verdict");
    assert_eq!(
        (verdict.application, verdict.known_by),
        (calls.expect("it is there"), KnownBy::Ndpi)
    );
    assert_eq!((verdict.client.addr, verdict.host), (addr(CLIENT.0), None));
    // It is kept, and no server is learnt by it: it is a guess by one flow's bytes.
    assert_eq!(s.hints.flow(&verdict.flow, 11), calls);
    assert_eq!(s.likely(CLIENT.0, SERVER.0, 11), None);
    assert_eq!(s.classifier.answered(12, 0, calls), None, "once");
}

#[test]
fn what_is_read_here_is_asked_about_by_nobody() {
    let mut s = asking();
    let hello = in_records(&client_hello(Some("a.calls.example"), false, 0), 1 << 14);
    for (n, part) in hello.chunks(40).enumerate() {
        s.classifier.packet(n as u64, &segment(CLIENT, (9, 443), 1 + 40 * n as u32, 0x18, part));
    }
    s.classifier.packet(50, &datagram(CLIENT, (9, 53), &dns(7, "a.example", None, 0)));
    assert_eq!(s.classifier.question(), None);
    assert_eq!(s.classifier.load().1, 0, "and nothing is kept");
}

#[test]
fn what_was_kept_is_shown_first() {
    let mut s = asking();
    // The beginning of a request, and then none.
    let parts: [&[u8]; 3] = [b"GE", b"T", b"\x01\x02"];
    let mut sequence = 1;
    for (n, part) in parts.into_iter().enumerate() {
        assert_eq!(s.classifier.question(), None, "before {n}");
        s.classifier.packet(n as u64, &segment(CLIENT, SERVER, sequence, 0x18, part));
        sequence += part.len() as u32;
    }
    let mut times = Vec::new();
    while let Some(question) = s.classifier.question() {
        times.push(question.now_ns);
    }
    assert_eq!(times, [0, 1, 2]);
}

#[test]
fn the_last_question_is_told_and_its_answer_decides() {
    let mut s = asking();
    let mut questions = Vec::new();
    for n in 0..MOST_PACKETS + 5 {
        let verdict = s.classifier.packet(n, &segment(CLIENT, SERVER, n as u32, 0x18, b"\x01"));
        assert_eq!(verdict, None, "the answers may come: {n}");
        questions.extend(s.classifier.question());
    }
    assert_eq!(questions.len() as u64, MOST_PACKETS, "and nobody is asked any more");
    let last = questions.iter().position(|question| question.is_last);
    assert_eq!(last, Some(MOST_PACKETS as usize - 1));
    for question in &questions[1..] {
        assert_eq!(s.classifier.answered(50, question.flow, None), None);
    }
    let verdict = s.classifier.answered(50, 0, None).expect("a verdict");
    assert_eq!(told(&verdict), (0, KnownBy::Nothing));
}

#[test]
fn a_second_that_is_gone_costs_its_answers_alone() {
    let mut s = asking();
    for n in 0..MOST_PACKETS {
        assert_eq!(s.classifier.packet(n, &segment(CLIENT, SERVER, n as u32, 0x18, b"\x01")), None);
    }
    s.classifier.packet(30, &datagram(CLIENT, SERVER, b"strange"));
    let verdicts = s.classifier.unanswered(40);
    assert_eq!(verdicts.iter().map(told).collect::<Vec<_>>(), [(0, KnownBy::Nothing)]);
    assert_eq!(s.classifier.question(), None, "what nobody has taken is forgotten");
    let calls = s.classifier.catalogue().find("calls");
    assert_eq!(s.classifier.answered(41, 1, calls), None, "a late answer");
    // The other is given up as if nobody had been asked.
    let packet = datagram(CLIENT, SERVER, b"strange");
    let verdicts: Vec<_> = (50..60).filter_map(|n| s.classifier.packet(n, &packet)).collect();
    assert_eq!(verdicts.iter().map(told).collect::<Vec<_>>(), [(0, KnownBy::Nothing)]);
    // And the next flow is asked about again.
    s.classifier.packet(70, &datagram((2, 50_000), SERVER, b"strange"));
    assert!(s.classifier.question().is_some());
}

#[test]
fn a_flood_is_bounded_and_the_newest_flows_count() {
    let mut s = asking();
    let mut asked = 0;
    let payload = [1; 1200];
    for n in 0..20_000u16 {
        let client = ((n >> 8) as u8 + 10, n);
        s.classifier.packet(n.into(), &datagram(client, SERVER, &payload));
        if n % 2 == 0 {
            asked += u32::from(s.classifier.question().is_some());
        }
        assert!(s.classifier.load().1 <= MOST_MEMORY + (1 << 16));
    }
    assert!(asked > 9000, "{asked}");
    let mut waiting = 0;
    while s.classifier.question().is_some() {
        waiting += 1;
    }
    assert_eq!(waiting, 64);
    let calls = s.classifier.catalogue().find("calls");
    assert_eq!(s.classifier.answered(1, 20_000 - MOST_ASKED as u32 - 1, calls), None, "displaced");
    // Its question could not be kept; so nobody can have answered.
    let last = s.classifier.answered(1, 20_000 - MOST_ASKED as u32, calls);
    assert_eq!(last.map(|verdict| verdict.application), calls);
}

#[test]
fn an_answer_of_a_name_server_is_enough() {
    let mut s = asking();
    let server = (9, 53);
    s.classifier.packet(1, &datagram(CLIENT, server, &dns(7, "a.calls.example", None, 0)));
    s.classifier.packet(2, &datagram(server, CLIENT, &dns(7, "a.calls.example", Some(&[20]), 300)));
    s.classifier.packet(3, &datagram(CLIENT, (20, 9000), b"strange"));
    assert_eq!(s.classifier.question(), None);
}
