//! Support for tests of the kernel's tables.

/// Runs in a network namespace of its own, which ends with its thread.
pub(crate) fn in_namespace(test: impl FnOnce() + Send + 'static) {
    if !rustix::process::getuid().is_root() {
        println!("skipped: needs root");
        return;
    }
    let thread = std::thread::spawn(|| {
        let flags = rustix::thread::UnshareFlags::NEWNET;
        #[expect(
            deprecated,
            reason = "a network namespace alone breaks no promise of the standard library"
        )]
        rustix::thread::unshare(flags).expect("unshare");
        test();
    });
    thread.join().expect("the test in its namespace");
}

/// Runs a command: true if it succeeded, and all that it said.
pub(crate) fn run(command: &str) -> (bool, String) {
    let words: Vec<&str> = command.split_whitespace().collect();
    let output = std::process::Command::new(words[0]).args(&words[1..]).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&text).into_owned())
}
