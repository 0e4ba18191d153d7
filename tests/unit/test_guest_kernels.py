"""Kernels that may not boot on this processor: one is tried before it is used, and what it lacks is said in one line."""

import sys
from pathlib import Path

import pytest
from lab import guest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "demo"))

import compare  # noqa: E402

#: What Linux 6.1 says on a processor with AMX, with the rest of its sixty lines.
PANIC = """\
Core dump limits :
	soft - 0
printk: console [stderr0] disabled
start_userspace: ptrace set fp regs failed, errno = 14
Kernel panic - not syncing: start_userspace: something
CPU: 0 PID: 1 Comm: true Not tainted 6.1 #1
Call Trace:
 [<6047b1a2>] panic+0x14c/0x2f0
"""
#: What a kernel says whose first program ends as it should.
BOOTED = "Linux version 7.2\nKernel panic - not syncing: Attempted to kill init! exitcode=0x00000000\nCall Trace:\n"


@pytest.fixture
def kernels(tmp_path, monkeypatch):
    """Makes programs of a folder that say what a kernel would."""
    monkeypatch.setattr(guest, "ROOT", tmp_path)
    monkeypatch.delenv("CULVERT_KERNEL", raising=False)

    def make(name, says):
        file = tmp_path / "build/kernel" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"#!/bin/sh\ncat <<'END'\n{says}END\n")
        file.chmod(0o755)
        return file

    return make


def test_one_that_boots_is_taken(kernels):
    made = kernels("linux-6.12", BOOTED)
    assert guest.refusal(made) == ""
    assert guest.kernel_image() == made
    assert guest.kernel_missing() == ""


def test_one_that_does_not_boot_is_passed_over(kernels):
    kernels("linux-6.12", PANIC)
    newer = kernels("linux-7.2", BOOTED)
    assert guest.kernel_image() == newer
    assert guest.kernel_missing() == ""


def test_where_none_boots_the_reason_is_one_line(kernels, monkeypatch):
    made = kernels("linux-6.12", PANIC)
    why = guest.kernel_missing()
    assert "ptrace set fp regs failed, errno = 14" in why and str(made) in why and "make kernel VERSION=7.2" in why
    assert "\n" not in why and len(why) < 400
    assert guest.culvert_guest_missing() == why
    monkeypatch.setenv("CULVERT_KERNEL", str(made))
    assert guest.kernel_missing() == why


def test_one_that_says_nothing_or_cannot_run_is_no_kernel(kernels):
    assert guest.refusal(kernels("linux-6.12", "")) == "without a word"
    broken = kernels("linux-7.2", BOOTED)
    broken.write_text("no program\n")
    assert "Exec format error" in guest.refusal(broken)


def test_without_a_kernel_it_says_how_to_get_one(kernels):
    assert "make kernel" in guest.kernel_missing()


def test_a_comparison_leaves_the_guest_out_in_one_line(kernels, monkeypatch):
    monkeypatch.setattr(compare, "ROOT", guest.ROOT)
    kernels("linux-7.2", PANIC * 8)
    # Set by measure_in_guest, and taken back with this.
    monkeypatch.setenv("CULVERT_KERNEL", str(guest.ROOT / "build/kernel/linux-7.2"))
    columns = ["guest-clear", "guest-kernel"]
    events = list(compare.measure_in_guest(columns, rounds=1, seconds=1))
    assert [event["column"] for event in events] == columns
    assert all("errno = 14" in event["skipped"] and "\n" not in event["skipped"] for event in events)
