"""How scenarios run: a lab per test, a data plane per parameter, one common check at the end.

A scenario is a folder: `scenario.toml` (title, what must hold, topology, data planes), the
configuration of each host, and a test. Where a scenario has no file of its own for a gateway,
the one in `scenarios/common` serves.

$CULVERT names the binary under test (default: the newest in target/). A data plane that is not
there skips its tests, unless $CULVERT_REQUIRE is set: then it fails them, and so does every skip that skips.toml
does not decide.
"""

import os
import signal
import threading
import tomllib
from pathlib import Path

import pytest

from lab import Lab, LabError, charon6, skips, topology
from lab.base import interruptible, sweep, wait_for
from lab.guest import GUEST_MARK, Guest, culvert_guest_missing
from lab.planes import beside_is_off, culvert_binary, culvert_missing

#: A test that hangs ends; one that is slow does not. A scenario may ask for more.
DEFAULT_BOUND_S = 600

#: strongSwan's own ESP alone says that a test is right, not that culvert is. In the sample one scenario has it.
REFERENCE = "libipsec"
IS_SAMPLE = os.environ.get("CULVERT_SUITES") == "sample"
REFERENCE_IN_THE_SAMPLE = "ikev2-psk"


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
    if IS_SAMPLE and Path(metafunc.definition.path).parent.name != REFERENCE_IN_THE_SAMPLE:
        planes = [plane for plane in planes if plane != REFERENCE]
    metafunc.parametrize("plane", planes, indirect=True)


def pytest_addoption(parser):
    parser.addoption("--failed-to", metavar="FILE", help="writes the names of tests that failed, one a line")
    parser.addoption("--guestless-to", metavar="FILE", help="adds the names of tests skipped for want of a guest's kernel")


def pytest_sessionfinish(session):
    if hasattr(session.config, "workerinput"):
        return
    stats = session.config.pluginmanager.get_plugin("terminalreporter").stats
    here = os.path.relpath(session.config.rootpath)

    def lines(reports):
        return "".join(f"{here}/{name}\n" for name in dict.fromkeys(report.nodeid for report in reports))

    if file := session.config.getoption("--failed-to"):
        Path(file).write_text(lines(report for what in ("failed", "error") for report in stats.get(what, [])))
    if file := session.config.getoption("--guestless-to"):
        with Path(file).open("a") as names:
            names.write(lines(report for report in stats.get("skipped", []) if "make kernel" in str(report.longrepr)))


def pytest_terminal_summary(terminalreporter):
    skips.summary(terminalreporter)


def _may_have_signals():
    """Python gives signals to the main thread alone, and execnet, beneath xdist, now and then runs a worker's tests in
    another one: when the main one is not yet free of what prepared it. Then who made the worker ends it."""
    return threading.current_thread() is threading.main_thread()


def pytest_configure(config):
    if _may_have_signals():
        interruptible()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Hands tests out one by one, not in batches: some take a hundred times as long as others."""
    from xdist.scheduler import LoadScheduling

    class OneByOne(LoadScheduling):
        def _send_tests(self, node, num):
            # A worker has to know its next test before it runs one.
            super()._send_tests(node, max(0, min(num, 2 - len(self.node2pending[node]))))

    return OneByOne(config, log)


def _is_left_out(item):
    """Whether the sample has other cases of a matrix than this one."""
    mark = item.get_closest_marker("sample_of_cases")
    return IS_SAMPLE and mark and not f"-{item.callspec.id}".endswith(tuple(f"-{case}" for case in mark.args))


def pytest_collection_modifyitems(config, items):
    """The sample's cases. Where tests run side by side, those of scenarios with `long = true` begin first, each on another
    worker: the end must not wait for one of them."""
    config.hook.pytest_deselected(items=[item for item in items if _is_left_out(item)])
    items[:] = [item for item in items if not _is_left_out(item)]
    if not hasattr(config, "workerinput"):
        return
    long = [item for item in items if _scenario(item.path).get("long")]
    others = [item for item in items if item not in long]
    # Workers begin with two tests each.
    items[:] = [item for pair in zip(long, others) for item in pair]
    items += long[len(others) :] + others[len(long) :]


def pytest_sessionstart(session):
    removed = sweep()
    if removed:
        print(f"lab: removed {removed} namespaces of an earlier run that did not end well")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item):
    """Bounds every test in time."""
    if not _may_have_signals():
        yield
        return
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


def _needs_guest(planes, item):
    """Planes of the kernel's need one that does ESP; the machine's own is left alone. So do tests that are marked."""
    is_marked = item.get_closest_marker("guest") is not None
    is_of_kernel = {"kernel", "kernel6", "beside", "beside6"} & set(planes.split("+"))
    return bool(is_of_kernel or is_marked) and not os.environ.get(GUEST_MARK)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    """Runs a test that needs a guest's kernel in a guest, all of it: lab, daemons and culvert."""
    planes = pyfuncitem.callspec.params.get("plane", "") if hasattr(pyfuncitem, "callspec") else ""
    if not _needs_guest(planes, pyfuncitem):
        return None
    guest = Guest(pyfuncitem.funcargs["lab"], "machine", memory_mb=1024).start()
    test = f"{pyfuncitem.path}::{pyfuncitem.nodeid.partition('::')[2]}"
    done = guest.run(
        "env", f"{GUEST_MARK}=1", f"CULVERT={culvert_binary()}", "CULVERT_REQUIRE=1",
        f"CULVERT_BESIDE={os.environ.get('CULVERT_BESIDE', '')}",
        "/usr/bin/python3", "-B", "-m", "pytest", "-c", Path(__file__).with_name("pytest.ini"),
        "--color=no", test, check=False, timeout=DEFAULT_BOUND_S,
    )  # fmt: skip
    guest.stop()
    if done.returncode:
        pytest.fail(f"in the guest:\n{done.stdout}", pytrace=False)
    return True


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """Adds the daemons' logs and counters to a failure."""
    outcome = yield
    report = outcome.get_result()
    skips.judge(report)
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
    if "culvert" in request.param or "beside" in request.param and not beside_is_off():
        missing = culvert_missing()
        if missing and os.environ.get("CULVERT_REQUIRE"):
            pytest.fail(f"culvert data plane: {missing}")
        if missing:
            pytest.skip(f"culvert data plane: {missing}")
    if "6" in request.param and charon6.missing():
        pytest.skip(f"strongSwan 6: {charon6.missing()}")
    if _needs_guest(request.param, request.node) and culvert_guest_missing():
        pytest.skip(f"a guest's kernel: {culvert_guest_missing()}")
    return request.param


@pytest.fixture
def lab(request):
    with Lab(request.node.name) as lab:
        yield lab


@pytest.fixture
def network(request, lab, plane):
    """Makes the scenario's network: `network(esp="aes256gcm16")` fills in its configuration, which is that of the
    scenario's folder or of another `folder`.

    At the end of the test each culvert daemon that still runs must account for every packet.
    """
    made = request.node.networks = []

    def make(kind=None, build=None, folder=request.path.parent, **values):
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
