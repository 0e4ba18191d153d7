"""A daemon with what packaging/kubernetes/culvert.yaml leaves it: capabilities, and settings below another folder."""

import re
from pathlib import Path

from lab import topology as t
from lab.base import ROOT, wait_for
from lab.planes import culvert_binary
from lab.traffic import assert_ping

MANIFEST = (ROOT / "packaging" / "kubernetes" / "culvert.yaml").read_text()

#: What the runtime of a container does before it starts the program.
SCRIPT = """\
set -e
mount --bind /proc/sys/net "$1"
mount --bind /proc/sys /proc/sys
mount -o remount,bind,ro /proc/sys
shift
exec "$@"
"""


def capabilities():
    added = re.search(r"add: \[(.*)\]", MANIFEST)[1]
    return ",".join(["-all", *(f"+{name.strip().lower()}" for name in added.split(","))])


def start(daemon, environment):
    """Starts it as a container's runtime does, and does not wait."""
    host = daemon.host
    folder = host.lab.tmp / "proc-sys"
    (folder / "net").mkdir(parents=True, exist_ok=True)
    daemon.process = host.spawn(
        "unshare", "--mount", "sh", "-c", SCRIPT, "sh", folder / "net",
        "setpriv", f"--bounding-set={capabilities()}", "--inh-caps=-all", "--no-new-privs",
        culvert_binary(), "run", "--config", daemon.config,
        log=host.lab.tmp / "contained.log", env={"NO_COLOR": "1", **environment(folder)},
    )  # fmt: skip
    return daemon.process


def test_a_tunnel_with_settings_below_another_folder(network):
    [name] = re.findall(r"- name: (CULVERT_\w+)", MANIFEST)
    net = network()
    daemon = net.gwa.daemon
    process = start(daemon, lambda folder: {name: str(folder)})
    wait_for("culvert", lambda: "culvert: ready" in process.output() or not process.alive())
    assert process.alive(), process.output()
    status = Path(f"/proc/{process.pid}/status").read_text()
    kept = int(re.search(r"^CapBnd:\s+(\w+)$", status, re.M)[1], 16)
    assert kept.bit_count() == 5, status
    net.gwb.start()
    net.gwa.swan.start()
    net.gwa.swan.initiate()
    assert_ping(net.client, t.SERVER4, count=5)
    assert_ping(net.client, t.SERVER6, count=5)
    # To the gateway itself: by the private interface, whose settings were written.
    assert_ping(net.server, t.LAN_A4, count=3)
    assert not daemon.warnings()
    assert net.gwa.host.run("sysctl", "-n", "net.ipv4.conf.culvert0.disable_xfrm").stdout.strip() == "1"


def test_without_that_folder_it_says_what_it_cannot_write(network):
    process = start(network().gwa.daemon, lambda _: {})
    wait_for("its end", lambda: not process.alive())
    said = process.output()
    assert "/proc/sys/net/ipv4/conf/culvert0/" in said and "Read-only file system" in said, said
    assert "CULVERT_PROC_SYS" in said, said


def test_commands_from_outside_of_its_processes_are_answered(network):
    """A container has process ids of its own, in which a command of the host has none."""
    daemon = network().gwa.daemon
    daemon.wrapper = ["unshare", "--pid", "--fork", "--kill-child"]
    daemon.start()
    assert daemon.json("sa") == []
