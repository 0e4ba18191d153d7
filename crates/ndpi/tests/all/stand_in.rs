//! Stand-ins for the library: of another version, and such as crash, hang, and eat memory with a packet that says so.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use ndpi::{Broken, Heard, application, probe};
use std::time::Duration;

use crate::lab::{Subject, datagram, program};

/// Compiles a stand-in. `API`, `SIZE` and `FIRST` are its version, the size of its flows, and the name of its first protocol.
fn build(name: &str, defines: &[&str]) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&folder).expect("a folder");
    let mut names = String::new();
    for number in 0..282 {
        let spelled = include_str!("../../data/protocols").lines().filter(|l| !l.starts_with('#'));
        let spelled = spelled.flat_map(str::split_whitespace).nth(number).expect("a name");
        writeln!(names, "\"{spelled}\",").expect("a text");
    }
    std::fs::write(folder.join("names.h"), names).expect("a file");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stand_in.c");
    let status = Command::new("cc")
        .args(["-shared", "-fPIC", "-O0", "-o"])
        .arg(folder.join("libndpi.so.4.2"))
        .arg(format!("-I{}", folder.display()))
        .args(defines.iter().map(|define| format!("-D{define}")))
        .arg(source)
        .status();
    assert!(status.expect("a C compiler").success());
    folder
}

/// Arguments of env(1) by which a child finds the stand-in.
fn with(folder: &Path) -> [String; 2] {
    [format!("LD_LIBRARY_PATH={}", folder.display()), program().display().to_string()]
}

fn begin(folder: &Path) -> Subject {
    let arguments = with(folder);
    let arguments = arguments.each_ref().map(String::as_str);
    let mut subject = Subject::begin(Path::new("/usr/bin/env"), &arguments);
    assert_eq!(subject.hear(), Ok(Heard::Ready("4.2.0".into())));
    subject
}

#[test]
fn what_a_library_does_costs_its_own_process() {
    let folder = build("misbehaves", &[]);
    let known = |subject: &mut Subject, packet: &[u8]| {
        let protocol = subject.ask(1, false, &datagram(9, packet)).expect("an answer");
        protocol.and_then(application)
    };
    let mut subject = begin(&folder);
    assert_eq!(known(&mut subject, b"ssh"), Some("ssh"));
    assert_eq!(known(&mut subject, b"nothing"), None);
    // It has no file, no socket, no process and no program: the calls fail, and it goes on.
    assert_eq!(known(&mut subject, b"escape"), Some("dns"), "a system call was not refused");
    for packet in [&b"crash"[..], b"abort", b"memory", b"exit"] {
        let mut subject = begin(&folder);
        let ended = subject.ask(1, false, &datagram(9, packet));
        assert_eq!(ended, Err(Broken::Ended), "{}", packet.escape_ascii());
    }
    let mut subject = begin(&folder);
    assert_eq!(subject.ask(1, false, &datagram(9, b"hang")), Err(Broken::Hung));
    let pid = subject.child.pid();
    drop(subject);
    assert!(!Path::new(&format!("/proc/{pid}")).exists(), "it goes on");
    // A protocol that there is not.
    let mut subject = begin(&folder);
    let said = subject.ask(1, false, &datagram(9, b"lie")).expect_err("a lie").to_string();
    assert_eq!(said, "nDPI's process said protocol 999, which there is not");
}

#[test]
fn another_version_is_refused_by_name() {
    for (name, define, said) in [
        ("interface", "API=9999", "libndpi.so.4.2 has interface 9999 and not 8668"),
        ("layout", "SIZE=700", "libndpi.so.4.2 keeps 700 bytes of a flow and not 688"),
        ("protocols", "FIRST=\"FTP\"", "has protocol 1 as \"FTP\" and not as \"FTP_CONTROL\""),
        ("count", "COUNT=290", "has protocol 282 as \"more\" and not as \"\""),
        ("function", "LACKS_GIVE_UP", "undefined symbol: ndpi_detection_giveup"),
    ] {
        let arguments = with(&build(name, &[define]));
        let arguments = arguments.each_ref().map(String::as_str);
        let found = probe(Path::new("/usr/bin/env"), &arguments, Duration::from_secs(20));
        let why = found.expect_err("another version");
        assert!(why.contains(said) && why.ends_with("apt install libndpi4.2"), "{why}");
    }
    let why = probe(Path::new("/nonexistent"), &[], Duration::from_secs(1));
    assert!(why.expect_err("no program").starts_with("/nonexistent: No such file"));
}
