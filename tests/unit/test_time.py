"""The control thread's time is an argument: clocks are read at the edge, and nowhere below it."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2] / "crates" / "control" / "src"

#: Files that may read a clock, and how often they do: what is at the edge.
EDGE = {
    "clock.rs": 2,  # the clocks themselves
    "start.rs": 3,  # before the first round; a daemon of the same name may be about to end
    "lib.rs": 2,  # before a sleep, at the begin of a round
    "life/serve.rs": 1,  # a sign of life after workers have been waited for: watchdogs go by the clock
    "life/stop.rs": 3,  # after the last round
    "life/log.rs": 2,  # lines of any thread
    "workers/set/commands.rs": 2,  # all workers are waited for, half a second together
    "workers/ports/entry.rs": 2,  # another program's hold of a port is waited for
    "install.rs": 12,  # the benchmark of installation
    "shows/capture/stream.rs": 6,  # a thread of its own
    "shows/capture/flows.rs": 7,  # a thread of its own
    "applications/looking.rs": 3,  # a thread of its own
    "applications/second.rs": 2,  # the same thread
    "applications/ndpi.rs": 1,  # a process is begun, which answers to that thread
    "shows/vici/mod.rs": 4,  # a thread of its own
    "shows/vici/charon.rs": 2,  # the same thread
}

READS = re.compile(r"Instant::now|SystemTime::now|Now::read|\.elapsed\(\)|clock::wall_ms\(|clock_gettime\(Clock")


def product(path):
    """A file without its tests."""
    return re.split(r"^#\[cfg\(test\)\]\nmod tests", path.read_text(), maxsplit=1, flags=re.MULTILINE)[0]


def is_test(path):
    return "in_memory" in path.parts or path.name in ("testing.rs", "tests.rs") or path.name.endswith("_tests.rs")


def reads():
    files = [path for path in ROOT.rglob("*.rs") if not is_test(path)]
    assert len(files) > 100, "the crate is where it was"
    counts = {str(path.relative_to(ROOT)): len(READS.findall(product(path))) for path in files}
    return {name: count for name, count in counts.items() if count}


def test_clocks_are_read_at_the_edge():
    assert reads() == EDGE
