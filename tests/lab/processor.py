"""What the machine's processors have done: time in /proc/stat, and cycles by the clock that /proc/cpuinfo tells.

All that runs is counted, as what the kernel does for a packet is nobody's: in softirq it is charged to whom it
interrupts. Time that a hypervisor took away (steal) is not counted.
"""

import os
import re
from pathlib import Path

#: Of the line "cpu" of /proc/stat, what is work; time of guests is part of `user` and `nice`.
_WORK = {"user": 0, "nice": 1, "system": 2, "irq": 5, "softirq": 6}


def busy_s(text=None, ticks_per_s=None):
    """Seconds of work of all processors since the machine started."""
    text = Path("/proc/stat").read_text() if text is None else text
    fields = re.search(r"^cpu +(.*)$", text, re.M)[1].split()
    return sum(int(fields[place]) for place in _WORK.values()) / (ticks_per_s or os.sysconf("SC_CLK_TCK"))


def clock_hz(text=None):
    """The clock that the processors are said to have, which in a virtual machine is that of the time stamp counter; None
    where nothing is said."""
    text = Path("/proc/cpuinfo").read_text() if text is None else text
    said = [float(mhz) for mhz in re.findall(r"^cpu MHz\s*: *([\d.]+)", text, re.M)]
    return max(said) * 1e6 if said else None


def model():
    """The processor's name."""
    found = re.search(r"^model name\s*: *(.*)$", Path("/proc/cpuinfo").read_text(), re.M)
    return found[1] if found else os.uname().machine
