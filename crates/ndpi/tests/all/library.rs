//! The library itself, where it is installed.

use ndpi::{Broken, Heard, application};

use crate::lab::{Subject, datagram, program, segment};

/// A child with the library; none where it is not installed, unless it has to be.
fn subject() -> Option<Subject> {
    let mut subject = Subject::begin(&program(), &[]);
    match subject.hear() {
        Ok(Heard::Ready(version)) => {
            assert!(version.starts_with("4.2"), "{version}");
            Some(subject)
        }
        Err(Broken::Unable(why)) if std::env::var_os("CULVERT_REQUIRE").is_none() => {
            assert!(why.contains("apt install libndpi4.2"), "{why}");
            eprintln!("not tried: {why}");
            None
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn protocols_that_culvert_does_not_read() {
    let Some(mut subject) = subject() else { return };
    let mut ask = |flow, is_last, packet: &[u8]| {
        let protocol = subject.ask(flow, is_last, packet).expect("an answer");
        protocol.and_then(application)
    };
    assert_eq!(ask(1, false, &segment(22, 1, b"SSH-2.0-OpenSSH_9.2\r\n", true)), Some("ssh"));
    let call = b"INVITE sip:a@b.example SIP/2.0\r\nVia: SIP/2.0/UDP c.example\r\n\r\n";
    assert_eq!(ask(2, false, &datagram(9999, call)), Some("sip"));
    let handshake = [&[19][..], b"BitTorrent protocol", &[0; 48]].concat();
    assert_eq!(ask(3, false, &segment(6881, 1, &handshake, false)), Some("bittorrent"));
    // Nothing: at last, and without a guess by the port.
    assert_eq!(ask(4, false, &segment(22, 1, b"\x01\x02\x03\x04", false)), None);
    assert_eq!(ask(4, true, &segment(22, 5, b"\x05\x06\x07\x08", false)), None);
    // Packets that are none, and numbers of flows that take one another's place.
    for packet in [&b""[..], b"\x45", &[0x60; 39], &[0xff; 2000]] {
        assert_eq!(ask(5, false, packet), None);
    }
    assert_eq!(ask(1 + 1024, false, &datagram(9999, call)), Some("sip"));
}

#[test]
fn the_child_has_nothing_but_its_queue() {
    let Some(subject) = subject() else { return };
    let status = subject.status();
    for line in [
        "Seccomp:\t2",
        "NoNewPrivs:\t1",
        "Threads:\t1",
        "CapEff:\t0000000000000000",
        "CapPrm:\t0000000000000000",
    ] {
        assert!(status.contains(line), "{line}: {status}");
    }
    let folder = format!("/proc/{}/fd", subject.child.pid());
    let files = std::fs::read_dir(folder).expect("a process").count();
    assert_eq!(files, 3, "the queue, and /dev/null twice");
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", subject.child.pid()));
    let limits = limits.expect("a process");
    for name in ["Max open files", "Max processes", "Max core file size"] {
        let line = limits.lines().find(|line| line.starts_with(name)).expect("a limit");
        assert_eq!(line.split_whitespace().rev().nth(1), Some("0"), "{line}");
    }
}

#[test]
fn it_ends_with_its_parent() {
    let Some(subject) = subject() else { return };
    let Subject { child, link, .. } = subject;
    drop(link);
    let status = format!("/proc/{}/status", child.pid());
    let has_ended =
        || std::fs::read_to_string(&status).is_ok_and(|text| text.contains("State:\tZ"));
    for _ in 0..10_000 {
        if has_ended() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    panic!("it goes on without a queue");
}

#[test]
fn without_a_queue_it_says_so() {
    let output = std::process::Command::new(program()).stdin(std::process::Stdio::null()).output();
    let output = output.expect("a process");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("no queue of culvert's"), "{said}");
    assert!(output.stdout.is_empty());
}
