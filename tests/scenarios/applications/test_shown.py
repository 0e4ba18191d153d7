"""Where applications are shown beside `culvert app`: in answers of `culvert why`, and in captures."""

import signal
import subprocess

from lab import topology as t
from lab.applications import apps, client_hello, nameless, send_stream, verdict
from lab.base import wait_for
from lab.planes import culvert_binary


def application(gateway, *args):
    """What `culvert why` says of the application of a packet from the client to the server."""
    answer = gateway.daemon.json("why", "--from", t.CLIENT4, "--to", t.SERVER4, "--in", "lan", *args)
    found = [step["answer"] for step in answer["steps"] if step["question"] == "application"]
    assert len(found) == 1, answer
    return found[0]


def test_in_why(network):
    net = network().up()
    gwa = net.gwa
    assert application(gwa, "--proto", "udp", "--dport", "9001") == "not known: the flow's first packets tell"
    assert application(gwa, "--proto", "udp", "--dport", "873") == "backup: an [[application]] is about such packets"
    mouth, _ = send_stream(net, 4431, client_hello("a.erp.example"))
    assert verdict(gwa, 4431)[0] == "erp"
    _, port = mouth.getsockname()
    of_flow = ("--proto", "tcp", "--sport", str(port), "--dport", "4431")
    assert application(gwa, *of_flow) == "erp: the flow is known"
    other = ("--proto", "tcp", "--sport", "1", "--dport", "4431")
    assert application(gwa, *other) == "erp: most likely, by earlier flows to the server; the flow's packets tell"


def test_in_captures(network):
    net = network().up()
    gwa = net.gwa
    nameless(net, 873)
    wait_for("its flow", lambda: apps(gwa).get("backup", {}).get("packets") == 5)
    path = gwa.host.lab.tmp / "applications.pcapng"
    capture = gwa.host.spawn(culvert_binary(), "--name", gwa.daemon.name, "capture", "-w", path, "--port", "873")
    wait_for("the capture", lambda: capture.alive() and path.exists())
    nameless(net, 873)
    wait_for("more of it", lambda: apps(gwa)["backup"]["packets"] == 10)
    capture.kill(signal.SIGINT)
    assert capture.wait() == 0, capture.output()
    fields = ["-T", "fields", "-e", "frame.interface_name", "-e", "frame.comment"]
    done = subprocess.run(["tshark", "-r", path, *fields], capture_output=True, text=True, check=True)
    plain = [line for line in done.stdout.splitlines() if line.startswith("plain")]
    assert len(plain) == 5 and all("application backup" in line for line in plain), done.stdout
    wire = [line for line in done.stdout.splitlines() if line.startswith("wire")]
    assert not any("application" in line for line in wire), done.stdout
