"""The package's AppArmor profile, enforced: nothing of what the daemon does is denied."""

import os
import re
import shutil
import time
from pathlib import Path

import pytest
from lab import topology as t
from lab.base import ROOT, sh, wait_for
from lab.memif import MemifClient
from lab.planes import culvert_binary
from lab.traffic import assert_ping

SECURITY = Path("/sys/kernel/security")
PROFILE = ROOT / "packaging/apparmor/culvert"


def missing():
    """Why no profile can be enforced here; none if one can."""
    enabled = Path("/sys/module/apparmor/parameters/enabled")
    if not enabled.exists() or enabled.read_text().strip() != "Y":
        return "this kernel has no AppArmor (make kernel builds one that has)"
    for program in ("apparmor_parser", "aa-exec"):
        if not shutil.which(program, path=f"{os.environ['PATH']}:/usr/sbin:/sbin"):
            return f"{program} is missing (apt-get install apparmor)"
    return None


class Enforced:
    """The profile with `complain` taken out, for the binary under test and the folder of the lab."""

    def __init__(self, tmp):
        if not (SECURITY / "apparmor").exists():
            sh("mount", "-t", "securityfs", "securityfs", SECURITY)
        # Each denial is to be in the log, however many there are.
        Path("/proc/sys/kernel/printk_ratelimit").write_text("0")
        text = PROFILE.read_text().replace("@BINDIR@/culvert", str(Path(culvert_binary()).resolve()))
        assert "flags=(complain, attach_disconnected)" in text
        text = text.replace("flags=(complain, attach_disconnected)", "flags=(attach_disconnected)")
        # Configuration and logs of the lab lie elsewhere, and its processes send signals.
        own = f"  {tmp}/** rwk,\n"
        text = text.replace("  # Said, so that", own + "  # Said, so that")
        self.path = tmp / "culvert.apparmor"
        self.path.write_text(text)
        sh("apparmor_parser", "--replace", "--skip-cache", self.path)
        sh("dmesg", "--clear")

    def denied(self):
        """What was denied since it was loaded, as text."""
        lines = sh("dmesg").stdout.splitlines()
        found = {re.sub(r"audit\(\S+\): |pid=\d+ |^\[[^]]*\] ", "", line) for line in lines if 'apparmor="DENIED"' in line}
        return "\n".join(sorted(found))

    def remove(self):
        sh("apparmor_parser", "--remove", self.path)


@pytest.fixture
def enforced(lab):
    if why := missing():
        pytest.skip(why)
    profile = Enforced(lab.tmp)
    yield profile
    profile.remove()


def wrapper():
    """What starts the daemon as culvert.service does: with its capabilities, and under the profile."""
    unit = (ROOT / "packaging/culvert.service").read_text()
    capabilities = re.search("^CapabilityBoundingSet=(.*)$", unit, re.M)[1].lower().replace("cap_", "").split()
    sets = ",".join(["-all", *(f"+{name}" for name in capabilities)])
    return ["setpriv", f"--bounding-set={sets}", "aa-exec", "-p", "culvert", "--"]


def confine(net):
    for gateway in net.gateways():
        gateway.daemon.wrapper = wrapper()
        # What it starts without is the wrapper's to take.
        gateway.daemon.has_all_rights = True


def assert_confined(net, enforced):
    for gateway in net.gateways():
        for task in Path(f"/proc/{gateway.daemon.process.pid}/task").iterdir():
            assert (task / "attr/current").read_text().strip() == "culvert (enforce)"
    assert enforced.denied() == ""


def again(daemon):
    daemon.start()
    if daemon.is_unprivileged:
        # The IKE daemon hands its sockets over once more.
        wait_for("the sockets", lambda: [p["kind"] for p in daemon.json("port")].count("udp") == 2)


def life(net, enforced):
    """What a daemon does: traffic, commands, a capture, a reload, an end, a start, a crash, and a start after that."""
    daemon = net.gwa.daemon
    assert_ping(net.client, t.SERVER4, count=3)
    assert_ping(net.server, t.CLIENT6, count=3)
    for command in ("status", "sa", "policy", "port", "route", "drops", "stats", "nat"):
        daemon.json(command)
    daemon.json("why", "--from", t.CLIENT4, "--to", t.SERVER4)
    pings = net.client.spawn("ping", "-i", "0.2", t.SERVER4)
    file = net.gwa.host.lab.tmp / "packets.pcapng"
    daemon.culvert("capture", "--count", "4", "--duration", "10", "--write", file)
    pings.stop()
    assert file.stat().st_size > 500
    daemon.reload()
    assert_ping(net.client, t.SERVER4, count=2)
    assert_confined(net, enforced)
    daemon.stop()
    again(daemon)
    assert_ping(net.client, t.SERVER4, count=2)
    daemon.kill9()
    again(daemon)
    net.gwa.swan.rekey(child="net")
    assert_ping(net.client, t.SERVER4, count=2)
    assert_confined(net, enforced)


