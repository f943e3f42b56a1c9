# SPDX-License-Identifier: Apache-2.0
"""A directory with resources, and everything that one test runs on it."""

import itertools

from harness.daemon import Daemon, base_config, merge
from harness.fake_upstream import FakeUpstream
from harness.scenario import to_yaml, write_atomically


class Workspace:
    """A directory with a `resources` folder, and the daemons and upstreams of one test."""

    def __init__(self, path):
        self.path = path
        self.resources = path / "resources"
        self.resources.mkdir()
        self._running = []
        self._processes = []
        self._numbers = itertools.count()

    def write(self, name, *resources):
        """Writes manifests as an editor does, renaming a finished file into place."""
        write_atomically(self.resources / name, to_yaml(resources))

    def write_text(self, name, text):
        write_atomically(self.resources / name, text)

    def upstream(self, records=(), rules=(), **options):
        upstream = FakeUpstream(records, rules, **options)
        self._running.append(upstream)
        return upstream

    def own(self, server):
        """Ends `server` (a Daemon, or anything with close()) with the test."""
        self._running.append(server)
        return server

    def own_process(self, process):
        """Sees to it that `process` does not outlive the test; how it ends is the test's matter."""
        self._processes.append(process)
        return process

    def config(self, change=None, upstreams=()):
        config = base_config(self.resources, [u if isinstance(u, str) else u.server for u in upstreams])
        return merge(config, change or {})

    def daemon(self, change=None, upstreams=(), **options):
        """Starts a daemon on the resources and waits until it answers."""
        home = self.path / f"daemon-{next(self._numbers)}"
        home.mkdir()
        daemon = Daemon(self.config(change, upstreams), home, **options)
        self._running.append(daemon)
        return daemon

    def forget(self, server):
        """The test has ended `server` itself."""
        self._running.remove(server)

    def log(self):
        return "\n".join(r.process.log_tail(80) for r in self._running if isinstance(r, Daemon))

    def close(self):
        failures = []
        for running in reversed(self._running):
            try:
                running.stop() if isinstance(running, Daemon) else running.close()
            except AssertionError as failure:
                failures.append(str(failure))
        for process in self._processes:
            process.kill()
        assert not failures, "\n".join(failures)
