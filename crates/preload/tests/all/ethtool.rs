//! An interface's features, as programs under the library hear of them.

use std::path::Path;

use crate::program::command;

/// Asks for the features of `lo`, as ethtool does, and prints the numbers of those that are on, that of `esp-hw-offload`
/// first.
const SCRIPT: &str = "
import array, fcntl, socket, struct
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
def ask(command):
    fcntl.ioctl(s, 0x8946, struct.pack('16sPxxxxxxxxxxxxxxxx', b'lo', command.buffer_info()[0]))
    return command.tobytes()
count, = struct.unpack_from('I', ask(array.array('B', struct.pack('=IIQI', 0x37, 0, 16, 0))), 16)
names = ask(array.array('B', struct.pack('=III', 0x1b, 4, count) + bytes(32 * count)))[12:]
names = [names[n * 32:][:32].split(b'\\0')[0] for n in range(count)]
blocks = (count + 31) // 32
told = ask(array.array('B', struct.pack('=II', 0x3a, blocks) + bytes(16 * blocks)))[8:]
active = [struct.unpack_from('=I', told, 16 * n + 8)[0] for n in range(blocks)]
on = [n for n in range(count) if active[n // 32] >> n % 32 & 1]
print(names.index(b'esp-hw-offload'), *on)
";

fn heard(socket: Option<&Path>) -> Vec<usize> {
    let mut c = command("/usr/bin/python3", socket);
    let out = c.args(["-c", SCRIPT]).output().expect("it runs");
    assert!(out.status.success(), "{out:?}");
    let out = String::from_utf8(out.stdout).expect("text");
    out.split_whitespace().map(|n| n.parse().expect("a number")).collect()
}

#[test]
fn interfaces_that_the_daemon_names_can_offload_esp() {
    let dir = tempfile::tempdir().expect("scratch");
    let (socket, names) = (dir.path().join("xfrm.sock"), dir.path().join("offload"));
    let own = heard(None);
    let (esp, own_on) = own.split_first().expect("its number");
    assert!(!own_on.is_empty() && !own_on.contains(esp), "{own:?}");
    assert_eq!(heard(Some(&socket)), own, "nobody names it");
    std::fs::write(&names, "wan\nlo0\n").expect("scratch");
    assert_eq!(heard(Some(&socket)), own, "another is named");
    std::fs::write(&names, "wan\nlo\n").expect("scratch");
    let mut expected = own_on.to_vec();
    expected.push(*esp);
    expected.sort_unstable();
    assert_eq!(heard(Some(&socket))[1..], expected, "this one is on, and all else as before");
    assert_eq!(heard(None), own);
}
