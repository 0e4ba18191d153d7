"""Flows that culvert does not read, by nDPI in a process of its own: what it may, and what its end costs."""

import os
import signal
import socket
from pathlib import Path

from lab import topology as t
from lab.applications import apps, client_hello, nameless, send_stream, verdict
from lab.base import wait_for

CONFIG = (Path(__file__).parent / "gwa.culvert.toml").read_text()
WITH_NDPI = CONFIG.replace("enabled = true", "enabled = true\nndpi = true")
INVITE = b"INVITE sip:bob@b.example SIP/2.0\r\nVia: SIP/2.0/UDP a.example\r\n\r\n"


def ndpi(gateway):
    return gateway.daemon.json("app")["ndpi"]


def process(gateway):
    """The number of the process that asks nDPI; none if there is none."""
    children = Path(f"/proc/{gateway.daemon.process.pid}/task/{gateway.daemon.process.pid}/children").read_text().split()
    named = [pid for pid in map(int, children) if Path(f"/proc/{pid}/comm").read_text().strip() == "culvert-ndpi"]
    return named[0] if named else None


def send(net, port, payload):
    mouth = net.client.socket(socket.AF_INET, socket.SOCK_DGRAM)
    mouth.sendto(payload, (t.SERVER4, port))
    return mouth


def with_ndpi(network, **environment):
    net = network()
    net.gwa.daemon.write_config(WITH_NDPI)
    net.gwa.daemon.environment = environment
    net.up()
    return net


def test_protocols_that_culvert_does_not_read(network):
    net = with_ndpi(network)
    gwa = net.gwa
    wait_for("nDPI", lambda: ndpi(gwa)["version"])
    send(net, 9060, INVITE)
    assert verdict(gwa, 9060) == ("sip", None, "ndpi")
    send_stream(net, 9022, b"SSH-2.0-OpenSSH_9.2\r\n")
    assert verdict(gwa, 9022) == ("ssh", None, "ndpi")
    # A name is culvert's own to read, and so is an operator's rule.
    send_stream(net, 4431, client_hello("a.erp.example"))
    assert verdict(gwa, 4431) == ("erp", "a.erp.example", "tls-name")
    asked = ndpi(gwa)["asked"]
    nameless(net, 873)
    wait_for("a flow by a rule", lambda: apps(gwa).get("backup"))
    assert ndpi(gwa)["asked"] == asked
    nameless(net, 9001)
    wait_for("questions", lambda: ndpi(gwa)["asked"] >= asked + 5)
    text = gwa.daemon.culvert("app").stdout
    assert "nDPI 4.2" in text and "ndpi 1" in text, text
    metrics = gwa.daemon.culvert("metrics").stdout
    assert 'culvert_application_flows_total{application="sip",known_by="ndpi"}' in metrics
    assert 'culvert_ndpi_failures_total{kind="crash"} 0' in metrics

    # It has its queue, and nothing else.
    pid = process(gwa)
    status = Path(f"/proc/{pid}/status").read_text()
    for line in ("Seccomp:\t2", "NoNewPrivs:\t1", "Threads:\t1", "CapEff:\t0000000000000000", "CapPrm:\t0000000000000000"):
        assert line in status, status
    assert sorted(os.listdir(f"/proc/{pid}/fd")) == ["0", "1", "2"]
    gwa.daemon.stop()
    wait_for("its end", lambda: not Path(f"/proc/{pid}").exists())


def test_a_crash_and_a_hang_cost_its_answers_alone(network):
    net = with_ndpi(network)
    gwa = net.gwa
    wait_for("nDPI", lambda: ndpi(gwa)["version"])
    first = process(gwa)
    os.kill(first, signal.SIGABRT)
    wait_for("the crash", lambda: ndpi(gwa)["crashes"] == 1, 30)
    assert any("nDPI has crashed" in text for text in gwa.daemon.warnings())
    # Packets pass, and names are read.
    send_stream(net, 4431, client_hello("a.erp.example"))
    assert verdict(gwa, 4431) == ("erp", "a.erp.example", "tls-name")
    send(net, 9060, INVITE)
    wait_for("a question that is not asked", lambda: ndpi(gwa)["unasked"] >= 1)
    # Another process, which is made to hang.
    wait_for("another process", lambda: ndpi(gwa)["version"], 60)
    second = process(gwa)
    assert second != first and ndpi(gwa)["begun"] == 2
    assert not [text for text in gwa.daemon.warnings() if "nDPI" in text]
    os.kill(second, signal.SIGSTOP)
    send(net, 9061, INVITE)
    send_stream(net, 4432, client_hello("b.erp.example"))
    assert verdict(gwa, 4432) == ("erp", "b.erp.example", "tls-name")
    wait_for("the hang", lambda: ndpi(gwa)["hangs"] == 1, 30)
    assert "gave no answer" in ndpi(gwa)["trouble"] and not Path(f"/proc/{second}").exists()
    # The pause has doubled.
    wait_for("a third process", lambda: ndpi(gwa)["version"], 60)
    send(net, 9062, INVITE)
    assert verdict(gwa, 9062) == ("sip", None, "ndpi")


def test_without_the_library(network, tmp_path):
    (tmp_path / "libndpi.so.4.2").write_bytes(b"no library")
    os.chmod(tmp_path, 0o755)
    net = with_ndpi(network, LD_LIBRARY_PATH=str(tmp_path))
    gwa = net.gwa
    trouble = wait_for("trouble", lambda: ndpi(gwa)["trouble"])
    assert "libndpi.so.4.2" in trouble and trouble.endswith("apt install libndpi4.2"), trouble
    assert any("apt install libndpi4.2" in text for text in gwa.daemon.warnings())
    send_stream(net, 4431, client_hello("a.erp.example"))
    assert verdict(gwa, 4431) == ("erp", "a.erp.example", "tls-name")
    nameless(net, 9001)
    assert verdict(gwa, 9001) == ("unknown", None, "nothing")
    # What would be found before a start.
    culvert = lambda *args: gwa.daemon.host.run(  # noqa: E731
        "env", f"LD_LIBRARY_PATH={tmp_path}", gwa.daemon.program()[-1], *args, "--config", gwa.daemon.config, check=False
    )
    checked = culvert("check")
    assert checked.returncode == 0 and "applications.ndpi = true" in checked.stdout and "apt install libndpi4.2" in checked.stdout, checked
    doctor = culvert("doctor")
    assert "nDPI cannot be asked" in doctor.stdout, doctor.stdout
    # A rule about a protocol that nDPI alone tells.
    limit = '[[limit]]\nname = "calls"\napplication = "sip"\nrate = "1Mbit"\n'
    gwa.daemon.write_config(CONFIG + limit)
    refused = gwa.daemon.culvert("reload", check=False)
    assert refused.returncode == 1 and "ndpi = true in [applications]" in refused.stdout + refused.stderr, refused
    gwa.daemon.write_config(WITH_NDPI + limit)
    assert gwa.daemon.culvert("reload").returncode == 0
