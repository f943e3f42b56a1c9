# SPDX-License-Identifier: Apache-2.0
"""The maps that meshdnsd shares with the kernel program (dnsd/kernel/program/answer_maps.h), by bpf(2) without a library."""

import ctypes
import mmap
import os
import platform
import socket
import struct
import time

_CALL = {"x86_64": 321, "aarch64": 280}.get(platform.machine(), 321)
_CREATE, _LOOKUP, _UPDATE, _DELETE, _GET_PINNED, _TEST_RUN, _PROGRAM_BY_ID = 0, 1, 2, 3, 7, 10, 13
_libc = ctypes.CDLL(None, use_errno=True)

VERSION, SLOTS, MAX_NAME, MAX_TAIL, MAX_DEPENDENCIES = 3, 65536, 128, 288, 8
COUNTERS = (*(f"answered_{family}_{rtype}" for family in ("ipv4", "ipv6") for rtype in ("a", "aaaa", "other")), "answered_do",
            *(f"passed_{why}" for why in ("other", "client", "route", "absent", "old", "size", "asleep", "limit")))


def _bpf(command, attributes):
    buffer = ctypes.create_string_buffer(attributes.ljust(128, b"\0"), 128)
    result = _libc.syscall(_CALL, command, buffer, 128)
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def check_permission():
    """Fails with an OSError unless maps can be made."""
    os.close(_bpf(_CREATE, struct.pack("IIII", 2, 4, 4, 1)))


class Program:
    """A loaded tc program."""

    def __init__(self, number):
        self.fd = _bpf(_PROGRAM_BY_ID, struct.pack("I", number))

    def run(self, frame, interface):
        """The action for a frame that enters by an interface of this thread's namespace, and the frame behind it."""
        given = ctypes.create_string_buffer(frame, len(frame))
        made = ctypes.create_string_buffer(2048)
        context = ctypes.create_string_buffer(struct.pack("40xI", interface), 192)  # __sk_buff.ifindex
        attributes = ctypes.create_string_buffer(
            struct.pack("IIIIQQIIIIQQ", self.fd, 0, len(frame), len(made), ctypes.addressof(given),
                        ctypes.addressof(made), 1, 0, len(context), 0, ctypes.addressof(context), 0), 128)
        if _libc.syscall(_CALL, _TEST_RUN, attributes, 128) < 0:
            raise OSError(ctypes.get_errno(), "BPF_PROG_TEST_RUN")
        action, _, size = struct.unpack_from("iII", attributes, 4)
        return action, made.raw[:size]

    def close(self):
        os.close(self.fd)


class Map:
    def __init__(self, path, value_size):
        name = ctypes.create_string_buffer(os.fsencode(path))
        self.fd = _bpf(_GET_PINNED, struct.pack("QII", ctypes.addressof(name), 0, 0))
        self._value_size = value_size

    def _element(self, command, key, value, flags=0):
        keys, values = ctypes.create_string_buffer(key, len(key)), ctypes.create_string_buffer(value, len(value))
        _bpf(command, struct.pack("IIQQQ", self.fd, 0, ctypes.addressof(keys), ctypes.addressof(values), flags))
        return values.raw

    def update(self, key, value):
        assert len(value) == self._value_size
        self._element(_UPDATE, key, value)

    def lookup(self, key):
        return self._element(_LOOKUP, key, bytes(self._value_size))

    def delete(self, key):
        keys = ctypes.create_string_buffer(key, len(key))
        _bpf(_DELETE, struct.pack("IIQ", self.fd, 0, ctypes.addressof(keys)))

    def close(self):
        os.close(self.fd)


