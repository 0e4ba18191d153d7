"""`culvert metrics`, read by another's parser and held against what the other commands show."""

import http.client
import re
import shutil
import socket
import subprocess
import time

import pytest
from lab import topology as t
from lab.base import sh, wait_for
from lab.planes import culvert_binary
from lab.traffic import assert_ping
from lab.web import READER, assert_gives_up, readable

PACKAGING = t.COMMON.parents[2] / "packaging" / "prometheus"
PORT = 9633


def samples(text):
    """The samples of an exposition by name and labels, read by Prometheus's own client library."""
    parser = pytest.importorskip("prometheus_client.openmetrics.parser")
    families = list(parser.text_string_to_metric_families(text))
    assert all(family.documentation for family in families), families
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in families
        for sample in family.samples
    }


def plain(text):
    """The same of Prometheus's text format."""
    parser = pytest.importorskip("prometheus_client.parser")
    families = list(parser.text_string_to_metric_families(text))
    assert all(family.documentation and family.type != "unknown" for family in families), families
    return {(sample.name, frozenset(sample.labels.items())): sample.value for family in families for sample in family.samples}


def find(seen, name, **labels):
    """The value of the one series of this name with these labels."""
    wanted = set(labels.items())
    [value] = [value for (other, have), value in seen.items() if other == name and wanted <= have]
    return value


def test_metrics_are_what_the_commands_show(network):
    net = network(start_action="trap").start()
    daemon = net.gwa.daemon
    seen = samples(daemon.culvert("metrics", "--openmetrics").stdout)
    assert find(seen, "culvert_sas") == 0
    # Configured, and down: a policy for each address family.
    assert find(seen, "culvert_policies_without_sa") == 2
    assert_ping(net.client, t.SERVER4, count=20)
    seen = samples(daemon.culvert("metrics", "--openmetrics").stdout)
    assert find(seen, "culvert_policies_without_sa") == 0
    [out] = [sa for sa in daemon.json("sa") if sa["src"] == t.WAN_A4]
    assert find(seen, "culvert_sa_packets_total", spi=out["spi"]) == out["packets"] == 20
    assert find(seen, "culvert_sa_bytes_total", spi=out["spi"]) == out["bytes"]
    stats = daemon.json("stats")
    assert find(seen, "culvert_ended_packets_total", outcome="transmitted") == stats["outcomes"]["transmitted"]
    assert find(seen, "culvert_work_total", work="encrypted") == stats["work"]["encrypted"]
    of_workers = [n for (name, _), n in seen.items() if name == "culvert_latency_seconds_count"]
    assert len(of_workers) == len(stats["by_worker"]) and sum(of_workers) == stats["latency"]["sampled"], stats
    median = re.search(r"^latency p50 +(\S+)(?: \(\d+ samples?\))?$", daemon.culvert("stats").stdout, re.M)[1]
    assert re.fullmatch(r"[0-9.]+(ns|us|ms|s)" if stats["latency"]["sampled"] else "-", median), median
    for port in daemon.json("port"):
        assert find(seen, "culvert_port_up", port=port["interface"]) == (port["state"] == "up")
    # Every reason is there before it occurs, so that a rate has a beginning.
    assert len([1 for name, _ in seen if name == "culvert_drops_total"]) == len(daemon.json("drops")["drops"])
    assert find(seen, "culvert_drops_total", reason="in-integrity") == 0


def test_the_number_of_series_is_bounded(network):
    daemon = network().up().gwa.daemon
    names = {name for name, _ in samples(daemon.culvert("metrics", "--openmetrics", "--max-sas", "1", "--max-policies", "5").stdout)}
    assert not {name for name in names if name.startswith(("culvert_sa_", "culvert_policy_"))}
    assert {"culvert_sas", "culvert_policies", "culvert_drops_total"} <= names


class Server:
    """`culvert metrics` on a gateway's loopback."""

    def __init__(self, gateway, *args):
        self.host = gateway.host
        log = self.host.lab.tmp / "metrics.log"
        command = (culvert_binary(), "--name", gateway.daemon.name, "metrics", "--listen", f"127.0.0.1:{PORT}")
        command += ("--user", READER, *args)
        self.process = self.host.spawn(*command, log=log)
        self.process.wait_output("/metrics")

    def get(self, path="/metrics", method="GET", headers=None):
        """Status, content type and text of an answer."""
        with self.host.entered():
            connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=10)
            connection.request(method, path, headers=headers or {})
        with connection.getresponse() as answer:
            return answer.status, answer.headers["Content-Type"], answer.read().decode()

    def connect(self):
        """A connection that has said nothing yet."""
        with self.host.entered():
            return socket.create_connection(("127.0.0.1", PORT), timeout=30)


