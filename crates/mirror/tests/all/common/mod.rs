//! Network namespaces to test in.

use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use mirror::{Change, Family, Observer, Snapshot};

/// Runs a test in a thread that has a network namespace of its own, which ends with the thread.
///
/// Does nothing, and says so, where the privilege is missing.
pub fn in_namespace(test: impl FnOnce() + Send) {
    thread::scope(|scope| {
        let result = scope
            .spawn(|| {
                if enter_new_namespace() {
                    test();
                } else {
                    eprintln!("skipped: no privilege to make a network namespace");
                }
            })
            .join();
        if let Err(panic) = result {
            std::panic::resume_unwind(panic);
        }
    });
}

/// Moves the calling thread into a new network namespace; `false` without the privilege.
pub fn enter_new_namespace() -> bool {
    // SAFETY: unshare takes no pointers; it changes the calling thread only.
    unsafe { libc::unshare(libc::CLONE_NEWNET) == 0 }
}

/// Runs `ip` with these arguments in the calling thread's namespace.
#[track_caller]
pub fn ip(arguments: &str) {
    run("ip", arguments);
}

/// Runs `bridge` likewise.
#[track_caller]
pub fn bridge(arguments: &str) {
    run("bridge", arguments);
}

#[track_caller]
fn run(program: &str, arguments: &str) {
    let output = Command::new(program).args(arguments.split_whitespace()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments}: {said}");
}

/// Polls until the snapshot is as it should be; returns all changes on the way.
#[track_caller]
pub fn until(observer: &mut Observer, is_done: impl Fn(&Snapshot) -> bool) -> Vec<Change> {
    let begun = Instant::now();
    let mut changes = Vec::new();
    loop {
        changes.extend(observer.poll().unwrap());
        if is_done(observer.snapshot()) {
            return changes;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "{:#?}", observer.snapshot());
        thread::sleep(Duration::from_millis(5));
    }
}

/// Polls until the snapshot is what a fresh dump gives.
#[track_caller]
pub fn until_equal(observer: &mut Observer) {
    let begun = Instant::now();
    loop {
        observer.poll().unwrap();
        let fresh = Observer::new().unwrap();
        if observer.snapshot() == fresh.snapshot() {
            return;
        }
        if begun.elapsed() > Duration::from_secs(60) {
            let (mine, dumped) = (lines(observer.snapshot()), lines(fresh.snapshot()));
            let only = |a: &[String], b: &[String]| -> Vec<String> {
                a.iter().filter(|line| !b.contains(line)).cloned().collect()
            };
            panic!(
                "only followed: {:#?}\nonly dumped: {:#?}",
                only(&mine, &dumped),
                only(&dumped, &mine)
            );
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// Everything in a snapshot, one text each.
fn lines(snapshot: &Snapshot) -> Vec<String> {
    let rules = [Family::V4, Family::V6].into_iter().flat_map(|family| snapshot.rules(family));
    snapshot
        .links()
        .map(|x| format!("{x:?}"))
        .chain(snapshot.addresses().map(|x| format!("{x:?}")))
        .chain(rules.map(|x| format!("{x:?}")))
        .chain(snapshot.routes().map(|x| format!("{x:?}")))
        .chain(snapshot.neighbours().map(|x| format!("{x:?}")))
        .collect()
}
