"""`culvert reload` and SIGHUP, with configurations that are right, wrong, and refused by a driver."""

import json

import pytest
from lab import topology as t
from lab.base import wait_for
from lab.planes import culvert_binary
from lab.traffic import Stream, assert_perfect, assert_ping

LIMIT = '[[limit]]\nname = "site"\nrate = "900Mbit"\nall = true\n'
TUNNEL = '[[tunnel]]\ninterface = "ipsec9"\nif_id = 9\n'


def port(name, more=""):
    return f'[[port]]\ninterface = "{name}"\n{more}'


BOTH = port("wan") + port("lan")

#: Half of each would do, and did once. What is wrong, and the keys of the problems.
WRONG = {
    "workers-and-too-many-ports": (
        BOTH + "".join(port(f"p{n}") for n in range(2, 65)) + "[worker]\ncpus = 1\n",
        ["port[64].interface"],
    ),
    "a-core-and-a-port": (port("wan") + port("lann") + "[worker]\ncpus = [0, 999]\n", ["port[1].interface", "worker.cpus"]),
    "a-port-that-works-by-a-slip": (port("wan") + port("lann"), ["port[1].interface"]),
    "a-core-and-a-limit": (BOTH + LIMIT + "[worker]\ncrypto_cpus = [955]\n", ["worker.crypto_cpus"]),
    "a-tunnel-and-no-toml": (BOTH + TUNNEL + "[guard\n", [""]),
    "a-tunnel-and-an-unknown-key": (BOTH + TUNNEL + "[guard]\nprefxes = []\n", ["guard.prefxes"]),
    "frames-of-the-running-daemon": (BOTH + TUNNEL + "[worker]\ncpus = 64\nframes = 65536\n", ["worker.frames"]),
}


def reload(daemon, *options):
    return daemon.culvert("reload", *options, check=False)


def state(daemon):
    """All that a reload can change."""
    status = daemon.json("status")
    # The private interface keeps the queues of workers that have gone; packet sockets are as many as workers were when they opened.
    queues = {p["interface"]: p["queues"] for p in daemon.json("port") if p["kind"] not in ("tun", "packet")}
    ports = [(p["interface"], p["kind"], p["state"], queues.get(p["interface"])) for p in daemon.json("port")]
    links = [(link["ifname"], link["mtu"]) for link in json.loads(daemon.host.ip("-j", "link").stdout)]
    return status["workers"], ports, daemon.json("limit", "show"), links


def series(daemon, name):
    lines = daemon.culvert("metrics").stdout.splitlines()
    return next(float(line.split()[-1]) for line in lines if line.split(" ")[0] == name)


def events(daemon):
    lines = daemon.culvert("events", "--json", "--once").stdout.splitlines()
    return [json.loads(line) for line in lines if line.startswith("{")]


def write(daemon, text):
    daemon.write_config('name = "@NAME@"\n' + text)


