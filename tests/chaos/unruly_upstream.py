# SPDX-License-Identifier: Apache-2.0
"""Upstream servers that misbehave in every way that a script can: over UDP, TCP and TLS, each in a mood.

A mood is a table of acts and their weights; each datagram, connection and message draws one.  An answer that may be
believed is always true; forged ones carry truth.FORGED and something that gives them away.
"""

import dns.name
import dns.rcode
import dns.rdatatype
import dns.rrset

import truth
from harness.fake_upstream import FORGED, one_of
from harness.moody_upstreams import CLOSED, MoodyUpstreams

assert truth.FORGED == FORGED
_LATE = [1.2, 1.8]  # seconds until a connection that said nothing is closed: beyond the first retry of a query
_LONGEST_HANG = 20  # seconds
_SLOW = [0.05, 3]
_WILD = b"wild"

# An act that is not here is the true answer, or a connection as it should be.
_ENDS = {"hang": {"hang": _LONGEST_HANG}, "close": {"hang": 0}, "reset": {"hang": 0, "reset": True},
         "late_close": {"hang": _LATE}, "late_reset": {"hang": _LATE, "reset": True}}
_OF_UDP = {"drop": {"silent": True}, "slow": {"delay": _SLOW}, "truncate": {"truncate": True}, "twice": {"copies": 2},
           "servfail": {"rcode": "SERVFAIL"}, "refused": {"rcode": "REFUSED"}, "formerr": {"rcode": "FORMERR"},
           "wrong_ids": {"forge": "wrong_id", "copies": 200}, "wrong_name": {"forge": "wrong_name"},
           "wrong_port": {"forge": "wrong_port"}, "garbage": {"forge": "garbage"}, "cut": {"forge": "cut_short"}}
_OF_HELLO = {**_ENDS, "garbage": {"say": "5d1f" * 60, "hang": [0, 0.2]},
             "half_hello": {"say": "160303007a020000760303", "hang": _LATE}}
_OF_STREAM = {**_ENDS, **_OF_UDP, "wrong_ids": {"forge": "wrong_id", "copies": 20}, "half": {"half": True, "hang": [0, 1.5]},
              "dribble": {"dribble": True}, "empty": {"say": "0000" * 50}, "half_shut": {"half_shut": True, "hang": _LATE}}


def _mood(udp=None, accept=None, stream=None):
    """Weights of acts for a datagram, a connection that is accepted, and a query on a connection."""
    rules = one_of(udp or {"answer": 1}, {act: {**rule, "transport": "udp"} for act, rule in _OF_UDP.items()})
    rules += one_of(stream or {"answer": 1}, {act: {**rule, "transport": "tcp"} for act, rule in _OF_STREAM.items()})
    rules += one_of(accept or {"talk": 1}, {act: {**rule, "on": "accept"} for act, rule in _OF_HELLO.items()})
    return rules


MOODS = {
    "well": _mood(),
    "mixed": _mood(
        udp={"drop": 4, "slow": 4, "truncate": 6, "servfail": 2, "refused": 2, "formerr": 2,
             "wrong_ids": 2, "wrong_name": 2, "wrong_port": 2, "garbage": 2, "cut": 2, "twice": 2, "answer": 20},
        accept={"hang": 1, "late_close": 3, "reset": 2, "close": 2, "late_reset": 1, "garbage": 1, "half_hello": 1, "talk": 12},
        stream={"slow": 4, "drop": 2, "wrong_ids": 2, "garbage": 1, "cut": 1, "half": 1, "close": 2, "reset": 1, "late_close": 2,
                "dribble": 1, "twice": 1, "empty": 1, "late_reset": 1, "half_shut": 1, "answer": 16}),
    # A load balancer in front of a dead server.
    "mute": _mood({"drop": 1}, {"late_close": 6, "late_reset": 1, "hang": 1, "talk": 2}, {"late_close": 1}),
    "truncating": _mood({"truncate": 1}, {"late_close": 3, "hang": 1, "talk": 2},
                        {"late_close": 3, "hang": 1, "slow": 1, "answer": 1}),
    "resetting": _mood({"truncate": 2, "drop": 1, "answer": 1}, {"reset": 1, "close": 1, "talk": 2},
                       {"reset": 1, "close": 1, "half": 1, "answer": 1}),
    "forging": _mood({"wrong_ids": 2, "wrong_port": 2, "wrong_name": 2, "garbage": 1, "cut": 1},
                     stream={"wrong_ids": 2, "garbage": 1, "cut": 1}),
    "slow": _mood({"slow": 1}, stream={"slow": 3, "dribble": 1}),
    CLOSED: _mood(),
}


class _Truth:
    """The zone: names below a label `wild` exist."""

    def answer(self, response):
        question = response.question[0]
        labels = [label.lower() for label in question.name.labels]
        owner, ttl = question.name, 1 if b"short" in labels else 20
        if _WILD not in labels or question.rdtype != dns.rdatatype.A:
            response.set_rcode(dns.rcode.NOERROR if _WILD in labels else dns.rcode.NXDOMAIN)
            response.authority.append(dns.rrset.from_text(".", 5, "IN", "SOA", "ns.test. host.test. 1 3600 600 86400 5"))
            return
        if b"alias" in labels and labels[0] != b"target":
            target = dns.name.Name((b"target", *owner.labels))
            response.answer.append(dns.rrset.from_text(owner, ttl, "IN", "CNAME", target.to_text()))
            owner = target
        response.answer.append(dns.rrset.from_text(owner, ttl, "IN", "A", truth.address_of(question.name.to_text())))
        if b"big" in labels:  # too long for UDP
            response.answer.append(dns.rrset.from_text(owner, ttl, "IN", "TXT", *(f"{i:0200}" for i in range(20))))


class UnrulyUpstreams(MoodyUpstreams):
    def __init__(self, count, seed, certificate, key):
        super().__init__(count, MOODS, zone=_Truth(), certificates=(certificate, key), seed=seed)
