# SPDX-License-Identifier: Apache-2.0
"""An upstream server for floods: raw octets, no library, one process of its own.

Every name has one address, except those with a label `missing`, which do not exist.  The TTL is 1 s for names
with a label `short`, else 300 s.  `mood` may be changed at any time.
"""

import multiprocessing
import socket

ANSWERS, SILENT, SERVFAIL = range(3)
ADDRESS = bytes([192, 0, 2, 99])
_SOA_RDATA = b"\x02ns\xc0\x0c\x04host\xc0\x0c" + b"".join(n.to_bytes(4, "big") for n in (1, 3600, 600, 86400, 30))


def _reply(query, mood):
    """The answer to one whole query; None for what is no query."""
    if len(query) < 17 or query[2] & 0x80:
        return None
    end, labels = 12, []
    while query[end]:
        labels.append(bytes(query[end + 1:end + 1 + query[end]]).lower())
        end += 1 + query[end]
    question = query[12:end + 5]
    is_a = question[-4:-2] == b"\0\1"
    header = bytearray(query[:12])
    header[2], header[3] = 0x80 | (query[2] & 0x01), 0x80
    header[4:12] = b"\0\1\0\0\0\0\0\0"
    if mood == SERVFAIL:
        header[3] |= 2
        return bytes(header) + question
    if b"missing" in labels or not is_a:
        header[3] |= 3 if b"missing" in labels else 0
        header[9] = 1
        soa = b"\xc0\x0c\0\6\0\1" + (30).to_bytes(4, "big") + len(_SOA_RDATA).to_bytes(2, "big") + _SOA_RDATA
        return bytes(header) + question + soa
    header[7] = 1
    ttl = 1 if b"short" in labels else 300
    return bytes(header) + question + b"\xc0\x0c\0\1\0\1" + ttl.to_bytes(4, "big") + b"\0\4" + ADDRESS


def _serve(udp, mood):
    while True:
        query, client = udp.recvfrom(4096)
        if mood.value != SILENT:
            reply = _reply(query, mood.value)
            if reply:
                udp.sendto(reply, client)


class Upstream:
    """Serves over UDP from construction to close()."""

    def __init__(self):
        udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        udp.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
        udp.bind(("127.0.0.1", 0))
        self.server = "127.0.0.1:{}".format(udp.getsockname()[1])
        self._mood = multiprocessing.Value("i", ANSWERS)
        self._process = multiprocessing.get_context("fork").Process(target=_serve, args=(udp, self._mood), daemon=True)
        self._process.start()
        udp.close()

    def be(self, mood):
        self._mood.value = mood

    def close(self):
        self._process.kill()
        self._process.join()
