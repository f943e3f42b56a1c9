# SPDX-License-Identifier: Apache-2.0
"""Collects every YAML file below this folder: each document is one test."""

import re
import tempfile

import pytest

from harness.preset import IS_SANITIZED, ONE_THREAD
from harness.scenario import ScenarioError, ScenarioRun, load, takes_too_long


def pytest_collect_file(parent, file_path):
    if file_path.suffix == ".yaml":
        return ScenarioFile.from_parent(parent, path=file_path)
    return None


class ScenarioFile(pytest.File):
    def collect(self):
        for scenario in load(self.path):
            name = re.sub(r"[^\w.*/-]+", "-", scenario["name"])
            yield ScenarioItem.from_parent(self, name=name, scenario=scenario, reverse=False)
            if scenario.get("any_order"):
                yield ScenarioItem.from_parent(self, name=f"{name}-reversed", scenario=scenario,
                                               reverse=True)


class ScenarioItem(pytest.Item):
    def __init__(self, *, scenario, reverse, **options):
        super().__init__(**options)
        self.scenario = scenario
        self.reverse = reverse
        self.add_marker(ONE_THREAD)

    def runtest(self):
        if takes_too_long(self.scenario):
            pytest.skip("real time would have to pass; scenarios_test runs it with fake time")
        if IS_SANITIZED and self.scenario.get("needs") != "daemon":
            pytest.skip("scenarios_test runs it under the sanitizer, without a daemon for each")
        with tempfile.TemporaryDirectory(prefix="meshdns-scenario-") as directory:
            run = ScenarioRun(self.scenario, directory, self.reverse)
            try:
                run.run()
            except AssertionError:
                self.add_report_section("call", "daemon's log", run.log())
                raise

    def repr_failure(self, excinfo):
        if excinfo.errisinstance((AssertionError, ScenarioError)):
            return f"{self.scenario['name']}\n{excinfo.value}"
        return super().repr_failure(excinfo)

    def reportinfo(self):
        return self.path, 0, f"scenario: {self.scenario['name']}"
