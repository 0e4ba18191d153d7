"""The lines of pretest.dat, evaltest.dat and posttest.dat, and what they demand.

    host::command                              (pretest, posttest)
    host::command::pattern::YES|NO|count       (evaltest)

The suite's do-tests turns them into shell text and evaluates that. What follows from it, and is
kept here: runs of blanks become one blank; commands are read by two shells, the tester's and the
host's; a pattern stands between the double quotes of a shell before grep sees it.
"""

import re
import shlex
import subprocess
from dataclasses import dataclass

#: What the command field holds where the host's capture is to be searched.
CAPTURE = "tcpdump"


class DatError(Exception):
    """A line that cannot be understood."""


@dataclass(frozen=True)
class Action:
    """One line of pretest.dat or posttest.dat."""

    host: str
    command: str

    def script(self):
        """The text for the host's shell: `ssh HOST "COMMAND"` as the tester's shell reads it."""
        return f'on() {{ bash -c "$*"; }}; on "{self.command}"'


@dataclass(frozen=True)
class Check:
    """One line of evaltest.dat."""

    host: str
    command: str
    pattern: str
    hit: str

    @property
    def is_capture(self):
        return self.command == CAPTURE

    def script(self):
        """The text for the host's shell: `ssh HOST COMMAND`, without quotes."""
        return f'on() {{ bash -c "$*"; }}; on {self.command}'

    def __str__(self):
        return f"{self.host}::{self.command}::{self.pattern}::{self.hit}"

    def holds(self, output):
        """Whether the output is what the line demands; returns (verdict, matching lines)."""
        found = matching(self.pattern, output)
        if re.fullmatch(r"[0-9]+", self.hit):
            # The suite counts the lines of `echo "$found"`, of which there is always one.
            return max(1, len(found)) == int(self.hit), found
        if self.hit == "YES":
            return bool(found), found
        if self.hit == "NO":
            return not found, found
        return True, found


def actions(text):
    """The actions of a pretest.dat or posttest.dat."""
    found = []
    for line in _lines(text):
        fields = line.split("::")
        if len(fields) > 1 and fields[1].strip():
            found.append(Action(fields[0].strip(), fields[1].strip()))
    return found


def checks(text):
    """The checks of an evaltest.dat, in order. A line without a pattern matches any line."""
    found = []
    for line in _lines(text):
        fields = [field.strip() for field in line.split("::")]
        if len(fields) < 2 or not fields[1]:
            continue
        fields += [""] * (4 - len(fields))
        found.append(Check(*fields[:4]))
    return found


def _lines(text):
    for line in text.splitlines():
        if not line.startswith("#"):
            yield re.sub(r"\s+", " ", line)


def matching(pattern, output):
    """The lines of `output` that grep finds with `pattern`, which has stood in double quotes."""
    done = subprocess.run(
        ["grep", "-a", "--", unquoted(pattern)],
        input=output, capture_output=True, text=True, errors="replace", check=False,
    )  # fmt: skip
    if done.returncode > 1:
        raise DatError(f"grep {shlex.quote(unquoted(pattern))}: {done.stderr.strip()}")
    return done.stdout.splitlines()


def unquoted(text):
    """What a shell makes of text between double quotes that expands nothing."""
    return re.sub(r'\\([\\"$`])', r"\1", text)


#: Words that are part of the shell, or that the suite's own programs bring.
_SHELL = {"cd", "echo", "sleep", "set", "export", "exit", "true", "kill", "on", "if", "while"}


def programs(commands):
    """The programs that command lines start: the first word of each simple command."""
    found = set()
    for command in commands:
        for part in re.split(r";|&&|\|\|?|&", re.sub(r"'[^']*'|\d?>&\d|`[^`]*`", "", command)):
            words = [word for word in part.strip(' "').split() if "=" not in word]
            if words and words[0] not in _SHELL and not words[0].startswith((">", "<", "2>")):
                found.add(words[0])
    return found