def test_prometheus_scrapes(network):
    net = readable(network()).up()
    server = Server(net.gwa, "--host", "gw.example")
    # What Prometheus 2 and 3 say, a client that says nothing, and one that has never heard of OpenMetrics.
    openmetrics = (
        "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
        "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,text/plain;version=0.0.4;q=0.2,*/*;q=0.1",
    )
    for accept in openmetrics:
        status, kind, text = server.get(headers={"Accept": accept})
        assert status == 200 and kind.startswith("application/openmetrics-text; version=1.0.0"), (status, kind)
        assert find(samples(text), "culvert_sas") == 2
    for accept in ({}, {"Accept": "*/*"}, {"Accept": "text/plain;version=0.0.4"}):
        status, kind, text = server.get(headers=accept)
        assert status == 200 and kind.startswith("text/plain; version=0.0.4"), (status, kind)
        assert plain(text)[("culvert_sas", frozenset())] == 2 and "# EOF" not in text
    assert server.get("/other")[0] == 404
    assert server.get(method="POST")[0] == 405
    assert_gives_up(server.process, READER)
    # A page of another site whose name leads here is told nothing.
    for host in ("localhost", f"127.0.0.1:{PORT}", "[::1]:1", f"gw.example:{PORT}", "GW.example"):
        assert server.get(headers={"Host": host})[0] == 200, host
    for host in ("evil.example", f"evil.example:{PORT}", "192.0.2.1", "gw.example.evil.example", "localhost.evil.example"):
        status, _, text = server.get(headers={"Host": host})
        assert status == 421 and "--host" in text and "culvert_" not in text, (host, text)
    # The daemon restarts: a scrape fails with its reason, and the next works again.
    net.gwa.daemon.stop()
    status, _, text = server.get()
    assert status == 503 and "no daemon answers" in text, text
    net.gwa.daemon.start()
    wait_for("a scrape", lambda: server.get()[0] == 200)
    server.process.stop()


def test_no_client_holds_up_a_scrape(network):
    server = Server(readable(network()).up().gwa)
    assert server.get(headers={"X": "y" * 9000})[0] == 431
    start = time.monotonic()
    silent = [server.connect() for _ in range(50)]
    for connection in silent[:25]:
        connection.sendall(b"GET /metrics HTTP/1.1\r\n")
    # One that asks, and does not take the answer.
    silent[-1].sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert server.get()[0] == 200 and time.monotonic() - start < 5
    # A slow request is told off after five seconds, however often it says something.
    while time.monotonic() - start < 20:
        try:
            silent[0].sendall(b"X: y\r\n")
        except OSError:
            break
        time.sleep(0.5)
    assert time.monotonic() - start < 10
    assert server.get()[0] == 200
    # As many as it serves at a time, and more: the oldest that has not asked makes room.
    for number in range(200):
        silent.append(server.connect())
        if number % 20 == 0:
            assert server.get()[0] == 200, number
    for connection in silent:
        connection.close()
    server.process.stop()


def test_an_address_for_everybody_has_to_be_meant(network):
    daemon = network().start().gwa.daemon
    done = daemon.culvert("metrics", "--listen", f"0.0.0.0:{PORT}", check=False)
    assert done.returncode == 1 and "--expose" in done.stderr, done


def test_alerts_and_dashboard_ask_for_what_there_is(network):
    net = network()
    config = net.gwa.daemon.config.read_text()
    vici = f'[vici]\nsocket = "{net.gwa.swan.vici}"\n'
    limit = '[[limit]]\nname = "site"\nall = true\nmode = "shape"\nrate = "1Gbit"\n'
    path = f'[[path]]\nname = "hq"\nsource = "{t.LAN_A4}"\nto = "{t.LAN_B4}"\n'
    bfd = '[bfd]\ndataplane = "ipv4:127.0.0.1:50700"\n'
    net.gwa.daemon.write_config(config + vici + limit + path + bfd)
    daemon = net.up().gwa.daemon
    wait_for("an answer of charon", lambda: daemon.json("status")["connections"]["reachable"])
    text = daemon.culvert("metrics", "--openmetrics").stdout
    # Without a session of BFD its families are declared, and have no sample.
    names = {name for name, _ in samples(text)} | set(re.findall(r"^# TYPE (\S+)", text, re.M))
    for file in ("alerts.yml", "dashboard.json"):
        asked = set(re.findall(r"\bculvert_[a-z_]+", (PACKAGING / file).read_text()))
        assert asked and asked <= names, (file, asked - names)


def test_promtool_takes_the_alerts():
    tool = shutil.which("promtool")
    if not tool:
        pytest.skip("no promtool (Debian package prometheus)")
    sh(tool, "check", "rules", PACKAGING / "alerts.yml")
    sh(tool, "test", "rules", PACKAGING / "alerts.test.yml")


def test_promtool_takes_the_metrics(network):
    tool = shutil.which("promtool")
    if not tool:
        pytest.skip("no promtool (Debian package prometheus)")
    net = network()
    config = net.gwa.daemon.config.read_text()
    net.gwa.daemon.write_config(config + '[[limit]]\nname = "site"\nall = true\nmode = "shape"\nrate = "1Gbit"\n')
    daemon = net.up().gwa.daemon
    assert_ping(net.client, t.SERVER4, count=3)
    text = daemon.culvert("metrics").stdout
    done = subprocess.run((tool, "check", "metrics"), input=text, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, ""), done
    # The three forms have the same series.
    told = daemon.json("metrics")
    names = {(s["name"], frozenset(s["labels"].items())) for family in told for s in family["samples"]}
    assert names == set(plain(text)) == set(samples(daemon.culvert("metrics", "--openmetrics").stdout))
    [sas] = [s["value"] for family in told for s in family["samples"] if s["name"] == "culvert_sas"]
    assert sas == 2 and isinstance(sas, int)
