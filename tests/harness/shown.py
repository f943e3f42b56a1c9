# SPDX-License-Identifier: Apache-2.0
"""Compares the output of a command with what a page shows: `...` stands for any text, and a line of only that for any lines."""

import re


def normalised(line):
    """Without what differs from run to run: TTLs, serials, ports, places and numbers of the machine."""
    line = re.sub(r"\s+", " ", line.strip())
    line = line.replace('" "', "")  # the strings of a TXT record, of which a longer path makes more
    line = re.sub(r"^(\S+) \d+ (IN|CH) ", r"\1 \2 ", line)
    line = re.sub(r"127\.0\.0\.1:\d+|10\.0\.0\.53:53", "UPSTREAM", line)
    line = re.sub(r"\([^() ]*/(shop\.yaml:\d+)\)", r"(\1)", line)
    line = re.sub(r"\b\d+(\.\d+)? (s|ms)\b", r"N \2", line)
    line = re.sub(r"generation \d+, \S+ hosts?, serial \d+", "generation N, N hosts, serial N", line)
    return re.sub(r"(IN SOA \S+ \S+) \d+", r"\1", line)


VOLATILE = re.compile(r"^;; (Query time|WHEN|MSG SIZE|SERVER|->>HEADER)|^; <<>> DiG|^;; global|COOKIE")


def check_shown(command, shown, output):
    """Each line of `shown` is a line of `output`."""
    found = [normalised(line) for line in output.splitlines()]
    for line in shown:
        if VOLATILE.search(line) or line in ("...", "…"):
            continue
        pattern = ".*".join(re.escape(part) for part in normalised(line).split("..."))
        assert any(re.fullmatch(pattern, text) for text in found), (
            f"{line!r} is shown, but `{command}` says:\n{output}")
