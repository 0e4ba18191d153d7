"""The pure parts of the runner of DPDK's packet tests: configurations, and verdicts."""

import pytest

from dpdk.main import judge
from dpdk.secgw import Config, ConfigError

TUNNEL = """
#outer IPv4, inner IPv6
sp ipv6 out esp protect 9 pri 1 \\
src 1111::1/128 \\
dst 2222::1/128 \\
sport 0:65535 dport 0:65535
sp ipv6 in esp protect 10 pri 1 src 2222::1/128 dst 1111::1/128 sport 0:65535 dport 0:65535
sa out 9 cipher_algo null auth_algo null mode ipv4-tunnel src 192.168.11.1 dst 192.168.12.1
sa in 10 cipher_algo null auth_algo null mode ipv4-tunnel src 192.168.12.1 dst 192.168.11.1
rt ipv6 dst 1111::1/128 port 1
rt ipv4 dst 192.168.12.1/32 port 0
"""

TRANSPORT = """
sp ipv6 out esp protect 5 pri 1 src 1111::/64 dst 2222::/64 sport 0:65535 dport 0:65535
sa out 5 cipher_algo null auth_algo null mode transport
"""


def test_a_tunnel():
    config = Config(TUNNEL)
    assert [str(address) for address in config.own()] == ["192.168.11.1"]
    assert [(str(route.dst), route.port) for route in config.routes] == [
        ("1111::1/128", 1), ("192.168.12.1/32", 0),
    ]  # fmt: skip
    lines = config.batch().splitlines()
    assert lines[0].startswith(
        "xfrm state add src 192.168.11.1 dst 192.168.12.1 proto esp spi 9 reqid 9 mode tunnel "
    )
    assert lines[2] == (
        "xfrm policy add src 1111::1/128 dst 2222::1/128 dir out priority 999 "
        "tmpl src 192.168.11.1 dst 192.168.12.1 proto esp reqid 9 mode tunnel"
    )
    assert [line.split()[8] for line in lines[2:]] == ["out", "in", "fwd"]


def test_transport_mode_has_the_addresses_of_the_networks_hosts():
    config = Config(TRANSPORT)
    state, policy = config.batch().splitlines()
    assert state.startswith("xfrm state add src 1111::1 dst 2222::1 ")
    assert policy.endswith("tmpl proto esp reqid 5 mode transport")


@pytest.mark.parametrize(
    "line",
    [
        "sp ipv4 in esp bypass pri 1 sport 0:65535 dport 0:65535",
        "sp ipv4 out esp protect 5 pri 1 src 10.0.0.0/8 dst 10.0.0.0/8 sport 1:2 dport 0:65535",
        "sp ipv4 out esp protect 5 pri 1 src 1111::/64 dst 2222::/64",
        "sa out 5 cipher_algo aes-128-cbc auth_algo null mode transport",
        "sa out 5 aead_algo aes-128-gcm mode transport",
        "rt ipv4 dst 10.0.0.0/8 port 1 more",
        "neigh port 0 00:00:00:00:00:01",
    ],
)
def test_what_is_not_known_is_an_error(line):
    with pytest.raises(ConfigError):
        Config(line)


def verdict(outcome, why="", drops=()):
    excuses = [
        {"name": "one.*", "seen": "1 != 2", "reason": "r"},
        {"name": "two.a", "seen": "drop in-ecn", "reason": "r"},
    ]
    name = "two.a" if drops else "one.a"
    result = {"name": name, "outcome": outcome, "why": why, "drops": dict.fromkeys(drops, 1)}
    return judge(result, excuses)["verdict"]


def test_an_excuse_is_for_one_kind_of_failure():
    assert verdict("failed", "line 3: AssertionError: 1 != 2") == "skipped"
    assert verdict("failed", "line 3: AssertionError: 2 != 3") == "failed"
    assert verdict("failed", "line 3: TimeoutError: timed out", ["in-ecn"]) == "skipped"
    assert verdict("failed", "line 3: TimeoutError: timed out", ["no-route"]) == "failed"
    assert verdict("passed") == "passed"
