"""The daemon's seccomp filters, as the kernel shows them, over what happens to a daemon in its life."""

import re
import signal
from pathlib import Path

from lab import topology as t
from lab.base import wait_for
from lab.planes import culvert_binary
from lab.traffic import assert_ping

#: What a call that a filter refuses would be logged as.
REFUSED = ("Operation not permitted", "Function not implemented", "os error 1)", "os error 38)")

#: The network behind the port that comes and goes.
LAN_A = "10.1.0.0/24"

#: Filters of all threads, and of those that may do less.
OF_ALL, OF_SOME = 3, 4


def seccomp(status):
    """Mode, and number of filters, from a thread's status."""
    found = dict(re.findall(r"^(Seccomp\w*):\s+(\d+)$", status.read_text(), re.M))
    return int(found["Seccomp"]), int(found["Seccomp_filters"])


def threads(daemon):
    """The filters of each thread beyond those that this test has itself, by thread and its name."""
    _, own = seccomp(Path("/proc/self/status"))
    found = {}
    for task in Path(f"/proc/{daemon.process.pid}/task").iterdir():
        try:
            mode, filters = seccomp(task / "status")
            found[task.name, (task / "comm").read_text().strip()] = (mode, filters - own)
        except FileNotFoundError:
            # It ended meanwhile.
            continue
    return found


def assert_confined(daemon, workers):
    found = threads(daemon)
    assert all(mode == 2 for mode, _ in found.values()), found
    moving = [n for (_, name), (_, n) in found.items() if name.startswith(("culvert-work", "culvert-crypto"))]
    assert moving == [OF_SOME] * workers, found
    assert found[str(daemon.process.pid), "culvert"][1] == OF_ALL, found
    for asked in ("culvert-ctl", "culvert-read"):
        assert [n for (_, name), (_, n) in found.items() if name == asked] == [OF_SOME], found
    assert all(n >= OF_ALL for _, n in found.values()), found
    return found


def set_workers(daemon, line):
    head, _, _ = daemon.config.read_text().partition("[worker]")
    daemon.write_config(f"{head}[worker]\n{line}\n")
    daemon.reload()


def test_every_thread_is_confined_through_a_daemons_life(network, lab):
    net = network().up()
    daemon = net.gwa.daemon
    assert_ping(net.client, t.SERVER4, count=5)
    count = len(daemon.json("status")["workers"])
    assert_confined(daemon, count)
    # `nft` was run, and could work.
    assert daemon.json("guard", "show") and not daemon.warnings()
    said = daemon.culvert("status", "--verbose").stdout
    assert re.search(r"^seccomp +on$", said, re.M), said
    # Threads that come later: other workers, threads for crypto, a capture.
    set_workers(daemon, "cpus = 2\ncrypto_cpus = [0]")
    assert_ping(net.client, t.SERVER6, count=5)
    assert_confined(daemon, 3)
    path = net.gwa.host.lab.tmp / "seccomp.pcapng"
    capture = net.gwa.host.spawn(culvert_binary(), "--name", daemon.name, "capture", "-w", path)
    wait_for("the capture", lambda: capture.alive() and path.exists())
    assert_ping(net.client, t.SERVER4, count=5)
    found = assert_confined(daemon, 3)
    assert [n for (_, name), (_, n) in found.items() if name == "culvert-capture"] == [OF_SOME], found
    capture.kill(signal.SIGINT)
    assert capture.wait() == 0 and "0 lost" in capture.output(), capture.output()
    # A port goes and comes back: its program is loaded and attached anew.
    net.gwa.host.ip("link", "del", "dev", "lan")
    wait_for("the port to be missed", lambda: daemon.json("status")["ports_up"] == 1)
    lab.link(net.client, "eth0", net.gwa.host, "lan")
    net.client.address("eth0", f"{t.CLIENT4}/24", f"{t.CLIENT6}/64")
    net.gwa.host.address("lan", f"{t.LAN_A4}/24", f"{t.LAN_A6}/64")
    net.client.route("default", "via", t.LAN_A4)
    net.client.route("default", "via", t.LAN_A6)
    wait_for("the port", lambda: daemon.json("status")["ports_up"] == 2)
    # What Linux knows by now reaches the daemon a little later.
    wait_for("its route", lambda: ["lan"] in [r["dev"] for r in daemon.json("route")["routes"] if r["dst"] == LAN_A])
    assert_ping(net.client, t.SERVER4, count=5)
    set_workers(daemon, "cpus = 1")
    assert_ping(net.client, t.SERVER4, count=5)
    assert_confined(daemon, 1)
    # The next daemon takes up the SAs of this one, and has filters of its own.
    daemon.stop()
    daemon.start()
    assert_ping(net.client, t.SERVER4, count=5)
    assert_confined(daemon, 1)
    met = [line for line in daemon.log().splitlines() if any(text in line for text in REFUSED)]
    assert not met, met


def test_it_can_be_off_and_that_is_said(network):
    net = network()
    daemon = net.gwa.daemon
    daemon.write_config(daemon.config.read_text() + "\n[security]\nseccomp = false\n")
    daemon.start()
    assert all(filters == 0 for _, filters in threads(daemon).values()), threads(daemon)
    [warning] = [text for text in daemon.json("status")["warnings"] if "seccomp" in text]
    assert "security.seccomp = false" in warning
    doctor = daemon.culvert("doctor", "--config", daemon.config, check=False).stdout
    assert "security.seccomp = false" in doctor, doctor