def test_what_is_wrong_changes_nothing(network):
    net = network().up()
    daemon = net.gwa.daemon
    write(daemon, BOTH)
    assert reload(daemon).returncode == 0
    before = state(daemon)
    stream = Stream(net.client, net.server, t.SERVER4, rate=100, count=0)
    for number, (case, (text, keys)) in enumerate(WRONG.items(), 1):
        write(daemon, text)
        done = reload(daemon)
        assert done.returncode == 1 and not done.stdout, (case, done)
        lines = done.stderr.splitlines()
        assert lines[-1] == "configuration not reloaded: nothing was changed", (case, lines)
        for key in keys:
            assert key in done.stderr and f"\n{daemon.config}:" in done.stderr, (case, done.stderr)
        count = f"{len(keys)} problem{'s' if len(keys) > 1 else ''}"
        assert f"configuration not reloaded: {count}, nothing was changed" in daemon.log().splitlines()[-1], (case, daemon.log()[-600:])
        assert state(daemon) == before, case
        # The same by JSON, and by a signal.
        done = reload(daemon, "--json")
        said = json.loads(done.stdout)
        assert done.returncode == 1 and said["reloaded"] is False, (case, said)
        assert [p["key"] for p in said["problems"]] == keys, (case, said)
        assert "configuration not reloaded" in daemon.reload()
        assert state(daemon) == before, case
        told = daemon.json("status")["configuration"]
        assert told["refused"] == 3 * number and told["refusal"]["why"], (case, told)
        [warning] = [w for w in daemon.json("status")["warnings"] if "was not reloaded" in w]
        assert (keys[0] or "no TOML") in warning, warning
        assert series(daemon, "culvert_config_last_reload_successful") == 0
    assert "not reloaded at" in daemon.culvert("status").stdout
    assert_perfect(stream.finish())
    assert [e["event"] for e in events(daemon)].count("reload-refused") == 3 * len(WRONG)
    # What is right is taken, and nothing is remembered.
    write(daemon, BOTH + LIMIT)
    done = reload(daemon)
    assert done.returncode == 0 and done.stdout.splitlines()[-1] == "configuration reloaded", done
    assert [limit["name"] for limit in daemon.json("limit", "show")] == ["site"]
    assert not [w for w in daemon.json("status")["warnings"] if "reloaded" in w]
    assert series(daemon, "culvert_config_last_reload_successful") == 1
    assert series(daemon, 'culvert_config_reloads_total{result="refused"}') == 3 * len(WRONG)
    assert_ping(net.client, t.SERVER4, count=3)


#: What a reload may change while packets pass: no port is opened anew by these.
TAKEN = [
    LIMIT,
    "[worker]\ncpus = 2\n",
    TUNNEL,
    TUNNEL + "[worker]\ncpus = 3\ncrypto_cpus = [0]\n",
    '[guard]\nprefixes = ["10.99.0.0/16"]\n',
    '[[mark]]\ndscp = 46\nmark = 7\n',
    '[[sid]]\nprefix = "fc00:1::1/128"\naction = "End"\n',
    "[path_mtu]\nlifetime_s = 300\n",
    '[applications]\nenabled = true\n' + LIMIT,
    "",
]


def test_what_is_taken_loses_no_packet(network):
    net = network().up()
    daemon = net.gwa.daemon
    write(daemon, BOTH)
    assert reload(daemon).returncode == 0
    stream = Stream(net.client, net.server, t.SERVER4, rate=200, count=0)
    for text in TAKEN:
        write(daemon, BOTH + text)
        done = reload(daemon)
        assert done.returncode == 0, (text, done)
    assert_perfect(stream.finish())
    assert daemon.stats()["balance"] == 0


def without_native_xdp(host):
    """An interface whose driver has no native XDP."""
    for kind in ("dummy", "bridge", "ifb"):
        if host.ip("link", "add", "odd0", "type", kind, check=False).returncode == 0:
            host.ip("link", "set", "dev", "odd0", "up")
            return
    pytest.skip("the kernel has none of the kinds of interfaces that have no native XDP")


@pytest.mark.parametrize("before", ["", TUNNEL.replace("ipsec9", "ipsec8").replace("= 9", "= 8")], ids=["none", "tunnel"])
def test_what_a_driver_refuses_is_undone(network, before):
    net = network().up()
    host, daemon = net.gwa.host, net.gwa.daemon
    without_native_xdp(host)
    write(daemon, BOTH + before + "[worker]\ncpus = 2\n")
    assert reload(daemon).returncode == 0
    if before:
        host.address("ipsec8", "10.8.0.1/30")
    stood = state(daemon)
    # It comes after a tunnel interface and workers that would do.
    write(daemon, BOTH + port("odd0", 'mode = "native"\n') + TUNNEL + "[worker]\ncpus = 3\n" + LIMIT)
    done = reload(daemon)
    assert done.returncode == 1, done
    last = done.stderr.splitlines()[-1]
    assert "configuration not reloaded: port odd0: " in last and last.endswith("; everything is as before"), last
    wait_for("the ports", lambda: state(daemon) == stood)
    assert "configuration not reloaded: port odd0" in daemon.log()
    assert "ipsec9" not in host.ip("-o", "link").stdout
    if before:
        assert "10.8.0.1" in host.ip("address", "show", "dev", "ipsec8").stdout
    assert_ping(net.client, t.SERVER4, count=3)
    assert daemon.stats()["balance"] == 0


