"""How scenarios run: a lab per test, a data plane per parameter, one common check at the end.

A scenario is a folder: `scenario.toml` (title, what must hold, topology, data planes), the
configuration of each host, and a test. Where a scenario has no file of its own for a gateway,
the one in `scenarios/common` serves.

$CULVERT names the binary under test (default: the newest in target/). A data plane that is not
there skips its tests, unless $CULVERT_REQUIRE is set: then it fails them.
"""

import os
import signal
import tomllib
from pathlib import Path

import pytest

from lab import Lab, LabError, topology
from lab.base import interruptible, sweep, wait_for
from lab.planes import culvert_missing

#: A test that hangs ends; one that is slow does not. A scenario may ask for more.
DEFAULT_BOUND_S = 600


class TooLong(Exception):
    """A test passed its bound."""


def _scenario(path):
    file = Path(path).parent / "scenario.toml"
    return tomllib.loads(file.read_text()) if file.exists() else {}


def pytest_generate_tests(metafunc):
    """A test that asks for `plane` runs once for each plane of its scenario.toml."""
    if "plane" not in metafunc.fixturenames:
        return
    if any(mark.name == "parametrize" and "plane" in mark.args[0].split(",")
           for mark in metafunc.definition.iter_markers()):  # fmt: skip
        return
    planes = _scenario(metafunc.definition.path).get("planes")
    if not planes:
        raise pytest.UsageError(f"{metafunc.definition.path}: no planes in scenario.toml")
    metafunc.parametrize("plane", planes, indirect=True)


def pytest_configure(config):
    interruptible()


def pytest_sessionstart(session):
    removed = sweep()
    if removed:
        print(f"lab: removed {removed} namespaces of an earlier run that did not end well")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item):
    """Bounds every test in time."""
    mark = item.get_closest_marker("bound")
    scenario = _scenario(item.path)
    seconds = mark.args[0] if mark else scenario.get("bound_s", DEFAULT_BOUND_S)

    def late(*_):
        raise TooLong(f"not done within {seconds} s")

    old = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, old)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """Adds the daemons' logs and counters to a failure."""
    outcome = yield
    report = outcome.get_result()
    lab = item.funcargs.get("lab") if hasattr(item, "funcargs") else None
    if report.when == "call" and report.failed and lab and not lab.closed:
        for file in sorted(lab.tmp.glob("*.log")):
            if "charon" in file.name or "culvert" in file.name:
                text = file.read_text(errors="replace")
                report.sections.append((file.name, text[-6000:]))
        for gateway in (g for net in getattr(item, "networks", []) for g in net.gateways()):
            if gateway.daemon and gateway.daemon.alive():
                for what in ("drops", "stats", "sa", "policy"):
                    shown = gateway.daemon.culvert(what, check=False).stdout
                    report.sections.append((f"{gateway.host.name} culvert {what}", shown))


@pytest.fixture
def plane(request):
    """The data plane of this run, as text: "culvert", or "culvert+libipsec" (A and B)."""
    if "culvert" in request.param:
        missing = culvert_missing()
        if missing and os.environ.get("CULVERT_REQUIRE"):
            pytest.fail(f"culvert data plane: {missing}")
        if missing:
            pytest.skip(f"culvert data plane: {missing}")
    return request.param


@pytest.fixture
def lab(request):
    with Lab(request.node.name) as lab:
        yield lab


@pytest.fixture
def network(request, lab, plane):
    """Makes the scenario's network: `network(esp="aes256gcm16")` fills in its configuration.

    At the end of the test each culvert daemon that still runs must account for every packet.
    """
    made = request.node.networks = []
    folder = request.path.parent

    def make(kind=None, build=None, **values):
        kind = kind or _scenario(request.path)["topology"]
        net = getattr(topology, kind)(lab, plane, **(build or {}))
        made.append(net.configure(folder, **values))
        return net

    yield make
    for net in made:
        for gateway in net.gateways():
            if gateway.daemon and gateway.daemon.alive():
                check_balance(gateway.daemon)


def check_balance(daemon):
    """Packets received, and those made here (fragments, ICMP errors), equal their outcomes."""

    def balanced():
        stats = daemon.stats()
        return stats["balance"] == 0 and stats

    try:
        stats = wait_for(f"balance of {daemon.host.name}", balanced, step=0.2)
    except LabError:
        stats = daemon.stats()
        assert stats["balance"] == 0, stats
    came = stats["received"] + stats.get("generated", 0)
    assert came == sum(stats["outcomes"].values()), stats
