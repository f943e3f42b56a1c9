# SPDX-License-Identifier: Apache-2.0
"""sandbox.py UNIT PROGRAM [ARGUMENT...]: runs a program under the system call rules of a systemd unit, without systemd:
SystemCallFilter, SystemCallErrorNumber=EPERM, MemoryDenyWriteExecute and NoNewPrivileges."""

import ctypes
import ctypes.util
import errno
import os
import pathlib
import subprocess
import sys

_ALLOW = 0x7FFF0000
_REFUSE = 0x00050000 | errno.EPERM
_MASKED_EQUAL = 7
_WRITE, _EXECUTE, _SHARED_EXECUTE = 2, 4, 0o100000


class Comparison(ctypes.Structure):
    _fields_ = [("argument", ctypes.c_uint), ("operator", ctypes.c_int), ("mask", ctypes.c_uint64),
                ("value", ctypes.c_uint64)]


def library():
    """libseccomp, or None."""
    name = ctypes.util.find_library("seccomp")
    if name is None:
        return None
    seccomp = ctypes.CDLL(name, use_errno=True)
    seccomp.seccomp_init.restype = ctypes.c_void_p
    return seccomp


def values(unit, key):
    lines = (line.split("=", 1) for line in pathlib.Path(unit).read_text().splitlines() if "=" in line)
    return [value.strip() for name, value in lines if name.strip() == key]


def expand(name):
    """The system calls of a set ("@system-service"), as this machine's systemd has it."""
    if not name.startswith("@"):
        return {name}
    lines = subprocess.run(["systemd-analyze", "syscall-filter", name], check=True, capture_output=True,
                           text=True).stdout.splitlines()
    members = [line.strip() for line in lines if line.startswith("  ") and not line.strip().startswith("#")]
    return set().union(*(expand(member) for member in members))


def allowed_calls(unit):
    calls = expand("@default")  # systemd adds these to each list
    for value in values(unit, "SystemCallFilter"):
        named = set().union(*(expand(name) for name in value.removeprefix("~").split()))
        calls = calls - named if value.startswith("~") else calls | named
    return calls | {"execve"}


def add_rule(seccomp, filter_, action, call, *comparisons):
    number = seccomp.seccomp_syscall_resolve_name(call.encode())
    if number < 0:  # of another architecture
        return
    array = (Comparison * max(1, len(comparisons)))(*comparisons)
    status = seccomp.seccomp_rule_add_array(ctypes.c_void_p(filter_), ctypes.c_uint32(action), number, len(comparisons),
                                            array)
    assert status == 0, f"{call}: {os.strerror(-status)}"


def start(action):
    """A filter that answers with `action` to calls without a rule."""
    return library().seccomp_init(ctypes.c_uint32(action))


def load(seccomp, filter_):
    status = seccomp.seccomp_load(ctypes.c_void_p(filter_))
    assert status == 0, f"seccomp: {os.strerror(-status)}"


def confine(unit):
    seccomp = library()
    if values(unit, "MemoryDenyWriteExecute") == ["yes"]:
        memory = seccomp.seccomp_init(ctypes.c_uint32(_ALLOW))
        both = _WRITE | _EXECUTE
        add_rule(seccomp, memory, _REFUSE, "mmap", Comparison(2, _MASKED_EQUAL, both, both))
        for call in ("mprotect", "pkey_mprotect"):
            add_rule(seccomp, memory, _REFUSE, call, Comparison(2, _MASKED_EQUAL, _EXECUTE, _EXECUTE))
        add_rule(seccomp, memory, _REFUSE, "shmat", Comparison(2, _MASKED_EQUAL, _SHARED_EXECUTE, _SHARED_EXECUTE))
        load(seccomp, memory)
    calls = seccomp.seccomp_init(ctypes.c_uint32(_REFUSE))
    for call in allowed_calls(unit):
        add_rule(seccomp, calls, _ALLOW, call)
    load(seccomp, calls)


if __name__ == "__main__":
    confine(sys.argv[1])
    os.execv(sys.argv[2], sys.argv[2:])
