"""What demo/compare.py measures, and the tables of it: rows, medians, text. Nothing here touches a network."""

import statistics
from dataclasses import dataclass, field

#: A UDP datagram of so many bytes is a frame of 64.
SMALL = 22


@dataclass(frozen=True)
class Row:
    """One measurement. A rate in bits a second divided by `scale` is in `unit`; cycles are counted for each `item`, of
    `bits`."""

    name: str
    unit: str
    scale: float
    item: str
    bits: int
    family: int
    #: How iperf3 is asked.
    how: dict = field(default_factory=dict)
    #: Of a round trip: which of them is told, 0.5 for the median. Such a row is measured by pings.
    quantile: float = 0


def _tcp(name, family, **how):
    return Row(name, "Gbit/s", 1e9, "byte", 8, family, how)


def _round_trip(name, quantile):
    return Row(name, "us", 1e-6, "ping", 1, 4, quantile=quantile)


ROWS = {
    "tcp4-there": _tcp("TCP v4 there", 4),
    "tcp4-back": _tcp("TCP v4 back", 4, reverse=True),
    "tcp6-there": _tcp("TCP v6 there", 6),
    "tcp6-back": _tcp("TCP v6 back", 6, reverse=True),
    "udp64": Row("UDP of 64 bytes there", "kpps", SMALL * 8e3, "packet", SMALL * 8, 4, {"udp": "0", "length": SMALL}),
    "round-trip": _round_trip("round trip, median", 0.5),
    "round-trip-99": _round_trip("round trip, 99th percentile", 0.99),
}

#: Rows whose cycles are in the table; the others are in the JSON alone.
COSTS = ("tcp4-there", "tcp4-back", "udp64")


def cycles(row, bits_per_second, seconds, busy_s, clock_hz):
    """Cycles that the whole machine worked for each byte or packet that arrived; None if it cannot be told."""
    items = bits_per_second * seconds / row.bits
    return busy_s * clock_hz / items if items and clock_hz else None


def quantile(values, which):
    """The value that so many of all are not above; 0.5 for the median."""
    ordered = sorted(values)
    return ordered[round(which * (len(ordered) - 1))]


class Figures:
    """Figures as they come, by column and row, and what is made of them."""

    def __init__(self, titles):
        #: What columns are called, in the order of the table.
        self.titles = titles
        self.rates = {column: {row: [] for row in ROWS} for column in titles}
        self.cycles = {column: {row: [] for row in ROWS} for column in titles}
        #: Why a column has no figures.
        self.skipped = {}

    def add(self, event):
        """A figure, or the reason why a column has none from now on."""
        column = event["column"]
        if "skipped" in event:
            self.skipped[column] = event["skipped"]
            return
        self.rates[column][event["row"]].append(event["rate"])
        if event["cycles"] is not None:
            self.cycles[column][event["row"]].append(event["cycles"])

    def shown(self, columns):
        """Those that have a figure for each row."""
        return [column for column in columns if column not in self.skipped and all(self.rates[column].values())]

    def share(self, column, of):
        """The mean of the medians of TCP as shares of another column's."""
        rows = [row for row in ROWS if row.startswith("tcp")]
        return statistics.mean(
            statistics.median(self.rates[column][row]) / statistics.median(self.rates[of][row]) for row in rows
        )

    def table(self, columns):
        """Medians in Markdown; the shares are of the first column. An empty text when there is nothing to show."""
        columns_shown = self.shown(columns)
        if not columns_shown:
            return ""
        lines = [["", *(self.titles[column] for column in columns_shown)]]
        for name, row in ROWS.items():
            lines.append([f"{row.name}, {row.unit}", *(number(statistics.median(self.rates[c][name])) for c in columns_shown)])
        first = columns[0]
        if first in columns_shown:
            shares = [f"{number(100 * self.share(column, first))} %" for column in columns_shown]
            lines.append(["TCP, mean share of the first column", *shares])
        for name in COSTS:
            found = [self.cycles[column][name] for column in columns_shown]
            if any(found):
                cells = [number(statistics.median(of)) if of else "" for of in found]
                lines.append([f"{ROWS[name].name}, cycles a {ROWS[name].item}", *cells])
        return markdown(lines)

    def whole(self):
        """Everything, for JSON."""

        def summary(values):
            middle = statistics.median(values)
            return {"median": middle, "least": min(values), "most": max(values), "all": values}

        def column(name):
            if name in self.skipped:
                return {"title": self.titles[name], "skipped": self.skipped[name]}
            return {
                "title": self.titles[name],
                "rates": {row: {"unit": ROWS[row].unit, **summary(of)} for row, of in self.rates[name].items() if of},
                "cycles": {row: {"for": ROWS[row].item, **summary(of)} for row, of in self.cycles[name].items() if of},
            }

        return {name: column(name) for name in self.titles}


def number(value):
    """Three digits, or fewer of what is small."""
    digits = next((digits for digits, least in enumerate((99.95, 9.995, 0.0995)) if value >= least), 3)
    return f"{value:.{digits}f}"


def markdown(lines):
    """A table that can be read as it is, too."""
    widths = [max(3, *(len(line[place]) for line in lines)) for place in range(len(lines[0]))]
    rule = ["-" * width for width in widths]
    return "\n".join(
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) + " |"
        for line in [lines[0], rule, *lines[1:]]
    )
