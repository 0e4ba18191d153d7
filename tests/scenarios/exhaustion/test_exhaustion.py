"""The daemon with too few descriptors, a full disk, too little memory."""

import json
import os
import re
import signal
import socket
import time
from pathlib import Path

import pytest
from lab import topology as t
from lab.base import sh, wait_for
from lab.planes import culvert_binary
from lab.traffic import assert_ping

#: How long is looked at what would be a flood, in seconds.
LOOK_S = 3.0


def cpu_s(pid):
    """Processor time of a process so far, in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_descriptors_used_up_by_clients(network):
    """Those who are in are served, nobody spins or floods, and others come in when there is room."""
    net = network().up()
    daemon = net.gwa.daemon
    pid = daemon.process.pid
    used = len(os.listdir(f"/proc/{pid}/fd"))
    limit = used + 8
    sh("prlimit", "--pid", pid, f"--nofile={limit}:{limit}")
    clients = []
    for name in ["xfrm.sock"] * 30 + ["control.sock"] * 3:
        kind = socket.SOCK_SEQPACKET if name == "xfrm.sock" else socket.SOCK_STREAM
        client = socket.socket(socket.AF_UNIX, kind)
        # Nothing may be sent: it is let in when there is a descriptor, or waits.
        client.settimeout(5)
        client.connect(f"/run/culvert/{daemon.name}/{name}")
        clients.append(client)
    wait_for("the daemon to say so", lambda: "open files" in daemon.log())
    log, cpu, start = len(daemon.log()), cpu_s(pid), time.monotonic()
    time.sleep(LOOK_S)
    seconds = time.monotonic() - start
    lines = daemon.log()[log:].splitlines()
    # Accepting fails at two sockets, and what the daemon looks at once a second may fail too.
    assert len(lines) <= 5 * (seconds + 1), (len(lines), lines[:20])
    assert any("times more" in line or "times=" in line for line in lines), lines
    assert cpu_s(pid) - cpu < seconds / 4, "it spins"
    # Charon is in already.
    before = net.gwa.swan.children("net")[0]["spi-out"]
    net.gwa.swan.rekey(child="net")
    wait_for("a new CHILD_SA", lambda: net.gwa.swan.children("net")[0]["spi-out"] != before)
    assert_ping(net.client, t.SERVER4, count=5)
    for client in clients:
        client.close()
    wait_for("status", lambda: daemon.culvert("status", check=False).returncode == 0)
    assert "192.0.2.2" in daemon.exec("ip", "xfrm", "state").stdout


def test_a_flood_of_connections_is_told_once_a_second(network):
    net = network()
    net.gwa.daemon.start()
    daemon = net.gwa.daemon
    path = f"/run/culvert/{daemon.name}/xfrm.sock"
    start, log = time.monotonic(), len(daemon.log())
    clients = []
    for _ in range(1500):
        client = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        client.connect(path)
        clients.append(client)
        if len(clients) > 400:
            clients.pop().close()
    wait_for("the daemon to say so", lambda: "too many XFRM sockets" in daemon.log())
    seconds = time.monotonic() - start
    for client in clients:
        client.close()
    wait_for("the sum", lambda: re.search(r"times=\d+|\d+ times more", daemon.log()))
    lines = [n for n in daemon.log()[log:].splitlines() if "too many XFRM sockets" in n]
    assert len(lines) <= 2 * (seconds + 2), lines[:10]
    daemon.exec("ip", "xfrm", "state")


def add_sas(daemon, path, count):
    """Installs so many SAs that nobody uses."""
    add = "xfrm state add src 198.51.100.1 dst 198.51.100.2 proto esp spi {} reqid 9 mode tunnel"
    key = "aead rfc4106(gcm(aes)) 0x{:040x} 128"
    lines = [f"{add.format(4096 + n)} {key.format(n + 1)}" for n in range(count)]
    path.write_text("\n".join(lines) + "\n")
    daemon.exec("ip", "-batch", path)


def test_a_full_disk(network):
    """Changes that the vault does not take are said, kept, and written when there is room."""
    net = network()
    daemon = net.gwa.daemon
    folder = Path(f"/run/culvert/{daemon.name}")
    folder.mkdir(mode=0o700, parents=True)
    sh("mount", "-t", "tmpfs", "-o", "size=8m,mode=0700", "tmpfs", folder)
    net.lab.at_close(lambda: sh("umount", "--lazy", folder))
    net.up()
    filler = folder / "filler"
    with open(filler, "wb", buffering=0) as file, pytest.raises(OSError, match="No space"):
        while True:
            file.write(b"\0" * 4096)
    # What is left of the last page.
    count, start, log = 400, time.monotonic(), len(daemon.log())
    add_sas(daemon, net.lab.tmp / "batch", count)
    seconds = time.monotonic() - start

    def unsaved():
        return [w for w in daemon.json("status")["warnings"] if "not in the vault" in w]

    assert unsaved(), daemon.json("status")
    lines = [n for n in daemon.log()[log:].splitlines() if "would not know" in n]
    assert 1 <= len(lines) <= 2 * (seconds + 2), lines[:10]
    assert "No space left" in lines[0], lines[0]
    assert_ping(net.client, t.SERVER4, count=5)
    filler.unlink()
    wait_for("the vault to have all of it", lambda: not unsaved())
    daemon.kill9()
    daemon.start()
    states = daemon.exec("ip", "xfrm", "state").stdout
    assert states.count("dst 198.51.100.2") == count
    assert_ping(net.client, t.SERVER4, count=5)


def test_a_log_that_cannot_be_written(network):
    """A full disk under the log, or a terminal that was closed: the daemon starts, reloads, and ends in order."""
    net = network()
    daemon, host = net.gwa.daemon, net.gwa.host
    process = host.spawn("sh", "-c", f"exec {culvert_binary()} run --config {daemon.config} >/dev/full 2>&1")

    def ports_up():
        done = daemon.culvert("status", "--json", check=False)
        return done.returncode == 0 and json.loads(done.stdout)["ports_up"] == 2

    wait_for("the ports", ports_up)
    process.kill(signal.SIGHUP)
    time.sleep(1)
    assert process.alive() and ports_up()
    assert process.stop() == 0


@pytest.mark.sample_of_cases("32", "64", "96", "128", "160", "256", "1024")
@pytest.mark.parametrize("mib", [24, 32, 48, 64, 80, 96, 112, 128, 144, 160, 192, 256, 384, 1024])
def test_too_little_address_space(network, mib):
    """It starts, or says what is too small; it neither aborts nor panics."""
    net = network()
    limited = ["prlimit", f"--as={mib << 20}", culvert_binary()]
    if net.gwa.host.run(*limited, "--version", check=False).returncode != 0:
        pytest.skip("too little for Linux to load the program and its libraries")
    done = net.gwa.host.run(
        "timeout", "--kill-after=60", "10", *limited, "run", "--config", net.gwa.daemon.config,
        check=False,
    )  # fmt: skip
    said = done.stdout + done.stderr
    assert "panicked" not in said and "aborted" not in said.lower(), said
    if mib < 1024 and "culvert: ready" not in said:
        assert done.returncode == 1, (done.returncode, said)
        assert "ulimit -v" in said, said
    else:
        assert "culvert: ready" in said, (done.returncode, said)


def test_more_buffers_than_memory(network):
    net = network()
    daemon = net.gwa.daemon
    total = int(re.search(r"MemTotal:\s+(\d+)", Path("/proc/meminfo").read_text())[1]) // 1024
    if total > 4096:
        pytest.skip("the most buffers that can be configured fit in here")
    daemon.write_config('name = "@NAME@"\n[worker]\nframes = 1048576\nframe_bytes = 4096\n')
    done = net.gwa.host.run(culvert_binary(), "run", "--config", daemon.config, check=False)
    assert done.returncode == 1 and "worker.frames" in done.stderr, done


def test_vlan_tags_are_spoken_of_where_there_is_a_vlan(network):
    net = network()
    net.gwa.daemon.start()
    host, log = net.gwa.host, net.gwa.daemon.log
    assert "VLAN" not in log(), log()
    made = host.ip("link", "add", "link", "lan", "name", "lan.5", "type", "vlan", "id", "5", check=False)
    if made.returncode != 0:
        pytest.skip("the kernel has no VLANs")
    wait_for("the warning", lambda: "VLAN offload is on" in log())
    host.ip("link", "add", "link", "lan", "name", "lan.6", "type", "vlan", "id", "6")
    host.ip("link", "set", "dev", "lan.6", "up")
    time.sleep(0.5)
    assert log().count("VLAN offload is on") == 1
