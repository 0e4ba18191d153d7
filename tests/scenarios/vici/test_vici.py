"""What culvert tells of connections that charon has configured."""

import re
import time
from pathlib import Path

from lab.base import wait_for

#: Two connections more: a peer that is not there, and one that only passes packets.
MORE = """
connections {
  spare {
    remote_addrs = 192.0.2.77
    local {
      auth = psk
      id = gwa.culvert.test
    }
    remote {
      auth = psk
      id = nobody.culvert.test
    }
    children {
      net {
        local_ts = 10.1.0.0/24
        remote_ts = 10.77.0.0/24
      }
      lan {
        mode = pass
        local_ts = 10.1.0.0/24
        remote_ts = 10.1.0.0/24
      }
      idle {
        local_ts = 10.1.0.0/24
        remote_ts = 10.78.0.0/24
      }
    }
  }
}
"""


def told(daemon):
    """By names which children are up; None where charon does not answer."""
    connections = daemon.json("status").get("connections")
    if not connections or not connections["reachable"]:
        return None
    return {f"{c['connection']}/{c['child']}": c["up"] for c in connections["children"]}


def metrics(daemon):
    """The lines about connections, of both text forms."""
    texts = [daemon.culvert("metrics", *how).stdout for how in ((), ("--openmetrics",))]
    first, second = ([line for line in text.splitlines() if re.match("culvert_(connection|vici)", line)] for text in texts)
    assert sorted(first) == sorted(second)
    series = {s["name"] for family in daemon.json("metrics") for s in family["samples"]}
    assert {line.split("{")[0].split(" ")[0] for line in first} == {n for n in series if re.match("culvert_(connection|vici)", n)}
    return sorted(first)


def filters(daemon, name):
    """How many seccomp filters each thread of a name has."""
    tasks = Path(f"/proc/{daemon.process.pid}/task").iterdir()
    named = [task for task in tasks if (task / "comm").read_text().strip() == name]
    return [int(re.search(r"^Seccomp_filters:\s+(\d+)", (task / "status").read_text(), re.M)[1]) for task in named]


def line(daemon):
    """The line of culvert status."""
    found = re.findall(r"^connections +(.*)$", daemon.culvert("status").stdout, re.M)
    return found[0] if found else None


def test_connections_are_told_by_name(network):
    net = network()
    daemon, swan = net.gwa.daemon, net.gwa.swan
    before = daemon.config.read_text()
    conf = swan.etc / "swanctl.conf"
    conf.write_text(conf.read_text() + MORE)
    net.up()
    assert line(daemon) is None and metrics(daemon) == []
    daemon.write_config(f'{before}\n[vici]\nsocket = "{swan.vici}"\nleave_out = ["spare/idle"]\n')
    daemon.reload()
    wait_for("an answer of charon", lambda: told(daemon))
    assert told(daemon) == {"gw/net": True, "spare/net": False}
    assert re.fullmatch(r"1 of 2 up: spare/net is down since \d\d:\d\d UTC", line(daemon)), line(daemon)
    up = 'culvert_connection_up{connection="%s",child="net"} %d'
    assert metrics(daemon) == [up % ("gw", 1), up % ("spare", 0), "culvert_vici_reachable 1"]
    [of_all] = filters(daemon, "culvert")
    assert filters(daemon, "culvert-vici") == [of_all + 1]
    [since] = [c["down_since_ms"] for c in daemon.json("status")["connections"]["children"] if not c["up"]]
    assert abs(time.time() * 1000 - since) < 120_000

    # A rekeying is no outage, and a deletion is one.
    swan.rekey(child="net")
    wait_for("a second SA", lambda: len(swan.children("net")) == 1)
    swan.terminate(child="net")
    wait_for("gw/net down", lambda: told(daemon) == {"gw/net": False, "spare/net": False})
    assert line(daemon).startswith("0 of 2 up: gw/net is down since "), line(daemon)
    children = daemon.json("status")["connections"]["children"]
    assert [c["down_since_ms"] for c in children if c["connection"] == "spare"] == [since]

    # Who is not there says nothing of children.
    swan.stop()
    # Before what it said last is too old to be told in any case.
    wait_for("charon away", lambda: told(daemon) is None, timeout=60)
    assert metrics(daemon) == ["culvert_vici_reachable 0"]
    assert line(daemon).startswith(f"not known: charon at {swan.vici}: "), line(daemon)

    # A mistake in the file changes nothing, and without the table nobody asks.
    daemon.write_config(f'{before}\n[vici]\nsocket = "charon.vici"\n')
    assert 'vici.socket = "charon.vici"' in daemon.reload()
    assert line(daemon).startswith("not known")
    daemon.write_config(before)
    daemon.reload()
    assert line(daemon) is None and metrics(daemon) == []
    wait_for("the end of the thread", lambda: not filters(daemon, "culvert-vici"))
