"""Runs a program for which the kernel has no sockets of one address family: forbid_family.py FAMILY PROGRAM ARGUMENTS."""

import ctypes
import errno
import os
import struct
import sys

PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 22, 2
LOAD, JUMP_IF_EQUAL, RETURN = 0x20, 0x15, 0x06
ALLOW, ERRNO = 0x7FFF_0000, 0x0005_0000
#: Of x86-64 and of 64-bit Arm.
SOCKET = {"x86_64": 41, "aarch64": 198}


def instructions(family, call):
    """`socket(family, ...)` fails with EAFNOSUPPORT; the second word of seccomp_data is the first argument."""
    yield LOAD, 0, 0, 0
    yield JUMP_IF_EQUAL, 0, 3, call
    yield LOAD, 0, 0, 16
    yield JUMP_IF_EQUAL, 0, 1, family
    yield RETURN, 0, 0, ERRNO | errno.EAFNOSUPPORT
    yield RETURN, 0, 0, ALLOW


def forbid(family):
    code = b"".join(struct.pack("HBBI", *one) for one in instructions(family, SOCKET[os.uname().machine]))
    buffer = ctypes.create_string_buffer(code, len(code))
    program = struct.pack("HxxxxxxP", len(code) // 8, ctypes.addressof(buffer))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, program, 0, 0):
        raise OSError(ctypes.get_errno(), "seccomp")


if __name__ == "__main__":
    forbid(int(sys.argv[1]))
    os.execvp(sys.argv[2], sys.argv[2:])
