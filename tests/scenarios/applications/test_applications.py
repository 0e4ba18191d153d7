"""Applications of flows, by what real programs send."""

import socket
import struct
from pathlib import Path

import pytest

from lab import topology as t
from lab.applications import apps, client_hello, nameless, send_stream, verdict
from lab.base import wait_for

VECTORS = Path(__file__).resolve().parents[3] / "crates/apps/tests/vectors"
ECH = 0xFE0D


def message(number, name, address=None):
    """A DNS query for an A record, or the answer."""
    labels = b"".join(bytes([len(label)]) + label.encode() for label in name.split("."))
    head = struct.pack(">6H", number, 0x8180 if address else 0x0100, 1, 1 if address else 0, 0, 0)
    record = b"\xc0\x0c" + struct.pack(">HHIH", 1, 1, 300, 4) + socket.inet_aton(address) if address else b""
    return head + labels + b"\x00\x00\x01\x00\x01" + record


@pytest.fixture
def resolver(network):
    net = network().up()
    ear = net.server.socket(socket.AF_INET, socket.SOCK_DGRAM)
    ear.bind((t.SERVER4, 53))
    ear.settimeout(5)
    return net, ear


def ask(net, ear, name, answers):
    """The client asks the server for a name, and gets these answers to number 7."""
    mouth = net.client.socket(socket.AF_INET, socket.SOCK_DGRAM)
    mouth.settimeout(5)
    mouth.sendto(message(7, name), (t.SERVER4, 53))
    _, who = ear.recvfrom(512)
    for answer in answers:
        ear.sendto(answer, who)
        mouth.recv(512)


def with_extension(record, kind, content):
    """The same with one more extension."""
    extension = struct.pack(">HH", kind, len(content)) + content
    at = 5 + 4 + 2 + 32
    at += 1 + record[at]
    at += 2 + int.from_bytes(record[at : at + 2], "big")
    at += 1 + record[at]
    grown = bytearray(record + extension)
    for place, size in ((3, 2), (6, 3), (at, 2)):
        length = int.from_bytes(grown[place : place + size], "big") + len(extension)
        grown[place : place + size] = length.to_bytes(size, "big")
    return bytes(grown)


def test_programs_are_told_apart(network, tmp_path):
    net = network().up()
    gwa = net.gwa
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    net.server.run("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=erp.example",
                   "-keyout", key, "-out", certificate)  # fmt: skip
    net.server.spawn("openssl", "s_server", "-accept", f"{t.SERVER4}:443", "-cert", certificate, "-key", key, "-www")
    net.server.spawn("python3", "-m", "http.server", "80", "--bind", t.SERVER4)
    reach = lambda port, *args: net.client.run(  # noqa: E731
        "curl", "-sSk", "-o", "/dev/null", "--connect-to", f"::{t.SERVER4}:{port}", *args, check=False
    ).returncode == 0
    wait_for("a page by TLS", lambda: reach(443, "https://www.ERP.example/"))
    assert verdict(gwa, 443) == ("erp", "www.erp.example", "tls-name")
    wait_for("a page in clear", lambda: reach(80, "http://pages.example/"))
    assert verdict(gwa, 80) == ("http", "pages.example", "http-host")

    # Both directions count, from the verdict on those that were not looked at.
    erp = apps(gwa)["erp"]
    assert erp["flows"] >= 1 and erp["packets"] > 4 and erp["bytes"] > 1000, erp
    metrics = gwa.daemon.culvert("metrics").stdout
    assert 'culvert_application_flows_total{application="erp",known_by="tls-name"}' in metrics
    assert 'culvert_application_bytes_total{application="http"}' in metrics
    text = gwa.daemon.culvert("app").stdout
    assert "tls-name" in text and "erp" in text, text


def test_names_are_put_together(network):
    net = network().up()
    gwa = net.gwa
    hello = client_hello("a.erp.example")
    send_stream(net, 4431, hello, cuts=(3, 60, 200))
    assert verdict(gwa, 4431) == ("erp", "a.erp.example", "tls-name")
    # An encrypted ClientHello shows the name of a network; GREASE shows the host's own.
    ech = bytes([0, 0, 1, 0, 1, 42, 0, 32]) + bytes(32) + bytes([0, 16]) + bytes(16)
    send_stream(net, 4432, with_extension(client_hello("cloudflare-ech.com"), ECH, ech))
    assert verdict(gwa, 4432) == ("hidden", "cloudflare-ech.com", "encrypted-hello")
    send_stream(net, 4433, with_extension(client_hello("b.erp.example"), ECH, ech))
    assert verdict(gwa, 4433) == ("erp", "b.erp.example", "tls-name")
    for port, name in ((4434, "quic-v1-initial"), (4435, "quic-v2-initial")):
        lines = (VECTORS / f"{name}.hex").read_text().splitlines()
        packet = bytes.fromhex("".join(line for line in lines if not line.startswith("#")))
        net.client.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(packet, (t.SERVER4, port))
        assert verdict(gwa, port) == ("quic", "example.com", "quic-name")


