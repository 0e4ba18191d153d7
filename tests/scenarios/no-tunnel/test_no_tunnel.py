"""What `culvert status` and `culvert sa` say where there is no tunnel."""

import json

from lab import topology as t
from lab.base import wait_for
from lab.swan import Swan
from lab.traffic import ping


def tunnels(gateway):
    return gateway.daemon.json("status")["tunnels"]


def first_lines(gateway):
    """The second and third line of `culvert status`, and all of `culvert sa`."""
    lines = gateway.daemon.culvert("status").stdout.splitlines()
    assert lines[0].startswith("instance "), lines
    assert lines[1].startswith("tunnels "), lines
    return "\n".join(lines[1:3]), gateway.daemon.culvert("sa").stdout


def told(gateway, *words):
    """Waits until both commands say these words; neither may advise what was done."""

    def says():
        texts = first_lines(gateway)
        return all(word in text for word in words for text in texts) and texts

    return wait_for(f"{words} of {gateway.host.name}", says, step=0.3)


def test_from_no_ike_daemon_to_a_tunnel(network):
    net = network()
    gateway = net.gwa
    gateway.daemon.start()
    told(gateway, "no IKE daemon is connected", f"culvert exec --name {gateway.daemon.name} -- ")
    gateway.swan.start(load=False)
    status, sas = told(gateway, "set none up", "swanctl --load-all")
    assert "culvert exec" not in status + sas
    gateway.swan.load()
    net.gwb.start()
    gateway.swan.initiate()
    assert tunnels(gateway)["up"] == 1
    assert "tunnels    1 up" in gateway.daemon.culvert("status").stdout


def test_charon_past_culvert(network):
    net = network()
    gateway = net.gwa
    gateway.daemon.start()
    swan, past = gateway.swan, Swan(gateway.host)
    past.vici, past.log, past.etc = swan.vici, swan.log, swan.etc
    past.start(load=False)
    pid = past.process.pid
    texts = told(gateway, f"charon-systemd (process {pid}", "runs past culvert", f"kill {pid}, then: culvert exec")
    assert "no IKE daemon" not in "".join(texts)
    report = gateway.daemon.culvert("doctor", "--config", gateway.daemon.config, "--json", check=False).stdout
    seen = [row["seen"] for row in json.loads(report) if row["check"] == "ike"]
    assert any("runs past culvert" in text for text in seen), seen
    # A second one beside it is started with a word: here one that ends at once.
    second = gateway.host.lab.tmp / "charon-systemd"
    second.write_text("#!/bin/sh\n")
    second.chmod(0o755)
    warned = gateway.daemon.exec(second).stderr
    assert f"charon-systemd (process {pid}" in warned and "runs in this network namespace already" in warned, warned
    past.stop()


def test_a_silent_peer(network):
    """Nobody answers IKE: a packet asks for SAs, and none comes."""
    net = network(start_action="trap")
    gateway = net.gwa
    gateway.start()
    told(gateway, "wait for their first packet")
    ping(net.client, t.SERVER4, count=2)
    texts = told(gateway, "none has come", "does not answer")
    policy = next(p for p in gateway.daemon.json("policy") if p["direction"] == "out" and "10.2" in p["dst"])
    assert all(f"policy {policy['index']} (10.1.0.0/24 > 10.2.0.0/24" in text for text in texts), texts
    assert "culvert exec" not in "".join(texts)
    assert f"\n{policy['index']:>5}  out" in gateway.daemon.culvert("policy").stdout


def test_a_wrong_secret(network):
    """The peer answers, and refuses: charon gives up the SPI that it has reserved."""
    net = network(start_action="trap")
    secret = net.gwb.swan.etc / "swanctl.conf"
    secret.write_text(secret.read_text().replace("a secret for tests only", "another secret"))
    net.start()
    ping(net.client, t.SERVER4, count=2)
    status, sas = told(net.gwa, f"gave up with {t.WAN_B4}", "secret, identity")
    assert "culvert exec" not in status + sas and "does not answer" not in status + sas


def test_a_command_right_after_the_start(network):
    """The first command waits for a daemon that was started just before it."""
    net = network()
    gateway = net.gwa
    gateway.daemon.spawn()
    done = gateway.daemon.culvert("status", check=False)
    assert done.returncode == 0, done.stderr
    assert "os error" not in done.stderr, done.stderr
