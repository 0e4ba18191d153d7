"""The impaired link does what its rules say, and the E-model gives the numbers of the recommendation."""

import pytest
from lab import Lab
from lab.emodel import mos, rating
from lab.impair import Impaired, Relay, Rule
from lab.traffic import ping

NEAR, FAR, OTHER = "198.51.100.1", "198.51.100.2", "203.0.113.2"


@pytest.fixture(name="link")
def fixture_link():
    """Two hosts with two networks on an impaired link: from, link."""
    lab = Lab("impair")
    try:
        a, mid, b = (lab.host(name) for name in ("a", "mid", "b"))
        lab.link(a, "wan", mid, "west")
        lab.link(mid, "east", b, "wan")
        a.address("wan", f"{NEAR}/24", "203.0.113.1/24")
        b.address("wan", f"{FAR}/24", f"{OTHER}/24")
        impaired = Impaired(mid)
        yield a, impaired
        impaired.close()
    finally:
        lab.close()


def test_frames_are_delayed_lost_and_cut_by_their_network(link):
    host, impaired = link
    assert ping(host, FAR, count=5, interval=0.02)["received"] == 5
    impaired.set({"net": "198.51.100.0/24", "delay_ms": 40})
    slow = ping(host, FAR, count=5, interval=0.02)["times"]
    assert len(slow) == 5 and all(0.08 <= seconds < 0.2 for seconds in slow), slow
    assert min(ping(host, OTHER, count=5, interval=0.02)["times"]) < 0.04
    impaired.set({"net": "198.51.100.0/24", "cut": True})
    assert ping(host, FAR, count=3, interval=0.02, wait=1)["received"] == 0
    assert ping(host, OTHER, count=3, interval=0.02)["received"] == 3
    impaired.set({"net": "0.0.0.0/0", "loss": 0.3})
    got = ping(host, FAR, count=100, interval=0.01, wait=1)["received"]
    # Both ways: 49 of 100 come back.
    assert 25 < got < 75, got


def test_order_is_kept_unless_asked_for():
    chance = type("Chance", (), {"random": iter([0.9, 0.1] * 2).__next__})()
    ordered, loose = (Rule("10.0.0.0/8", jitter_ms=10, reorder=reorder) for reorder in (False, True))
    assert ordered.due(1.0, chance) <= ordered.due(1.001, chance)
    assert loose.due(1.0, chance) > loose.due(1.001, chance)


def test_the_first_rule_about_a_frame_holds():
    relay = Relay.__new__(Relay)
    relay.rules = [Rule("10.1.0.0/16"), Rule("10.0.0.0/8"), Rule("2001:db8::/32")]
    ipv4 = bytes(12) + b"\x08\x00" + bytes(12) + bytes([10, 2, 0, 1, 10, 1, 0, 1])
    assert relay.rule_of(ipv4) is relay.rules[0]
    ipv6 = bytes(12) + b"\x86\xdd" + bytes(8) + bytes.fromhex("20010db8" + "00" * 12) + bytes(16)
    assert relay.rule_of(ipv6) is relay.rules[2]
    assert relay.rule_of(bytes(12) + b"\x08\x06" + bytes(28)) is None


def test_speech_by_the_e_model():
    # G.107 Annex B, table B.1: R 90 is 4.34, 80 is 4.03, 70 is 3.60, 60 is 3.10.
    assert rating(0, 0) == 93.2
    assert round(mos(0, 0), 2) == 4.41
    assert round(rating(150, 0), 1) == 89.6
    assert round(mos(150, 0), 1) == 4.3
    # Delay beyond 177.3 ms costs more.
    assert round(rating(400, 0), 2) == 59.1
    # 5 % of losses at random: 95 * 5 / 30.1.
    assert round(rating(0, 5), 2) == round(93.2 - 15.78, 2)
    assert mos(1000, 50) == 1.0
