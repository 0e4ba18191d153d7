"""`culvert events`, against what is done to a tunnel meanwhile."""

import json
import re

from lab import topology as t
from lab.base import wait_for
from lab.planes import culvert_binary
from lab.traffic import assert_ping, ping

BLOCKED = "10.2.0.77"


class Follower:
    """`culvert events --json`, running."""

    def __init__(self, gateway, *args):
        name = gateway.daemon.name
        self.process = gateway.host.spawn(culvert_binary(), "--name", name, "events", "--json", *args)

    def events(self):
        return [json.loads(line) for line in self.process.output().splitlines() if line.startswith("{")]

    def kinds(self):
        return [event["event"] for event in self.events()]

    def wait(self, kind, count=1):
        wait_for(f"{count} {kind}", lambda: self.kinds().count(kind) >= count)
        return [event for event in self.events() if event["event"] == kind]


def test_the_life_of_a_tunnel(network):
    net = network(start_action="trap").start()
    gwa = net.gwa
    follower = Follower(gwa)
    assert {event["port"] for event in follower.wait("port-up", 2)} == {"lan", "wan"}
    # A packet asks for it.
    assert_ping(net.client, t.SERVER4, count=3)
    [acquire, *_] = follower.wait("acquire")
    assert (acquire["src"], acquire["dst"], acquire["protocol"]) == (t.CLIENT4, t.SERVER4, "icmp")
    up = follower.wait("sa-up", 2)
    shown = {sa["spi"]: sa for sa in gwa.daemon.json("sa")}
    assert {event["spi"] for event in up} == set(shown)
    for event in up:
        sa = shown[event["spi"]]
        assert [event[key] for key in ("src", "dst", "suite", "reqid")] == [
            sa[key] for key in ("src", "dst", "suite", "reqid")
        ]
    # Another pair takes its place.
    gwa.swan.rekey(child="net")
    rekeyed = follower.wait("sa-rekeyed", 2)
    assert not {event["spi"] for event in rekeyed} & set(shown)
    assert {event["spi"] for event in follower.wait("sa-removed", 2)} == set(shown)
    assert_ping(net.client, t.SERVER4, count=3)
    gwa.swan.terminate(ike="gw")
    assert {event["spi"] for event in follower.wait("sa-down", 2)} == {e["spi"] for e in rekeyed}

    # A later client is told the same, each once and in order.
    numbers = [event["number"] for event in follower.events()]
    assert numbers == list(range(1, len(numbers) + 1))
    later = gwa.daemon.culvert("events", "--once", "--json").stdout.splitlines()
    assert [json.loads(line) for line in later][: len(numbers)] == follower.events()
    text = gwa.daemon.culvert("events", "--once").stdout
    assert f"sa-rekeyed       {rekeyed[0]['src']} > {rekeyed[0]['dst']} spi {rekeyed[0]['spi']}" in text, text
    assert "\x1b" not in text
    # A port that is taken out of the configuration.
    config = gwa.daemon.config.read_text()
    without, found = re.subn(r'\[\[port\]\]\ninterface = "lan"\n((mode|kind) = "\w+")?\n', "", config)
    assert found == 1, config
    gwa.daemon.write_config(without)
    gwa.daemon.reload()
    [down] = follower.wait("port-down")
    assert down["port"] == "lan", down
    # Who follows outlives a daemon.
    gwa.daemon.stop()
    gwa.daemon.start()
    assert {event["port"] for event in follower.wait("port-up", 3)} == {"lan", "wan"}
    assert follower.events()[-1]["number"] == 1


def test_an_sa_that_expires_is_told_from_one_that_is_deleted(network):
    gwa = network().start().gwa
    follower = Follower(gwa)
    ends = ("src", t.WAN_A4, "dst", t.WAN_B4, "proto", "esp")

    def add(spi, *limit):
        key = ("aead", "rfc4106(gcm(aes))", "0x" + "5a" * 20, "128")
        gwa.daemon.exec("ip", "xfrm", "state", "add", *ends, "spi", spi, "mode", "tunnel", "reqid", "77", *key, *limit)

    def why(kind, spi):
        wait_for(f"{kind} of {spi}", lambda: [e for e in follower.events() if (e["event"], e.get("spi")) == (kind, spi)])
        [event] = [e for e in follower.events() if (e["event"], e.get("spi")) == (kind, spi)]
        return event["why"]

    add("0x00001001", "limit", "time-hard", "1")
    add("0x00001002")
    assert why("sa-removed", "0x00001001") == "expired"
    gwa.daemon.exec("ip", "xfrm", "state", "delete", *ends, "spi", "0x1002")
    assert why("sa-down", "0x00001002") == "deleted"
    text = gwa.daemon.culvert("events", "--once").stdout
    [removed] = [line for line in text.splitlines() if "sa-removed" in line]
    [down] = [line for line in text.splitlines() if "sa-down" in line]
    assert removed.endswith("reqid 77, expired") and down.endswith("reqid 77"), text


def test_a_burst_of_drops_begins_and_ends(network):
    net = network().up()
    gwa = net.gwa
    follower = Follower(gwa, "--new")
    gwa.daemon.exec(
        "ip", "xfrm", "policy", "add", "src", "10.1.0.0/24", "dst", f"{BLOCKED}/32", "dir", "out",
        "priority", "5", "action", "block",
    )  # fmt: skip
    # A few are no news.
    assert ping(net.client, BLOCKED, count=20)["received"] == 0
    assert ping(net.client, BLOCKED, count=1000, interval=0.001)["received"] == 0
    [burst] = follower.wait("drop-burst")
    assert burst["reason"] == "out-policy-block" and burst["packets"] >= 100, burst
    [over] = follower.wait("drop-burst-over")
    assert 900 <= over["packets"] <= gwa.daemon.drops()["out-policy-block"], over
    assert "sa-up" not in follower.kinds(), "what was before is not told"


def test_without_a_daemon(network):
    gwa = network().start().gwa
    done = gwa.daemon.host.run(culvert_binary(), "--name", "nobody", "events", check=False)
    assert done.returncode == 1 and "culvert run" in done.stderr, done
