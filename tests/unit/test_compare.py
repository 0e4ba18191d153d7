"""demo/compare.py: medians, shares, cycles and the table, from figures that are made up here."""

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "demo"))

import compare  # noqa: E402
import figures  # noqa: E402
from figures import ROWS, Figures, cycles, number, quantile  # noqa: E402
from lab import processor, wireguard  # noqa: E402
from lab.planes import PLANES  # noqa: E402

STAT = """\
cpu  100 20 300 5000 40 6 70 800 90 10
cpu0 50 10 150 2500 20 3 35 400 45 5
intr 1
"""


def test_work_is_what_processors_did_and_not_what_was_taken_from_them():
    # user + nice + system + irq + softirq; neither idle, nor waiting, nor stolen, nor guests a second time.
    assert processor.busy_s(STAT, ticks_per_s=100) == pytest.approx(4.96)


def test_the_clock_is_the_highest_of_those_that_are_told():
    assert processor.clock_hz("cpu MHz\t\t: 2400.5\nx\ncpu MHz\t\t: 2450.000\n") == 2.45e9
    assert processor.clock_hz("model name\t: an Arm\n") is None


def test_cycles_are_for_what_arrived():
    # A second of two processors' work at 1 GHz for 1 Gbit/s in one second: 125 MB.
    assert cycles(ROWS["tcp4-there"], 1e9, 1, 2.0, 1e9) == pytest.approx(16)
    # 1000 packets in a second.
    assert cycles(ROWS["udp64"], 22 * 8 * 1000, 1, 0.5, 1e9) == pytest.approx(5e5)
    assert cycles(ROWS["udp64"], 0, 1, 0.5, 1e9) is None, "nothing arrived"
    assert cycles(ROWS["udp64"], 1e6, 1, 0.5, None) is None, "nobody tells the clock"


def test_a_quantile_is_one_of_the_values():
    values = list(range(100, -1, -1))
    assert [quantile(values, which) for which in (0.5, 0.99)] == [50, 99] and quantile([7], 0.99) == 7


def test_the_version_of_wireguard_go_is_that_of_the_program_that_runs(tmp_path, monkeypatch):
    monkeypatch.setattr(wireguard, "_BUILT", tmp_path)
    monkeypatch.setattr(wireguard.shutil, "which", lambda name: f"/usr/bin/{name}")
    assert wireguard.program() == "/usr/bin/wireguard-go"
    (tmp_path / "wireguard-go").touch()
    (tmp_path / "version").write_text("v1-of-the-proxy\n")
    assert (wireguard.program(), wireguard.version()) == (str(tmp_path / "wireguard-go"), "v1-of-the-proxy")
    assert wireguard.missing() == ""


def test_numbers_have_three_digits():
    shown = [number(value) for value in (0.0123, 0.0996, 1.005, 9.99, 9.996, 12.34, 99.96, 12345.6)]
    assert shown == ["0.012", "0.10", "1.00", "9.99", "10.0", "12.3", "100", "12346"]


def whole(of, *columns):
    """Three rounds of figures: the column's value times 1, 9 and 2."""
    for column, value in columns:
        for factor in (1, 9, 2):
            for row in ROWS:
                cost = value if row == "tcp4-there" else None
                of.add({"column": column, "row": row, "rate": value * factor, "cycles": cost})
    return of


def test_the_table_has_medians_shares_and_cycles():
    found = whole(Figures({"clear": "clear", "ours": "ours"}), ("clear", 10.0), ("ours", 2.5))
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in found.table(["clear", "ours"]).splitlines()]
    assert lines[0] == ["", "clear", "ours"]
    assert ["TCP v4 there, Gbit/s", "20.0", "5.00"] in lines and ["UDP of 64 bytes there, kpps", "20.0", "5.00"] in lines
    assert ["TCP, mean share of the first column", "100 %", "25.0 %"] in lines
    assert ["TCP v4 there, cycles a byte", "10.0", "2.50"] in lines
    assert not [line for line in lines if line[0].startswith("TCP v4 back, cycles")], "nothing was told"
    assert {len(line) for line in found.table(["clear", "ours"]).splitlines()} == {len(found.table(["clear", "ours"]).splitlines()[0])}


def test_a_column_that_failed_is_left_out_with_its_reason():
    found = whole(Figures({"clear": "clear", "ours": "ours", "theirs": "theirs"}), ("ours", 1.0), ("theirs", 1.0))
    found.add({"column": "clear", "skipped": "no kernel"})
    found.add({"column": "theirs", "skipped": "it died in the last round"})
    assert found.shown(["clear", "ours", "theirs"]) == ["ours"]
    # Without the first column there are no shares.
    assert "share" not in found.table(["clear", "ours", "theirs"])
    assert Figures({"a": "a"}).table(["a"]) == ""
    told = json.loads(json.dumps(found.whole()))
    assert told["theirs"] == {"title": "theirs", "skipped": "it died in the last round"}
    assert told["ours"]["rates"]["udp64"] == {"unit": "kpps", "median": 2.0, "least": 1.0, "most": 9.0, "all": [1.0, 9.0, 2.0]}
    assert told["ours"]["cycles"]["tcp4-there"]["for"] == "byte" and "udp64" not in told["ours"]["cycles"]


def test_each_column_has_a_plane_and_the_first_of_each_table_is_in_clear():
    assert {column.plane for column in compare.ALL.values()} <= set(PLANES)
    for guest in (False, True):
        first = next(column for column in compare.COLUMNS if compare.in_guest(column) == guest)
        assert compare.ALL[first].plane == "plain"


def test_what_costs_are_shown_of_are_rows():
    assert set(figures.COSTS) <= set(ROWS)
