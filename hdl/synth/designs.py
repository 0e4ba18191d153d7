"""What is synthesised: every module of rtl/, and variants of some.

A module that is not named here is synthesised once, with its default parameters. `VARIANTS` gives
other parameters, the ports of further clock domains, and whether to place and route at all.
The defaults of some modules are those of the published figures' much larger device; their variants
are what a gateway on this one has.
"""

from dataclasses import dataclass, field
from pathlib import Path

RTL = Path(__file__).resolve().parent.parent / "rtl"


# The first router gives up to a tenth more MHz, but hardly ends where wires are scarce.
SECOND_ROUTER = ("--router", "router2")
# The placer that spreads cells as charges do: where there are few pins to hold on to, wires are half as
# long as with the usual one.
STATIC = ("--placer", "static", *SECOND_ROUTER)
# The second router bargains: a wire that several nets want costs more with each round, by its price now and by
# how often it was wanted before. If the price now rises fast, nothing else counts after thirty rounds, and
# the last nets trade wires for ever.
PATIENT = {"router2/currCongWeightMult": "1.3"}
MORE_PATIENT = {"router2/currCongWeightMult": "1.2"}
# A net that timing thinks critical pays a twentieth of a wanted wire's price, and so gives way to none. Where
# many are, placing and routing without timing ends when nothing else does, with longer paths.
UNTIMED = {"timing_driven": f"{0:032b}", "router2/currCongWeightMult": "0.5", "router2/histCongWeight": "2",
           "router2/bbMargin/x": "8", "router2/bbMargin/y": "8"}


@dataclass(frozen=True)
class Design:
    """One set of parameters of one module.

    `clocks` maps a clock port other than clk_i to the beginnings of the names of its domain's
    ports, where those are not the clock's own (out_clk_i: out_).
    `crowded` says what nextpnr is told where wires are scarce: SECOND_ROUTER or STATIC; `seed` where
    the usual one puts the clock's pin out of reach; `settings` what else nextpnr is set to;
    `spare_addresses` that address lines which a memory does not need become 1 (see synth.py).
    `route` is False where the netlist does not fit the device, or takes hours; then there is only
    an area, and `note` says why.
    """

    top: str
    parameters: dict = field(default_factory=dict)
    clocks: dict = field(default_factory=dict)
    crowded: tuple = ()
    seed: int = 1
    settings: dict = field(default_factory=dict)
    spare_addresses: bool = False
    route: bool = True
    note: str = ""

    @property
    def name(self):
        """A name for files and reports."""
        return "-".join([self.top, *(f"{k}{v}" for k, v in self.parameters.items())])


# A gateway with one module of each kind, and AES-CBC with HMAC-SHA1-96 only.
SMALLEST = {"NumPolicy": 1, "NumSad": 1, "NumAes": 1, "NumDes": 0, "NumGcm": 0, "NumSha1": 1,
            "NumSha256": 0, "RoundsPerCycle": 2}

# What begins with sad_ are table ports there, and belong to clk_i.
TABLE_PORTS = {"sad_clk_i": ()}

VARIANTS = [
    Design("cv_fifo_ram", {"Depth": 512}),
    Design("cv_sha1", {"RoundsPerCycle": 2}),
    Design("cv_sha1", {"RoundsPerCycle": 4}),
    Design("cv_sha256", {"RoundsPerCycle": 1}),
    Design("cv_sha256", {"RoundsPerCycle": 2}),
    Design("cv_hmac", {"RoundsPerCycle": 2}),
    Design("cv_hmac", {"RoundsPerCycle": 4}),
    Design("cv_hmac", {"RoundsPerCycle": 2, "Sha256": "1'b1"}),
    Design("cv_aes_cbc", {"Decrypts": "1'b0"}),
    Design("cv_aes_cbc", {"Encrypts": "1'b0"}),
    Design("cv_rom2", route=False, note="holds zeros here, so nothing is left of it"),
    Design("cv_cipher_des", {"MaxBeats": 128}),
    Design("cv_spd", {"N": 2}),
    Design("cv_sad", {"N": 2}),
    Design("cv_sad", {"N": 2, "Inbound": "1'b1"}),
    Design("cv_sad_client", {"Inbound": "1'b1"}),
    Design("cv_sad_core", {"N": 2, "Inbound": "1'b1"}),
    Design("cv_gateway", SMALLEST, route=False, note="both directions do not fit: area only"),
    Design("cv_gateway", SMALLEST | {"HasInbound": "1'b0"}, crowded=STATIC, spare_addresses=True),
    Design("cv_inbound", SMALLEST, TABLE_PORTS, crowded=STATIC, settings=PATIENT),
    Design("cv_outbound", SMALLEST, TABLE_PORTS, crowded=STATIC),
    Design("cv_regs", crowded=SECOND_ROUTER),
    Design("cv_aes_pipe", crowded=STATIC, seed=2),
    Design("cv_aes_gcm", crowded=STATIC, seed=3, settings=UNTIMED),
    Design("cv_cipher_gcm_in", crowded=STATIC, seed=2, settings=UNTIMED),
    Design("cv_cipher_gcm_out", crowded=STATIC, seed=2, settings=MORE_PATIENT),
]


def designs():
    """Every design, folder by folder."""
    modules = [f.stem for f in sorted(RTL.glob("*/*.sv")) if not f.stem.endswith("_pkg")]
    for variant in VARIANTS:
        if variant.top not in modules:
            raise ValueError(f"{variant.top} is in VARIANTS, but not in rtl/")
    for top in modules:
        yield from [v for v in VARIANTS if v.top == top] or [Design(top)]
