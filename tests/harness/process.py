# SPDX-License-Identifier: Apache-2.0
"""A child process whose output is kept line by line, and which never outlives the tests."""

import re
import shutil
import signal
import subprocess
import threading

from harness.waiting import seconds

# The kernel ends the child when the test process dies, however it dies.
_DIE_WITH_PARENT = [shutil.which("setpriv") or "/usr/bin/setpriv", "--pdeathsig", "KILL"]

# Matches the reports of a sanitizer build.
_SANITIZER_REPORT = re.compile(r"(Address|Leak|Thread|UndefinedBehavior)Sanitizer|runtime error:")


class Process:
    def __init__(self, arguments, name, env=None, cwd=None, prefix=(), pass_fds=()):
        self.name = name
        self.arguments = [str(a) for a in arguments]
        self._lines = []
        self._ended = False
        self._changed = threading.Condition()
        self._popen = subprocess.Popen(
            [*_DIE_WITH_PARENT, *prefix, *self.arguments], stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=env, cwd=cwd,
            pass_fds=pass_fds)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def pid(self):
        return self._popen.pid

    @property
    def exit_code(self):
        return self._popen.poll()

    def is_running(self):
        return self._popen.poll() is None

    def _read(self):
        for raw in self._popen.stdout:
            with self._changed:
                self._lines.append(raw.decode("utf-8", "replace").rstrip("\n"))
                self._changed.notify_all()
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def log_lines(self):
        with self._changed:
            return list(self._lines)

    def log_tail(self, count=40):
        return "\n".join(f"  {self.name}| {line}" for line in self.log_lines()[-count:])

    def wait_for_line(self, pattern, limit=10.0, after=0):
        """The first output line that `pattern` is found in, from line number `after` on."""
        expression = re.compile(pattern)

        def found():
            return next((line for line in self._lines[after:] if expression.search(line)), None)

        with self._changed:
            self._changed.wait_for(lambda: found() or self._ended, seconds(limit))
            line = found()
        assert line, (f"{self.name}: no line matches {pattern!r} within {limit} s"
                      f" (exit code {self.exit_code})\n{self.log_tail()}")
        return line

    def send_signal(self, number):
        self._popen.send_signal(number)

    def wait(self, limit=10.0):
        """The exit code.  Fails when the process does not end by itself."""
        try:
            code = self._popen.wait(seconds(limit))
        except subprocess.TimeoutExpired:
            raise AssertionError(
                f"{self.name} (pid {self.pid}) still runs after {limit} s\n{self.log_tail()}") from None
        self._reader.join(seconds(2))
        return code

    def stop(self, number=signal.SIGTERM, limit=10.0):
        """Ends the process, by force if need be, and returns its exit code."""
        if self.is_running():
            self.send_signal(number)
        try:
            return self.wait(limit)
        finally:
            if self.is_running():
                self._popen.kill()
                self._popen.wait()

    def kill(self):
        if self.is_running():
            self._popen.kill()
        self._popen.wait()
        self._reader.join(seconds(2))

    def sanitizer_reports(self):
        return [line for line in self.log_lines() if _SANITIZER_REPORT.search(line)]
