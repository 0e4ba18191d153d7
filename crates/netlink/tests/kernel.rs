//! The kernel's own routing family: reading needs no privilege.

use netlink::{
    Attributes, Connection, Dump, Fault, Heard, Listener, MessageWriter, Protocol, attribute,
};

const GET_LINK: u16 = 18;
const GET_ROUTE: u16 = 26;
const IFINFOMSG_LEN: usize = 16;

/// `RTM_GETLINK` for an interface, or for all.
fn link(index: u32) -> MessageWriter {
    let mut request = MessageWriter::request(GET_LINK, 0);
    let mut header = [0; IFINFOMSG_LEN];
    header[4..8].copy_from_slice(&index.to_ne_bytes());
    request.raw(&header);
    request
}

fn name(body: &[u8]) -> Option<String> {
    Attributes::new(body.get(IFINFOMSG_LEN..)?).find(3).map(attribute::as_text)
}

#[test]
fn questions_dumps_and_refusals_follow_one_another() {
    let mut route = Connection::open(Protocol::Route).unwrap();
    for _ in 0..3 {
        let mut names = Vec::new();
        let dump = route.dump(link(0), |_, body| names.extend(name(body))).unwrap();
        assert_eq!(dump, Dump::Whole);
        assert!(names.iter().any(|name| name == "lo"), "{names:?}");
        let lo = route.ask(link(1)).unwrap().expect("an answer");
        assert_eq!(name(&lo).as_deref(), Some("lo"));
        // A question has no acknowledgement; a command has one behind its answer.
        route.command(link(1)).unwrap();
        let none = route.ask(link(0x7fff_fff0)).unwrap_err();
        assert_eq!(none.refusal(), Some(libc::ENODEV));
        assert_eq!(route.command(link(0x7fff_fff0)).unwrap_err().refusal(), Some(libc::ENODEV));
    }
}

#[test]
fn commands_are_answered_each_by_itself() {
    let mut route = Connection::open(Protocol::Route).unwrap();
    // More than are sent at a time; each third names no interface.
    let requests = (0..100).map(|n| link(if n % 3 == 0 { 0x7fff_fff0 } else { 1 }));
    let results = route.commands(requests);
    assert_eq!(results.len(), 100);
    for (n, result) in results.into_iter().enumerate() {
        let expected = (n % 3 == 0).then_some(libc::ENODEV);
        assert_eq!(result.err().and_then(|fault| fault.refusal()), expected, "{n}");
    }
    // What came of all of them is not taken for the next one's.
    assert!(route.ask(link(1)).unwrap().is_some());
}

#[test]
fn a_dump_may_be_left() {
    let route = Connection::open(Protocol::Route).unwrap();
    let mut parts = 0;
    let found = route.dump_until(link(0), |_| {
        parts += 1;
        true
    });
    assert_eq!((found.unwrap(), parts), (true, 1));
    let route = Connection::open(Protocol::Route).unwrap();
    assert!(!route.dump_until(link(0), |_| false).unwrap());
}

#[test]
fn the_kernels_own_words_come_with_a_refusal() {
    let mut route = Connection::open(Protocol::Route).unwrap();
    // A route to an address of no family that there is, with a destination that is too short.
    let mut request = MessageWriter::request(GET_ROUTE, 0);
    request.raw(&[2, 32, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]).attribute(1, &[10]);
    let fault = route.ask(request).unwrap_err();
    assert!(
        matches!(&fault, Fault::Refused { text: Some(text), .. } if !text.is_empty()),
        "{fault:?}"
    );
}

#[test]
fn an_answer_that_is_not_there_is_not_waited_for() {
    let mut route = Connection::open(Protocol::Route).unwrap();
    route.set_non_blocking().unwrap();
    assert!(route.ask(link(1)).unwrap().is_some());
    let mut heard = Listener::open(Protocol::Route).unwrap();
    assert!(!heard.drain().unwrap());
    heard.hear(8, |heard| panic!("{heard:?}")).unwrap();
    heard.send(&link(1).finish()).unwrap();
    assert!(heard.drain().unwrap());
    assert!(!heard.drain().unwrap());
    heard.send(&link(1).finish()).unwrap();
    let mut names = Vec::new();
    heard
        .hear(8, |heard| match heard {
            Heard::Message(_, body) => names.extend(name(body)),
            Heard::Lost => panic!("lost"),
        })
        .unwrap();
    assert_eq!(names, ["lo"]);
}
