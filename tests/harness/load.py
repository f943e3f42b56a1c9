# SPDX-License-Identifier: Apache-2.0
"""Load on a daemon: steps that a process of their own repeats until it is stopped."""

import multiprocessing
import random
import time
import traceback

_FORK = multiprocessing.get_context("fork")


class Load:
    """Calls `step(random, state, *arguments)` again and again, at most `rate` times a second.

    A step may set `state["pause"]`, the seconds until the next one.  The same `seed` gives the same steps; without one, the
    test's own draws decide.
    """

    def __init__(self, step, rate, *arguments, seed=None):
        seed = random.randrange(1 << 32) if seed is None else seed
        self._stopping = _FORK.Event()
        self._problems = _FORK.SimpleQueue()
        self._steps = _FORK.Value("Q", 0)
        self._process = _FORK.Process(target=self._run, args=(step, rate, arguments, seed), daemon=True)
        self._process.start()
        self.name = step.__name__

    def _run(self, step, rate, arguments, seed):
        chance, state = random.Random(f"{seed}-{step.__name__}"), {}
        next_at = time.monotonic()
        while not self._stopping.is_set():
            try:
                problem = step(chance, state, *arguments)
            except Exception:  # whatever it is, the test is to say it
                problem = traceback.format_exc()
            self._steps.value += 1
            if problem:
                self._problems.put(problem)
                return
            next_at = max(next_at + state.pop("pause", 1 / rate), time.monotonic() - 0.1)
            self._stopping.wait(max(0.0, next_at - time.monotonic()))

    @property
    def steps(self):
        return self._steps.value

    @property
    def has_ended(self):
        """True once it has stopped by itself: stop() tells why."""
        return not self._process.is_alive()

    def stop(self):
        """Returns the first failure; None if there was none."""
        self._stopping.set()
        self._process.join(30)
        died = self._process.exitcode != 0
        self._process.kill()
        if not self._problems.empty():
            return f"{self.name}: {self._problems.get()}"
        return f"{self.name}: ended with {self._process.exitcode}" if died else None