def test_answers_and_rules(resolver):
    net, ear = resolver
    gwa = net.gwa
    # A made-up answer, with another number.
    ask(net, ear, "erp.example", [message(8, "erp.example", t.SERVER4)])
    assert verdict(gwa, 53) == ("dns", "erp.example", "dns-question")
    wait_for("the answer", lambda: gwa.daemon.json("app")["strange_answers"] == 1)
    assert gwa.daemon.json("app")["answers"] == 0
    nameless(net, 9001)
    assert verdict(gwa, 9001) == ("unknown", None, "nothing")
    # The real one, and another made-up one behind it.
    good = message(7, "erp.example", t.SERVER4)
    ask(net, ear, "erp.example", [good, message(7, "erp.example", "10.2.0.99")])
    wait_for("the answers", lambda: gwa.daemon.json("app")["strange_answers"] == 2)
    assert gwa.daemon.json("app")["answers"] == 1
    nameless(net, 9002)
    assert verdict(gwa, 9002) == ("erp", None, "dns-answer")

    # What the operator says needs no look.
    nameless(net, 873)
    nameless(net, 9003, tos=46 << 2)
    by_rule = lambda name: apps(gwa).get(name, {}).get("known_by", {}).get("rule")  # noqa: E731
    wait_for("flows by rules", lambda: (by_rule("backup"), by_rule("voice")) == (1, 1))
    assert apps(gwa)["backup"]["packets"] == 5
    recent = gwa.daemon.json("app", "--recent", "200")["recent"]
    assert not [flow for flow in recent if flow["server_port"] in (873, 9003)], recent

    # By flow.
    process = net.client.spawn("ping", "-q", "-i", "0.02", "-c", "100", "-Q", str(46 << 2), t.SERVER4)
    flows = gwa.daemon.json("flows", "--interval", "0.5")["flows"]
    process.wait()
    pings = [flow for flow in flows if flow["dst"] == t.SERVER4 and flow["protocol"] == 1]
    assert [flow["application"] for flow in pings] == ["voice"], flows


def test_changes_and_restarts(resolver):
    net, ear = resolver
    gwa = net.gwa
    ask(net, ear, "erp.example", [message(7, "erp.example", t.SERVER4)])
    nameless(net, 9002)
    assert verdict(gwa, 9002)[0] == "erp"
    # Other applications.
    config = (Path(__file__).parent / "gwa.culvert.toml").read_text()
    gwa.daemon.write_config(config.replace('"erp"', '"shop"').replace("erp.example", "shop.example"))
    gwa.daemon.reload()
    send_stream(net, 4431, client_hello("www.shop.example"))
    assert verdict(gwa, 4431)[0] == "shop"
    assert "erp" not in apps(gwa)
    wrong = config.replace("ports = [873]", 'ports = ["9-1"]')
    gwa.daemon.write_config(wrong)
    refused = gwa.daemon.culvert("reload", check=False)
    assert refused.returncode == 1 and "is no range of ports" in refused.stdout + refused.stderr, refused
    gwa.daemon.write_config(config)
    gwa.daemon.kill9()
    gwa.daemon.start()
    wait_for("nothing that was learnt", lambda: gwa.daemon.json("app")["applications"] == [])

    def is_known():
        send = net.client.socket(socket.AF_INET, socket.SOCK_DGRAM)
        send.sendto(message(9, "again.example"), (t.SERVER4, 53))
        return apps(gwa).get("dns")

    wait_for("recognition", is_known)

    # The thread, as it is confined: no other program, no file, no socket.
    tasks = Path(f"/proc/{gwa.daemon.process.pid}/task").iterdir()
    [task] = [task for task in tasks if (task / "comm").read_text().strip() == "culvert-apps"]
    assert "Seccomp:\t2" in (task / "status").read_text()

    # Without applications nothing is looked at.
    gwa.daemon.write_config(config.replace("enabled = true", "enabled = false"))
    gwa.daemon.reload()
    assert gwa.daemon.json("app")["enabled"] is False
    assert "[applications]" in gwa.daemon.culvert("app").stdout
