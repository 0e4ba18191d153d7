"""What the kernel and culvert answer to SAs of IP-TFS mode and their settings, request by request.

By netlink itself: `ip` of iproute2 7.2 has no word for the mode.
"""

import json
import os

import pytest
from lab.planes import Daemon
from lab.raw_xfrm import AH, COMP, __file__ as ASK
from lab.traffic import PYTHON

IN, OUT = ["dir", 1], ["dir", 2]
MOST = 2**32 - 1


def cases():
    found = {}

    def state(name, *attributes, **how):
        before = how.pop("before", None)
        found[name] = {"sa": {"attributes": attributes, **how}}
        if before is not None:
            found[name]["before"] = [{"attributes": before, **how}]

    state("no direction")
    for way, word in ((IN, "in"), (OUT, "out")):
        state(f"{word}: nothing else", way)
        state(f"{word}: IPv6", way, v6=True)
        state(f"{word}: another family inside", way, inner=6)
        state(f"{word}: AES-CBC", way, suite="cbc")
        state(f"{word}: TFC padding", way, ["tfcpad", 100])
        state(f"{word}: a window", way, window=32)
        state(f"{word}: AH", way, proto=AH)
        state(f"{word}: IPComp", way, proto=COMP)
        for value in (0, 7, MOST):
            for name in ("drop_time", "init_delay", "max_qsize", "pkt_size"):
                state(f"{word}: {name} {value}", way, [name, value])
        for value in (0, 1, 9, 65535):
            state(f"{word}: reorder_window {value}", way, ["reorder_window", value])
        state(f"{word}: dont_frag", way, ["dont_frag", 0])
        state(f"{word}: dont_frag with a value", way, ["dont_frag", "01"])
        for name in ("drop_time", "reorder_window", "init_delay"):
            state(f"{word}: {name} of 3 bytes", way, [name, "010203"])
            state(f"{word}: {name} of 8 bytes", way, [name, "0102030405060708"])
        for name in ("drop_time", "dont_frag", "pkt_size"):
            state(f"{word}: {name} in tunnel mode", way, [name, 1400], mode=1)
            state(f"{word}: {name} of AH in tunnel mode", way, [name, 1400], mode=1, proto=AH)
    encap = "0200" + "1194" * 2 + "0000" + "00" * 16
    for len_ in (20, 40, 41, 47, 48, 49, 60, 61, 1400):
        state(f"out: pkt_size {len_}, AES-GCM", OUT, ["pkt_size", len_])
        state(f"out: pkt_size {len_}, AES-CBC", OUT, ["pkt_size", len_], suite="cbc")
        state(f"out: pkt_size {len_}, IPv6", OUT, ["pkt_size", len_], v6=True)
        state(f"out: pkt_size {len_}, in UDP", OUT, ["pkt_size", len_], ["encap", encap])
    state("in tunnel mode, no direction: drop_time", ["drop_time", 7], mode=1)
    state("beet: drop_time", IN, ["drop_time", 7], mode=4)
    state("a mode that there is not", OUT, mode=6)
    state("updated, in", IN, ["drop_time", 9], before=[IN, ["drop_time", 7]])
    state("updated, out", OUT, ["pkt_size", 1400], before=[OUT, ["dont_frag", 0]])
    for direction in (0, 1, 2):
        for optional in (0, 1):
            for v6 in (False, True):
                case = {"direction": direction, "optional": optional, "v6": v6}
                found[f"policy {direction}, optional {optional}, {'IPv6' if v6 else 'IPv4'}"] = {"policy": case}
    return found


@pytest.mark.sample
def test_answers_are_linux_s(lab, plane, culvert_is_off):
    """Linux and culvert answer the same to each setting of IP-TFS, and show the same of it."""
    if tuple(map(int, os.uname().release.split(".")[:2])) < (6, 14):
        pytest.skip("before 6.14 Linux has no IP-TFS")
    file = lab.tmp / "cases.json"
    asked = cases()
    file.write_text(json.dumps(asked))
    linux = json.loads(lab.host("kernel").run(PYTHON, ASK, file).stdout)
    assert sum(errno == 0 for errno, _ in linux.values()) > 30, linux
    if culvert_is_off:
        return
    host, far = lab.host("culvert"), lab.host("far")
    lab.link(far, "wan", host, "wan")
    daemon = Daemon(host, ["wan"])
    daemon.write_config()
    daemon.start()
    ours = json.loads(daemon.exec(PYTHON, ASK, file).stdout)
    wrong = [f"{name}: Linux {linux[name]}, culvert {ours[name]}" for name in asked if linux[name] != ours[name]]
    print(len(asked), "requests")
    assert not wrong, "\n".join(wrong)
