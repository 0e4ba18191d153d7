"""`culvert why`, against what then happens on the wire."""

import json

from lab import topology as t
from lab.base import wait_for
from lab.capture import Capture, kinds
from lab.traffic import assert_ping, ping

BLOCKED = "10.2.0.77"


def why(gateway, *args, check=True):
    return gateway.daemon.culvert("why", *args, "--json", check=check)


def told(gateway, *args):
    return json.loads(why(gateway, *args).stdout)


def step(answer, question):
    return next(step for step in answer["steps"] if step["question"] == question)


def forth(*more):
    return "--from", t.CLIENT4, "--to", t.SERVER4, *more


def test_a_tunnel_from_before_it_is_there(network):
    net = network(start_action="trap").start()
    gwa = net.gwa
    # No policy is about it: Linux's.
    clear = told(gwa, "--from", t.CLIENT4, "--to", "198.51.100.9")
    assert clear["fate"] == "to-linux" and step(clear, "steering")["answer"].startswith("left to Linux")
    waits = told(gwa, *forth())
    assert waits["fate"] == "waits-for-sa", waits
    assert any("swanctl --initiate" in hint for hint in waits["hints"]), waits
    # Nobody has been asked for an SA, and nothing waits.
    assert gwa.daemon.json("sa") == [] and gwa.daemon.json("stats")["outcomes"]["held"] == 0

    assert_ping(net.client, t.SERVER4, count=3)
    def counted():
        packets = sum(policy["packets"] for policy in gwa.daemon.json("policy"))
        work = gwa.daemon.json("stats")["work"]
        return packets, work["encrypted"], work["acquires"], work["icmp-errors"], gwa.daemon.drops()

    answer = told(gwa, *forth("--proto", "tcp", "--dport", "443"))
    assert answer["fate"] == "protected" and answer["came"].startswith("received by port"), answer
    out = next(p for p in gwa.daemon.json("policy") if p["direction"] == "out" and p["dst"].startswith("10.2"))
    assert step(answer, "policy out")["policy"] == out["index"]
    [sa] = [sa for sa in gwa.daemon.json("sa") if sa["src"] == t.WAN_A4]
    assert step(answer, "SA")["spi"] == sa["spi"]
    assert step(answer, "route")["interface"] == step(answer, "neighbour")["interface"] == "wan"
    assert f"the path's {sa['path_mtu']}" in step(answer, "size")["answer"]
    # IKE goes past policies, both ways, and one would be of no use.
    for ends in (("--from", t.WAN_A4, "--to", t.WAN_B4), ("--from", t.WAN_B4, "--to", t.WAN_A4)):
        for port in ("500", "4500"):
            ike = told(gwa, *ends, "--proto", "udp", "--sport", port, "--dport", port)
            assert "key exchange" in step(ike, "policy")["answer"], ike
            assert not any("policy" in hint for hint in ike["hints"]), ike
    # Another's is as any packet.
    others = told(gwa, *forth("--proto", "udp", "--dport", "500"))
    assert others["fate"] == "protected", others
    # A port says no protocol, and is no code of a ping.
    for option in ("--dport", "--sport"):
        refused = gwa.daemon.culvert("why", *forth(option, "53"), check=False)
        assert refused.returncode == 1 and "add --proto tcp or --proto udp" in refused.stderr, refused
    # Neighbour discovery goes on, and charon puts up policies anew, which count from zero: asked again then.
    def counts_nothing():
        before = counted()
        told(gwa, *forth("--proto", "tcp", "--dport", "443"))
        return counted() == before

    wait_for("an answer for which nothing is counted", counts_nothing)

    # Too long, as a router tells it; the same MTU as `culvert sa` shows.
    long = told(gwa, *forth("--len", "1500", "--df"))
    assert (long["fate"], long["drop_reason"]) == ("answered", "out-too-big")
    assert f"{sa['inner_mtu']} bytes would fit" in long["verdict"], long

    # From the other side: what was decrypted is delivered, and what is not of the tunnel is not.
    back = ("--from", t.SERVER4, "--to", t.CLIENT4)
    [inbound] = [sa for sa in gwa.daemon.json("sa") if sa["dst"] == t.WAN_A4]
    assert told(gwa, *back, "--spi", inbound["spi"])["fate"] == "forwarded"
    forged = told(gwa, "--from", "198.51.100.7", "--to", t.CLIENT4, "--spi", inbound["spi"])
    assert forged["drop_reason"] == "in-policy"
    # In clear from outside: the policy wants it protected.
    clear = told(gwa, *back, "--in", "wan")
    assert clear["drop_reason"] == "in-cleartext", clear
    assert any("by its SA" in hint for hint in clear["hints"])
    assert clear["hints"][0].startswith("asked of a packet in clear on wan;") and inbound["spi"] in clear["hints"][0]


def test_a_policy_that_blocks_is_named_and_blocks(network):
    net = network().up()
    gwa = net.gwa
    gwa.daemon.exec(
        "ip", "xfrm", "policy", "add", "src", "10.1.0.0/24", "dst", f"{BLOCKED}/32", "dir", "out",
        "priority", "5", "action", "block",
    )  # fmt: skip
    net.server.address("eth0", f"{BLOCKED}/24")
    answer = told(gwa, "--from", t.CLIENT4, "--to", BLOCKED)
    assert answer["drop_reason"] == "out-policy-block", answer
    [index] = [p["index"] for p in gwa.daemon.json("policy") if p["action"] == "block"]
    says = step(answer, "policy out")
    assert says["policy"] == index and "before 1 that match too" in says["answer"], says
    wire = Capture(net.mid, "west")
    assert ping(net.client, BLOCKED, count=2)["received"] == 0
    assert not kinds(wire.stop()).get("esp")
    assert gwa.daemon.drops()["out-policy-block"] == 2


def test_questions_that_make_no_sense(network):
    gwa = network().up().gwa

    def refused(*args):
        done = why(gwa, *args, check=False)
        assert done.returncode == 1 and not done.stdout, done
        return done.stderr

    assert "different families" in refused("--from", t.CLIENT4, "--to", t.SERVER6)
    assert "there is no such interface" in refused(*forth("--in", "eth9"))
    assert "no inbound SA of the fast path has it" in refused(*forth("--spi", "0x7"))
    assert "--len 20: such a packet has 28 bytes at least" in refused(*forth("--len", "20"))
    assert "--mark" in refused(*forth("--mark", "7"))
    # For people: aligned, and the verdict behind.
    text = gwa.daemon.culvert("why", *forth("--proto", "udp", "--dport", "53")).stdout
    assert "=> protected, and sent by wan" in text and "\x1b" not in text, text
