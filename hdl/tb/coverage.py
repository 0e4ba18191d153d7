"""Adds up what the simulations saw of the cover points (CV_COVER) in rtl/.

    python tb/coverage.py            every point, with how often it was seen
    python tb/coverage.py --missing  only those that never were

Reads build/**/coverage.dat, which each simulation leaves behind. A point counts as seen if any
simulation saw it in any instance of its module. Points inside generate loops are told apart by the
turns of the loops, so that each output, type or reason must have had its own. The benches of whole
gateways do not count: what a cell does must be seen in its own bench, and a gateway's switches have more
outputs than theirs. Status 1 if a point was never seen, or if a module that has points was not simulated.
"""

import argparse
import re
import sys
from collections import Counter
from pathlib import Path

from benches import BENCHES

ROOT = Path(__file__).resolve().parent.parent
DECLARED = re.compile(r"^\s*`CV_COVER\((\w+)", re.MULTILINE)
# One line of Verilator's format: C 'KEY VALUE KEY VALUE ...' COUNT; a byte 1 stands before each key
# and a byte 2 before each value.
RECORD = re.compile(r"^C '(.*)' (\d+)$")
# Inside a module's own generate blocks names are written gen_x__BRA__3__KET____DOT__Name_C.
SPELLING = (("__BRA__", "["), ("__KET__", "]"), ("__DOT__", "."))


def declared():
    """(module, point) of every point in the sources."""
    return {(path.stem, name) for path in (ROOT / "rtl").rglob("*.sv")
            for name in DECLARED.findall(path.read_text(encoding="utf-8"))}


def seen():
    """How often each (module, point, its name with the turns of loops) was seen."""
    counts = Counter()
    wholes = {bench.name for bench in BENCHES if bench.whole}
    for path in (ROOT / "build").rglob("coverage.dat"):
        if path.parent.name in wholes:
            continue
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            record = RECORD.match(line)
            if not record:
                continue
            fields = dict(p.split("\x02", 1) for p in record[1].split("\x01") if "\x02" in p)
            if not fields.get("page", "").startswith("v_user"):
                continue
            name = fields["h"].rsplit(".", 1)[-1]
            for written, meant in SPELLING:
                name = name.replace(written, meant)
            counts[Path(fields["f"]).stem, fields["o"], name] += int(record[2])
    return counts


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--missing", action="store_true")
    arguments = parser.parse_args()
    counts = seen()
    absent = sorted(declared() - {(module, point) for module, point, _ in counts})
    never = [key for key, count in counts.items() if count == 0]
    for (module, _, name), count in sorted(counts.items()):
        if count == 0 or not arguments.missing:
            print(f"{module:18} {name:44} {count or 'never':>9}")
    for module, point in absent:
        print(f"{module:18} {point:44} not simulated")
    print(f"{len(counts)} cover points checked, {len(never)} never seen, {len(absent)} not simulated")
    return 1 if never or absent else 0


if __name__ == "__main__":
    sys.exit(main())
