//! The kernel's release as programs under the library hear it.
//!
//! The machine's own may be new; `setarch --uname-2.6` has the kernel tell an old one.

use std::path::Path;
use std::process::Command;

use crate::program::command;

/// A library with the one symbol by which charon is known.
fn stand_in(dir: &Path) -> String {
    let (source, library) = (dir.join("charon.c"), dir.join("charon.so"));
    std::fs::write(&source, "int libcharon_init(void) { return 1; }\n").expect("scratch");
    let mut cc = Command::new("cc");
    cc.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source);
    assert!(cc.status().expect("a C compiler").success());
    library.into_os_string().into_string().expect("text")
}

/// The answer of `uname` in a program with this library beside the preload library.
fn heard(socket: Option<&Path>, beside: Option<&str>) -> String {
    let mut c = command("setarch", socket);
    let preload = c.get_envs().find(|(name, _)| *name == "LD_PRELOAD").and_then(|(_, value)| value);
    let mut preload = preload.expect("set").to_owned();
    if let Some(beside) = beside {
        preload.push(":");
        preload.push(beside);
    }
    let script = "import os; print(os.uname().release)";
    let c = c.env("LD_PRELOAD", preload);
    let out = c.args(["--uname-2.6", "/usr/bin/python3", "-c", script]).output().expect("it runs");
    assert!(out.status.success(), "{out:?}");
    String::from_utf8(out.stdout).expect("text").trim_end().to_owned()
}

#[test]
fn charon_hears_a_release_as_new_as_the_databases() {
    let dir = tempfile::tempdir().expect("scratch");
    let charon = stand_in(dir.path());
    let socket = dir.path().join("xfrm.sock");
    let own = heard(None, None);
    assert!(own.starts_with("2.6."), "{own}");
    // Only charon, and only where its XFRM is culvert's.
    assert_eq!(heard(Some(&socket), None), own);
    assert_eq!(heard(None, Some(&charon)), own);
    assert_eq!(heard(Some(&socket), Some(&charon)), format!("6.13.0-culvert-on-{own}"));
}