@pytest.mark.parametrize("plane", ["culvert+culvert"], indirect=True)
@pytest.mark.parametrize("ports", [pytest.param("xdp", marks=pytest.mark.sample), "generic", "packet", "unprivileged"])
def test_nothing_is_denied(network, enforced, monkeypatch, ports):
    """Under the enforced profile a daemon lives its life, whatever its ports are."""
    encap = {}
    if ports == "unprivileged":
        monkeypatch.setenv("CULVERT_PORTS", ports)
        encap = {"encap": "yes"}
    net = network(**encap)
    confine(net)
    text = net.gwa.daemon.config.read_text()
    how = {"xdp": 'kind = "xdp"', "generic": 'mode = "generic"', "packet": 'kind = "packet"'}.get(ports, "")
    text = re.sub(r"^interface = .*$", rf"\g<0>\n{how}", text, flags=re.M)
    net.gwa.daemon.write_config(text)
    net.up()
    modes = {port["kind"]: port["mode"] for port in net.gwa.daemon.json("port")}
    expected = {"xdp": "native", "generic": "generic", "packet": "packet", "unprivileged": "UDP"}[ports]
    assert any(expected in f"{kind} {mode}" for kind, mode in modes.items()), modes
    life(net, enforced)


@pytest.mark.parametrize("plane", ["culvert+culvert"], indirect=True)
def test_nothing_is_denied_to_what_else_there_is(network, enforced):
    """Under the enforced profile there are tunnel interfaces, memif ports, NAT, nDPI, a guard of prefixes, and traps."""
    net = network()
    confine(net)
    path = f"/run/culvert/{net.gwa.daemon.name}.app.sock"
    text = net.gwa.daemon.config.read_text()
    net.gwa.daemon.write_config(
        f'{text}\n[[port]]\ninterface = "app0"\nkind = "memif"\nsocket = "{path}"\n'
        '[[tunnel]]\ninterface = "tun7"\nif_id = 7\n[nat]\nlearn = "conntrack"\n'
        '[guard]\nprefixes = ["10.9.0.0/16"]\n[tun]\nearly_acquire = true\n'
        "[applications]\nenabled = true\nndpi = true\n"
    )
    net.up()
    wait_for("nDPI", lambda: net.gwa.daemon.json("app")["ndpi"]["version"])
    app = MemifClient(path)
    wait_for("the application", lambda: any(p["interface"] == "app0" and p["state"] == "up" for p in net.gwa.daemon.json("port")))
    time.sleep(1)
    app.close()
    life(net, enforced)


@pytest.mark.parametrize("plane", ["beside+kernel"], indirect=True)
def test_nothing_is_denied_beside_a_kernel(bed, enforced):
    """Under the enforced profile a daemon takes over the kernel's SAs, and gives them back."""
    net = bed.make()
    net.gwa.daemon.wrapper = wrapper()
    net.up()
    bed.start()
    bed.pings()
    for task in Path(f"/proc/{net.gwa.daemon.process.pid}/task").iterdir():
        assert (task / "attr/current").read_text().strip() == "culvert (enforce)"
    bed.stop()
    assert enforced.denied() == ""


@pytest.mark.parametrize("plane", ["culvert+culvert"], indirect=True)
def test_the_profile_is_in_force(network, enforced):
    """What the profile does not name is forbidden to the daemon, and that is seen here."""
    net = network()
    confine(net)
    elsewhere = Path("/var/tmp/culvert-elsewhere.toml")
    shutil.copy(net.gwa.daemon.config, elsewhere)
    done = net.gwa.host.run(*wrapper(), culvert_binary(), "run", "--config", elsewhere, check=False)
    assert done.returncode and "ermission" in done.stderr, done
    assert "culvert-elsewhere.toml" in enforced.denied()
    elsewhere.unlink()
