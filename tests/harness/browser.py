# SPDX-License-Identifier: Apache-2.0
"""A real browser, for pages whose script draws them."""

import base64
import json
import os
import select
import shutil
import struct
import subprocess
import time

from harness.waiting import seconds

HAS_BROWSER = shutil.which("chromium") is not None


class Browser:
    """Chromium without a window, told what to do through a pipe (its option --remote-debugging-pipe).  A page that
    its script draws is not complete when it is loaded, so the test says itself what it waits for."""

    def __init__(self, directory):
        commands, self._commands = os.pipe()
        self._replies, replies = os.pipe()
        self._errors = directory / "chromium.err"
        with self._errors.open("wb") as errors:
            self._process = subprocess.Popen(
                # The browser reads its descriptor 3 and writes to 4.
                ["bash", "-c", f'exec "$@" 3<&{commands} 4>&{replies}', "bash",
                 "chromium", "--headless", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu",
                 "--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking",
                 "--disable-component-update", "--disable-sync", "--disable-extensions", "--hide-scrollbars",
                 f"--user-data-dir={directory / 'chromium'}",
                 # Resources of other machines cannot be loaded, and a page that needs them would show it.
                 "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"],
                pass_fds=(commands, replies), stdout=subprocess.DEVNULL, stderr=errors)
        os.close(commands)
        os.close(replies)
        self._received = b""
        self._last = 0
        target = self._tell("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._tell("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.set_size(1300, 1400)

    def close(self):
        os.close(self._commands)  # the browser ends with its pipe
        os.close(self._replies)
        try:
            self._process.wait(seconds(10))
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _tell(self, method, session=None, **parameters):
        """The result of a command of the DevTools protocol."""
        self._last += 1
        command = {"id": self._last, "method": method, "params": parameters}
        if session is not None:
            command["sessionId"] = session
        os.write(self._commands, json.dumps(command).encode() + b"\0")
        while True:
            reply = json.loads(self._next_message())
            if reply.get("id") == self._last:  # all others are events
                assert "error" not in reply, reply
                return reply["result"]

    def _next_message(self):
        deadline = time.monotonic() + seconds(60)
        while b"\0" not in self._received:
            readable, _, _ = select.select([self._replies], [], [], max(0.0, deadline - time.monotonic()))
            octets = os.read(self._replies, 1 << 16) if readable else b""
            assert octets, "the browser says nothing: " + self._errors.read_text(errors="replace")[-2000:]
            self._received += octets
        message, self._received = self._received.split(b"\0", 1)
        return message

    def show(self, url):
        self._tell("Page.navigate", self._session, url=url)

    def value(self, expression):
        """The value of a JavaScript expression in the page."""
        return self._tell("Runtime.evaluate", self._session, expression=expression)["result"].get("value")

    def set_size(self, width, height):
        self._tell("Emulation.setDeviceMetricsOverride", self._session, width=width, height=height, deviceScaleFactor=1,
                   mobile=False)

    def picture(self):
        """(width, height, octets) of a screenshot of the window."""
        octets = base64.b64decode(self._tell("Page.captureScreenshot", self._session)["data"])
        assert octets.startswith(b"\x89PNG\r\n\x1a\n")
        return *struct.unpack(">II", octets[16:24]), len(octets)
