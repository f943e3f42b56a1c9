# SPDX-License-Identifier: Apache-2.0
"""The scenarios, asked through the kernel (server.kernel_answers): its answers are the daemon's, octet by octet.

MESHDNS_KERNEL_SCENARIOS=all runs all of them, and MESHDNS_KERNEL_SCENARIOS='gateways/*' those; without, some run that have
many answers of the registry."""

import os
import tempfile
import time

import pytest

from harness.daemon import ROOT
from harness.kernel_fixture import made_or_skipped
from harness.kernel_node import KernelNode
from harness.kernel_scenario import KernelScenarioRun, Tally, let_pods_ask_from_loopback, maps_of
from harness.namespaces import inside
from harness.preset import IS_SANITIZED, ONE_THREAD
from harness.scenario import load, takes_too_long

pytestmark = [ONE_THREAD, pytest.mark.root,
              pytest.mark.skipif(IS_SANITIZED, reason="no sanitizer sees the program, and scenarios_test runs the rest")]

FOLDER = ROOT / "tests" / "scenarios"
SELECTED = os.environ.get("MESHDNS_KERNEL_SCENARIOS", "")
FILES = ("kubernetes/03-headless", "serviceentry/01-addresses", "visibility/04-identity", "sources/01-changes")
# Answers of the kernel, at least.
FLOOR = {"": 60, "all": 800}.get(SELECTED, 1)


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    with made_or_skipped(KernelNode, tmp_path_factory.mktemp("kernel")) as made:
        let_pods_ask_from_loopback(made.node)
        yield made


def scenarios():
    """(file, scenario, client): a scenario of several clients has one turn for each."""
    patterns = {"": [f"{name}.yaml" for name in FILES], "all": ["**/*.yaml"]}.get(SELECTED, [f"{SELECTED}.yaml"])
    paths = [path for pattern in patterns for path in sorted(FOLDER.glob(pattern))]
    for path in paths:
        for scenario in load(path):
            if not takes_too_long(scenario):
                for client in scenario.get("clients", {"": None}):
                    yield path.relative_to(FOLDER), scenario, client


def test_the_kernel_answers_scenarios_as_the_daemon_does(node):
    total, failures = Tally(), []
    with inside(node.node.name), maps_of(node) as maps:
        for file, scenario, client in scenarios():
            tally, started = Tally(), time.monotonic()
            # Explanations have the names of the files, and their size has a limit.
            with tempfile.TemporaryDirectory(prefix="meshdns-scenario-") as directory:
                try:
                    KernelScenarioRun(node, maps, tally, scenario, directory, client).run()
                except AssertionError as failure:
                    failures.append(f"{file}: {scenario['name']} ({client}): {failure}")
            total += tally
            print(f"{file}: {scenario['name']} {client}: {tally}; {time.monotonic() - started:.2f} s")
    print(f"all: {total}")
    assert not failures, f"{len(failures)} scenarios failed:\n" + "\n".join(failures)
    assert total["kernel"] >= FLOOR, f"the kernel answered too little: {total}"
