# SPDX-License-Identifier: Apache-2.0
"""The states of a service, and how many names clients did not get in each: the table of docs/operations.md.

With MESHDNS_TEST_STATES=FILE the tests append what they counted to FILE, a line of JSON each.  Run as a program with that file,
this one prints the table."""

import json
import os
import pathlib
import sys

PLACES = {"plain": "VM, plain `resolv.conf`", "resolved": "VM, systemd-resolved", "node": "node, `kube-dns-capture`"}
STATES = ["start", "failed start", "reload with a mistake", "restart", "stop", "crash", "roll-out", "roll-back", "reboot"]


def record(place, state, lost, asked):
    assert place in PLACES and state in STATES
    print(f"{PLACES[place]}: {state}: {lost} of {asked} lost")
    path = os.environ.get("MESHDNS_TEST_STATES")
    if path:
        with open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps({"place": place, "state": state, "lost": lost, "asked": asked}) + "\n")


def table(lines):
    """Of one or more runs, which are added up."""
    counts = {}
    for line in map(json.loads, lines):
        lost, asked = counts.get((line["state"], line["place"]), (0, 0))
        counts[line["state"], line["place"]] = lost + line["lost"], asked + line["asked"]

    def cell(state, place):
        lost, asked = counts.get((state, place), (0, 0))
        return f"{lost} of {asked:,}" if asked else ""
    rows = [["state", *PLACES.values()], ["---"] * (1 + len(PLACES)),
            *([state, *(cell(state, place) for place in PLACES)] for state in STATES)]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows).replace("| --- |", "|---|").replace(" --- |", "---|")


if __name__ == "__main__":
    print(table(pathlib.Path(sys.argv[1]).read_text().splitlines()))