def test_keys_that_wait_for_a_restart_are_named(network):
    net = network().up()
    daemon = net.gwa.daemon
    write(daemon, BOTH)
    assert reload(daemon).returncode == 0
    write(daemon, BOTH + LIMIT + '[tun]\nmtu = 1400\n[worker]\nframes = 32768\n[crypto]\nengine = "openssl"\n')
    done = reload(daemon, "--json")
    said = json.loads(done.stdout)
    keys = ["tun.mtu", "worker.frames", "crypto.engine"]
    assert done.returncode == 0 and said["reloaded"] and said["waits_for_restart"] == keys, said
    assert f"waits for a restart: {', '.join(keys)}" in reload(daemon).stdout
    # The rest is in force.
    assert [limit["name"] for limit in daemon.json("limit", "show")] == ["site"]
    assert daemon.json("status")["configuration"]["waits_for_restart"] == keys
    assert "3 keys wait for a restart" in daemon.culvert("status").stdout
    assert any(w.endswith("wait for a restart: tun.mtu, worker.frames, crypto.engine") for w in daemon.json("status")["warnings"])
    assert series(daemon, "culvert_config_keys_waiting_for_restart") == 3
    assert "1400" not in daemon.host.ip("-o", "link", "show", "culvert0").stdout
    [event] = [e for e in events(daemon) if e["event"] == "reloaded"][-1:]
    assert event["waits_for_restart"] == keys
    write(daemon, BOTH)
    assert reload(daemon).returncode == 0
    assert daemon.json("status")["configuration"]["waits_for_restart"] == []
    assert series(daemon, "culvert_config_keys_waiting_for_restart") == 0


def test_a_tunnel_interface_with_other_settings_keeps_its_addresses(network):
    net = network()
    daemon, host = net.gwa.daemon, net.gwa.host
    write(daemon, BOTH + TUNNEL + "mtu = 1400\n")
    daemon.start()
    host.address("ipsec9", "10.9.0.1/30")
    index = json.loads(host.ip("-j", "link", "show", "ipsec9").stdout)[0]["ifindex"]
    write(daemon, BOTH + TUNNEL.replace("= 9", "= 10") + "mtu = 1300\n")
    assert reload(daemon).returncode == 0
    link = json.loads(host.ip("-j", "link", "show", "ipsec9").stdout)[0]
    assert (link["ifindex"], link["mtu"]) == (index, 1300), link
    assert "10.9.0.1" in host.ip("address", "show", "dev", "ipsec9").stdout
    [row] = [row for row in daemon.json("port") if row["interface"] == "ipsec9"]
    assert row["if_id"] == 10, row
    write(daemon, BOTH)
    assert reload(daemon).returncode == 0
    assert "ipsec9" not in host.ip("-o", "link").stdout


def test_by_process_id(network):
    """What the unit's ExecReload= does: the instance is the one that has the process."""
    net = network()
    daemon, host = net.gwa.daemon, net.gwa.host
    daemon.start()
    pid = daemon.json("status")["pid"]
    ask = lambda pid: host.run(culvert_binary(), "reload", "--pid", pid, check=False)  # noqa: E731
    done = ask(pid)
    assert done.returncode == 0 and "configuration reloaded" in done.stdout, done
    daemon.write_config("[worker]\ncpus = 0\n")
    done = ask(pid)
    assert done.returncode == 1 and "worker.cpus = 0" in done.stderr, done
    done = ask(1)
    assert done.returncode == 1 and "--pid 1: no daemon" in done.stderr, done
    # The file cannot be read: that is a refusal, too.
    daemon.config.unlink()
    done = ask(pid)
    assert done.returncode == 1 and "--config" in done.stderr and "nothing was changed" in done.stderr, done