class SampleRing:
    """Reads the samples: header of 8 octets, then the sample, at multiples of 8."""

    def __init__(self, path):
        ring = Map(path, 0)
        page = mmap.PAGESIZE
        self._consumer = mmap.mmap(ring.fd, page)
        self._producer = mmap.mmap(ring.fd, page * 2, prot=mmap.PROT_READ, offset=page)
        ring.close()

    def take(self):
        """The first unread sample."""
        page = mmap.PAGESIZE
        read, = struct.unpack_from("Q", self._consumer, 0)
        assert read < page, "the test reads the first page only"
        size, = struct.unpack_from("I", self._producer, page + read)
        self._consumer[0:8] = struct.pack("Q", read + (size + 15) // 8 * 8)
        return self._producer[page + read + 8:page + read + 8 + size]

    def close(self):
        self._consumer.close()
        self._producer.close()


def address_octets(text):
    return socket.inet_pton(socket.AF_INET6, text if ":" in text else f"::ffff:{text}")


def _possible_cpus():
    with open("/sys/devices/system/cpu/possible", encoding="ascii") as file:
        return int(file.read().strip().split("-")[-1]) + 1


class AnswerMaps:
    """Plays the daemon that fills the maps in `folder`."""

    def __init__(self, folder):
        sizes = {"control": 32, "generations": 8, "accounts": 8, "served": 1, "clients": 40, "answers": 360,
                 "counters": 8 * _possible_cpus()}
        self.maps = {name: Map(folder / name, size) for name, size in sizes.items()}

    def close(self):
        for each in self.maps.values():
            each.close()

    def beat(self, age=0.0, sample_every=0, price_us=0):
        beat = time.clock_gettime_ns(time.CLOCK_MONOTONIC) - int(age * 1e9)
        self.maps["control"].update(bytes(4), struct.pack("IIQQQ", VERSION, sample_every, 7, beat, price_us))

    def sleep(self):
        self.maps["control"].update(bytes(4), struct.pack("IIQQQ", VERSION, 0, 7, 0, 0))

    def version(self):
        return struct.unpack_from("I", self.maps["control"].lookup(bytes(4)))[0]

    def generation(self, slot):
        return struct.unpack("Q", self.maps["generations"].lookup(struct.pack("I", slot)))[0]

    def move(self, slot, by=1):
        self.maps["generations"].update(struct.pack("I", slot), struct.pack("Q", self.generation(slot) + by))

    def serve(self, address, port):
        self.maps["served"].update(address_octets(address) + struct.pack("!HH", port, 0), b"\1")

    def stamp(self, *slots):
        return sum(self.generation(slot) for slot in (0, *slots))

    def add_client(self, address, view, slot=1, stamp=None, account=(0, 0), life=3600.0):
        stamp = self.stamp(slot) if stamp is None else stamp
        until = time.clock_gettime_ns(time.CLOCK_MONOTONIC) + int(life * 1e9)
        self.maps["clients"].update(address_octets(address),
                                    struct.pack("16sQQIHH", view.encode(), stamp, until, slot, *account))

    @staticmethod
    def question(view, name, rtype, has_opt=False, dnssec_ok=False):
        return struct.pack("16s128s", view.encode(), name) + struct.pack("!HBB", rtype, has_opt + 2 * dnssec_ok, 0)

    def add_answer(self, question, answer):
        self.maps["answers"].update(question, answer)

    def answer(self, tail, counts, flags=0x8400, slots=(), records=(0, 0), stamp=None, rcode=0):
        """`records`: number and size of those that rotate."""
        stamp = self.stamp(*slots) if stamp is None else stamp
        slots = (*slots, *[0] * (MAX_DEPENDENCIES - len(slots)))
        dependencies = sum(1 for slot in slots if slot)
        return (struct.pack("QQ8IIBBBB", stamp, 3, *slots, 0, dependencies, *records, rcode) +
                struct.pack("!HHHH", flags, *counts) +
                struct.pack("HH288s4x", len(tail), 0, tail))

    def counters(self):
        values = {}
        for index, name in enumerate(COUNTERS):
            per_cpu = self.maps["counters"].lookup(struct.pack("I", index))
            values[name] = sum(struct.unpack(f"{len(per_cpu) // 8}Q", per_cpu))
        return values
