"""What is synthesised: every module of rtl/, and variants of some.

A module that is not named here is synthesised once, with its default parameters. `VARIANTS` gives
other parameters, the ports of further clock domains, and whether to place and route at all.
"""

from dataclasses import dataclass, field
from pathlib import Path

RTL = Path(__file__).resolve().parent.parent / "rtl"


@dataclass(frozen=True)
class Design:
    """One set of parameters of one module.

    `clocks` maps a clock port other than clk_i to the beginnings of the names of its domain's
    ports, where those are not the clock's own (out_clk_i: out_).
    `route` is False where the netlist does not fit the device, or takes hours; then there is only
    an area, and `note` says why.
    """

    top: str
    parameters: dict = field(default_factory=dict)
    clocks: dict = field(default_factory=dict)
    route: bool = True
    note: str = ""

    @property
    def name(self):
        """A name for files and reports."""
        return "-".join([self.top, *(f"{k}{v}" for k, v in self.parameters.items())])


VARIANTS = [
    Design("cv_fifo_ram", {"Depth": 512}),
    Design("cv_sha1", {"RoundsPerCycle": 2}),
    Design("cv_sha1", {"RoundsPerCycle": 4}),
    Design("cv_sha256", {"RoundsPerCycle": 1}),
    Design("cv_sha256", {"RoundsPerCycle": 2}),
    Design("cv_hmac", {"RoundsPerCycle": 2}),
    Design("cv_hmac", {"RoundsPerCycle": 4}),
    Design("cv_hmac", {"RoundsPerCycle": 2, "Sha256": "1'b1"}),
]


def designs():
    """Every design, folder by folder."""
    modules = [f.stem for f in sorted(RTL.glob("*/*.sv")) if not f.stem.endswith("_pkg")]
    for variant in VARIANTS:
        if variant.top not in modules:
            raise ValueError(f"{variant.top} is in VARIANTS, but not in rtl/")
    for top in modules:
        yield from [v for v in VARIANTS if v.top == top] or [Design(top)]
