# SPDX-License-Identifier: Apache-2.0
"""Scripted upstreams in a process of their own, so that the work of a test does not delay their answers."""

import multiprocessing
import time

from harness.fake_upstream import FakeUpstream
from harness.ports import free_port

_FORK = multiprocessing.get_context("fork")
CLOSED = "closed"  # a mood in which nobody listens


class _Moody(FakeUpstream):
    def __init__(self, moods, mood, **options):
        self._names, self._mood, self._by_mood = list(moods), mood, None
        super().__init__(**options)
        self._by_mood = [self.parse_rules(rules) for rules in moods.values()]

    @property
    def mood(self):
        return self._names[self._mood.value]

    def current_rules(self):
        return self._by_mood[self._mood.value] if self._by_mood else []

    def follow_mood(self):
        """Opens and closes the sockets; the rules need nobody to follow them."""
        self.listen(self.mood != CLOSED)


def _serve(moods, options):
    upstreams = [_Moody(moods, mood, **each) for mood, each in options]
    while True:
        for upstream in upstreams:
            upstream.follow_mood()
        time.sleep(0.05)


class MoodyUpstreams:
    """`count` servers from construction to close(), all in the first of `moods` at first: {name: rules}.  With
    `certificates`, each speaks TLS on another port, too."""

    def __init__(self, count, moods, records=(), zone=None, certificates=None, seed=1):
        self._names = list(moods)
        self._moods = [_FORK.Value("i", 0) for _ in range(count)]
        self._ports = [(free_port(), free_port() if certificates else None) for _ in range(count)]
        options = []
        for i, (mood, ports) in enumerate(zip(self._moods, self._ports)):
            for port, pair in zip(ports, (None, certificates)):
                if port:
                    options.append((mood, {"zone": zone, "records": records, "port": port, "certificates": pair,
                                           "seed": f"{seed}-upstream-{i}"}))
        self._process = _FORK.Process(target=_serve, daemon=True, args=(moods, options))
        self._process.start()

    def __len__(self):
        return len(self._moods)

    def plain(self, i):
        """The server for UDP and TCP, as the configuration names it."""
        return f"127.0.0.1:{self._ports[i][0]}"

    def tls(self, i):
        return f"tls://127.0.0.1:{self._ports[i][1]}#localhost"

    def be(self, i, mood):
        self._moods[i].value = self._names.index(mood)

    def is_alive(self):
        return self._process.is_alive()

    def close(self):
        self._process.kill()
        self._process.join()
