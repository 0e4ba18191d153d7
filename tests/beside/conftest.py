"""culvert beside a kernel that owns the SAs.

Each test says in the first sentence of its description what it shows; `tests/kernel/test` prints it. At the end of
every test the wire between the gateways is judged (`lab.wire`), and /proc/net/xfrm_stat.
"""

import json
from pathlib import Path

import pytest
from lab.beside import Bed
from lab.planes import beside_is_off


def pytest_addoption(parser):
    parser.addoption("--random-sets", type=int, default=12, help="random sets of policies")
    parser.addoption("--random-seed", type=int, default=25, help="where they begin")
    parser.addoption("--report", help="a file that gets a line of JSON for each test")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    report = outcome.get_result()
    item.stash[_FAILED] = item.stash.get(_FAILED, False) or report.failed
    report.sentence = sentence(item)


def pytest_configure(config):
    config.pluginmanager.register(Reporter(config), "beside-report")


def sentence(item):
    """What a test shows: the first sentence of its description, and the case if it is one of several."""
    text = " ".join((item.function.__doc__ or item.name).split())
    text = text.partition(". ")[0].rstrip(".")
    params = getattr(item, "callspec", _NoCase).params
    case = [str(v) for k, v in params.items() if (k, v) != ("plane", USUAL)]
    return f"{text} ({', '.join(case)})" if case else text


class _NoCase:
    params = {}


class Reporter:
    """Writes what became of each test as soon as it is known."""

    def __init__(self, config):
        self.path = config.getoption("--report", None)
        self.parts = {}

    def pytest_runtest_logreport(self, report):
        if not self.path:
            return
        parts = self.parts.setdefault(report.nodeid, [])
        parts.append(report)
        if report.when != "teardown":
            return
        bad = [part for part in parts if part.failed]
        skipped = [part for part in parts if part.skipped]
        line = {
            "test": report.nodeid.partition("tests/")[2] or report.nodeid,
            "file": Path(report.nodeid.partition("::")[0]).stem.removeprefix("test_"),
            "sentence": report.sentence,
            "verdict": "failed" if bad else "skipped" if skipped else "passed",
            "seconds": round(sum(part.duration for part in parts), 1),
            "text": "\n".join(part.longreprtext for part in bad or skipped),
            "sections": [list(section) for part in bad for section in part.sections],
        }
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


#: The planes of scenario.toml.
USUAL = "beside+kernel"

_FAILED = pytest.StashKey[bool]()


@pytest.fixture
def bed(request, network):
    """A `Bed`; what it sees is judged at the end, unless the test has failed before."""
    bed = Bed(network)
    yield bed
    if not request.node.stash.get(_FAILED, False):
        bed.finish()


@pytest.fixture
def culvert_is_off():
    """Whether the kernel is alone (CULVERT_BESIDE=off)."""
    return beside_is_off()


