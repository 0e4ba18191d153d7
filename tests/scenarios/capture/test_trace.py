"""`culvert trace`, against `culvert why` and what is done."""

import json

from lab import topology as t
from lab.base import wait_for
from lab.planes import culvert_binary
from lab.traffic import assert_ping, ping

BLOCKED = "10.2.0.77"


class Tracing:
    """`culvert trace --json`, running."""

    def __init__(self, gateway, *args):
        name = gateway.daemon.name
        self.process = gateway.host.spawn(culvert_binary(), "--name", name, "trace", "--json", *args)
        self.process.wait_output("waiting for packets")

    def packets(self, count):
        def come():
            lines = [line for line in self.process.output().splitlines() if line.startswith("{")]
            return lines if len(lines) >= count else None

        return [json.loads(line) for line in wait_for(f"{count} packets", come)]


def traced(gateway, host, dst, *args, count):
    """Traces while a host pings."""
    tracing = Tracing(gateway, "-c", count, *args)

    def enough():
        ping(host, dst, count=1)
        return not tracing.process.alive()

    wait_for("as many packets as asked for", enough)
    assert tracing.process.wait() == 0, tracing.process.output()
    return tracing.packets(count)


def step(packet, question):
    return next(step for step in packet["steps"] if step["question"] == question)


def test_live_packets_are_explained(network):
    net = network().up()
    gwa = net.gwa
    assert_ping(net.client, t.SERVER4, count=1)
    flow = ("--from", t.CLIENT4, "--to", t.SERVER4)
    packets = traced(gwa, net.client, t.SERVER4, *flow, "--tap", "plain", count=3)
    assert len(packets) == 3
    why = json.loads(gwa.daemon.culvert("why", *flow, "--in", "lan", "--json").stdout)
    for packet in packets:
        assert packet["fate"] == "protected" and packet["came"] == "received by lan", packet
        for question in ("policy out", "SA"):
            same = {key: step(packet, question).get(key) for key in ("policy", "spi")}
            assert same == {key: step(why, question).get(key) for key in ("policy", "spi")}, packet
        assert step(packet, "route")["interface"] == "wan"
    # The other way: the SA that decrypts, then what is inside.
    back = traced(gwa, net.client, t.SERVER4, "--from", t.SERVER4, count=2)
    assert [(p["tap"], p["fate"]) for p in back] == [("wire", "decrypted"), ("plain", "sent")], back
    [inbound] = [sa for sa in gwa.daemon.json("sa") if sa["dst"] == t.WAN_A4]
    assert step(back[0], "SA")["spi"] == inbound["spi"]
    assert step(back[1], "policy fwd")["policy"], back

    gwa.daemon.exec(
        "ip", "xfrm", "policy", "add", "src", "10.1.0.0/24", "dst", f"{BLOCKED}/32", "dir", "out",
        "priority", "5", "action", "block",
    )  # fmt: skip
    [dropped] = traced(gwa, net.client, BLOCKED, "--reason", "out-policy-block", count=1)
    assert dropped["drop_reason"] == "out-policy-block" and "10.2.0.77" in step(dropped, "policy out")["answer"]
    # For people.
    done = gwa.daemon.culvert("trace", "--duration", "0")
    assert done.stdout == "" and done.returncode == 0


def test_a_packet_that_waits_says_for_what(network):
    net = network(start_action="trap").start()
    [packet] = traced(net.gwa, net.client, t.SERVER4, "--to", t.SERVER4, "-i", "lan", count=1)
    assert packet["fate"] == "held" and "the IKE daemon is asked for an SA" in packet["verdict"], packet
