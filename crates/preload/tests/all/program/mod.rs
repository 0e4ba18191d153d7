//! Unmodified programs under the preload library: `ip`, and Python for the calls one by one.

use std::env;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// Beginning of every script: short names, a request, and a way to talk with the test.
const PRELUDE: &str = r#"
import errno, fcntl, os, select, signal, socket, struct, subprocess, sys, threading, time
XFRM, SOL_NETLINK = 6, 270
ACK, DUMP = 4, 0x300
NEWSA, DELSA, GETSA, GETSPDINFO = 0x10, 0x11, 0x12, 0x25
def nl(kind=socket.SOCK_RAW): return socket.socket(socket.AF_NETLINK, kind, XFRM)
def msg(kind, flags, seq, body=b''): return struct.pack('=IHHII', 16 + len(body), kind, flags | 1, seq, 0) + body
def head(b): return struct.unpack('=IHHII', b[:16])   # len, kind, flags, seq, pid
def fails(what, *errnos):
    try: what()
    except OSError as e: assert e.errno in errnos, e
    else: raise AssertionError('no error')
def say(*a): os.write(1, (' '.join(map(str, a)) + '\n').encode())   # in one piece, also beside a child
def hear(): return sys.stdin.readline().strip()
signal.alarm(240)
"#;

/// A program that runs under the library.
pub struct Program {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

/// Where cargo put the library that belongs to this test.
fn library() -> PathBuf {
    let name = "libculvert_preload.so";
    let own = env::current_exe().expect("own path");
    let deps = own.parent().expect("a folder");
    [deps.join(name), deps.join("..").join(name)]
        .into_iter()
        .find(|p| p.exists())
        .expect("the library was built")
}

/// The command, with the library loaded and the server's path told.
pub fn command(program: &str, socket: Option<&Path>) -> Command {
    let mut c = Command::new(program);
    c.env("LD_PRELOAD", library()).env_remove("CULVERT_XFRM_SOCKET");
    if let Some(path) = socket {
        c.env("CULVERT_XFRM_SOCKET", path);
    }
    c
}

/// Starts a Python script.
pub fn python(script: &str, socket: &Path, wait_s: &str) -> Program {
    let mut c = command("/usr/bin/python3", Some(socket));
    c.env("CULVERT_XFRM_WAIT", wait_s).args(["-c", &format!("{PRELUDE}{script}")]);
    Program::spawn(c)
}

impl Program {
    /// Starts a command with its input and output in the test's hands.
    pub fn spawn(mut command: Command) -> Program {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let stdin = child.stdin.take().expect("piped");
        let stdout = BufReader::new(child.stdout.take().expect("piped"));
        Program { child, stdin, stdout }
    }

    /// Its number in the system.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Reads on to a line that contains `text`.
    pub fn expect(&mut self, text: &str) -> String {
        loop {
            let mut line = String::new();
            let n = self.stdout.read_line(&mut line).expect("text");
            assert_ne!(n, 0, "the program ended before it said {text:?}");
            if line.contains(text) {
                return line.trim_end().to_owned();
            }
        }
    }

    /// Lets the script go on: it waits in `hear()`.
    pub fn go(&mut self) {
        self.stdin.write_all(b"go\n").expect("the program reads");
    }

    /// Waits for the end, which has to be a success.
    pub fn finish(mut self) {
        drop(self.stdin);
        let status = self.child.wait().expect("it can be waited for");
        assert!(status.success(), "{status}");
    }

    /// Ends the program.
    pub fn kill(mut self) {
        self.child.kill().expect("it can be killed");
        self.child.wait().expect("it can be waited for");
    }
}
