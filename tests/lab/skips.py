"""What tests may be passed over: tests/skips.toml, which says why of each.

Where CULVERT_REQUIRE is set, a test that is skipped for a reason that is not in that list fails. Those that are in it are
counted at the end, with the decision and what runs them.
"""

import functools
import os
import re
import tomllib
from collections import Counter
from pathlib import Path

LIST = Path(__file__).resolve().parents[1] / "skips.toml"


@functools.cache
def decisions():
    return tomllib.loads(LIST.read_text())["skip"]


def decision(reason):
    """The entry of the list for a reason; None if nobody has decided."""
    return next((entry for entry in decisions() if re.match(entry["reason"], reason)), None)


def reason_of(report):
    """Why a test was skipped, as it says itself; none if it was not."""
    if not report.skipped or hasattr(report, "wasxfail"):
        return None
    why = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return why.removeprefix("Skipped: ")


def judge(report):
    """Makes a failure of a skip that nobody has decided."""
    reason = reason_of(report)
    if reason is not None and os.environ.get("CULVERT_REQUIRE") and not decision(reason):
        report.outcome = "failed"
        report.longrepr = f"skipped: {reason}\nCULVERT_REQUIRE is set, and tests/skips.toml does not say that this may be"


def summary(terminalreporter):
    """Prints how many tests were skipped by each decision."""
    if not os.environ.get("CULVERT_REQUIRE"):
        return
    counts = Counter()
    for report in terminalreporter.stats.get("skipped", []):
        if entry := decision(reason_of(report) or ""):
            counts[entry["reason"], entry["why"], entry["run"]] += 1
    if counts:
        terminalreporter.section("skipped by decision (tests/skips.toml)")
    for (reason, why, run), count in counts.items():
        terminalreporter.write_line(f"{count} for `{reason}`: {why}. Runs with: {run}")
