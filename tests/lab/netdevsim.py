"""netdevsim, the kernel's own simulated device, and what an XFRM database answers to `ip xfrm` about one.

`ip` is that of Debian testing (`lab/charon6.py`): the machine's may not know `offload packet`. It prints what a database says in
words *or* the errno, so what is refused is asked twice, the second time without words.
"""

import re
import subprocess
from dataclasses import dataclass

from .charon6 import argv6

#: `ip` asks for words (NETLINK_EXT_ACK of SOL_NETLINK) by a call that fails with this library: then it prints the errno.
_NO_WORDS = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <sys/socket.h>
int setsockopt(int fd, int level, int name, const void *value, socklen_t len)
{
    int (*next)(int, int, int, const void *, socklen_t) = dlsym(RTLD_NEXT, "setsockopt");
    if (level == 270 && name == 11) { errno = ENOPROTOOPT; return -1; }
    return next(fd, level, name, value, len);
}
"""

#: What databases are asked for first, so that nothing of before is there, and last.
_FLUSH = ("xfrm state flush", "xfrm policy flush")
_LIST = ("xfrm state list", "xfrm policy list")


@dataclass(frozen=True)
class Answer:
    """To one line of `ip xfrm`."""

    #: As strerror has it, such as "Invalid argument"; empty when the line was carried out.
    error: str = ""
    #: What the database says about it, if it says something.
    words: str = ""
    #: What it shows of the device afterwards, such as "dev sim0 dir out mode crypto".
    shows: str = ""

    def __str__(self):
        return ": ".join(filter(None, (self.error, self.words))) or f"added, {self.shows or 'in software'}"


def add_device(host, name, number):
    """Makes a netdevsim device on a host, under that name."""
    host.run("sh", "-c", f"echo '{number} 1' > /sys/bus/netdevsim/new_device")
    host.lab.at_close(lambda: host.run("sh", "-c", f"echo {number} > /sys/bus/netdevsim/del_device", check=False))
    made = host.run("ls", f"/sys/bus/netdevsim/devices/netdevsim{number}/net").stdout.split()[0]
    host.ip("link", "set", made, "name", name)
    host.ip("link", "set", name, "up")


class Database:
    """That of a host's kernel, or with `daemon` that of culvert."""

    def __init__(self, host, daemon=None):
        self.host, self.daemon = host, daemon

    def answers(self, cases, is_of):
        """The answers to `cases`, each of them lines of which the last one counts; `is_of` says whether a part of a list of
        SAs or policies is a case's."""
        lines = [line for case in cases.values() for line in case]
        said = iter(self._ask([*_FLUSH, *lines, *_LIST])[len(_FLUSH) :])
        said = {name: [next(said) for _ in case] for name, case in cases.items()} | {"": list(said)}
        shown = [part for text in said.pop("") for part in re.split(r"^(?=src )", text, flags=re.M)]
        for name, texts in said.items():
            assert "answers" not in (before := "".join(texts[:-1])) and "Error" not in before, (name, before)
        refused = [name for name, texts in said.items() if texts[-1]]
        lines = [line for name in refused for line in cases[name]]
        ends = [line is cases[name][-1] for name in refused for line in cases[name]]
        # Culvert's own library stands there already.
        before = f'export LD_PRELOAD="{self._no_words()}:$LD_PRELOAD"\n'
        again = self._ask([*_FLUSH, *lines], before)[len(_FLUSH) :]
        errors = dict(zip(refused, (text for text, is_end in zip(again, ends) if is_end)))
        found = {}
        for name in cases:
            part = next((part for part in shown if is_of(name, part)), "")
            found[name] = Answer(
                _of(r"RTNETLINK answers: (.*)", errors[name]) or errors[name].strip() if name in errors else "",
                _of(r"Error: (.*?)\.?$", said[name][-1]),
                _of(r"crypto offload parameters: (.*?)\s*$", part),
            )
        return found

    def _ask(self, lines, before=""):
        """What `ip` says to each line. One that the database refuses ends it: there is one for each."""
        script = self.host.lab.tmp / f"{self.host.name}.sh"
        script.write_text(before + "".join(f"ip {line} 2>&1; echo @\n" for line in lines))
        command = argv6("sh", script)
        done = self.daemon.exec(*command, timeout=120) if self.daemon else self.host.run(*command, timeout=120)
        return done.stdout.split("@\n")[:-1]

    def _no_words(self):
        source, library = self.host.lab.tmp / "no_words.c", self.host.lab.tmp / "no_words.so"
        if not library.exists():
            source.write_text(_NO_WORDS)
            subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
        return library


def _of(pattern, text):
    match = re.search(pattern, text, flags=re.M)
    return match[1] if match else ""
