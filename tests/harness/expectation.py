# SPDX-License-Identifier: Apache-2.0
"""Expectations of scenarios, and their comparison with answers.

Records are zone-file text, `OWNER [TTL] TYPE RDATA`; without a TTL any TTL will do, and `*` stands for
one field of the RDATA (an SOA's serial, an SRV's weight).  Their order does not count, save that
aliases come before what they lead to.
"""

import re
from dataclasses import dataclass

import dns.exception
import dns.flags
import dns.name
import dns.rdata
import dns.rdataclass

from harness.waiting import seconds

_SHORTHANDS = {
    "NODATA": {"rcode": "NOERROR", "aa": True, "answer": [], "authority": ["SOA"]},
    "NXDOMAIN": {"rcode": "NXDOMAIN", "aa": True, "answer": [], "authority": ["SOA"]},
    "SERVFAIL": {"rcode": "SERVFAIL", "answer": []},
    "REFUSED": {"rcode": "REFUSED", "answer": []},
    "NOTIMP": {"rcode": "NOTIMP", "answer": []},
    "FORMERR": {"rcode": "FORMERR", "answer": []},
}

_KEYS = {
    "rcode", "aa", "ra", "tc", "ad", "cd", "answer", "answer_count", "answer_any_of", "authority",
    "additional", "ede", "ede_text", "max_ttl", "min_ttl", "negative_ttl", "text_contains", "text_lacks",
    "within",
}

_FLAGS = {"aa": dns.flags.AA, "ra": dns.flags.RA, "tc": dns.flags.TC, "ad": dns.flags.AD,
          "cd": dns.flags.CD}


@dataclass(frozen=True)
class ExpectedRecord:
    text: str
    owner: dns.name.Name
    ttl: int | None
    rdtype: str
    rdata: str

    def matches(self, record):
        owner, ttl, rdtype, rdata = record
        return (owner == self.owner and rdtype == self.rdtype and self.ttl in (None, ttl)
                and self._matches_rdata(rdata))

    def _matches_rdata(self, rdata):
        wanted = self.rdata.split()
        if "*" in wanted:
            found = rdata.to_text().split()
            return len(found) == len(wanted) and all(
                w in ("*", f) for w, f in zip(wanted, (f.lower() for f in found)))
        return rdata == self.to_rdata()

    def to_rdata(self):
        return dns.rdata.from_text(
            dns.rdataclass.IN, self.rdtype, self.rdata, origin=dns.name.root, relativize=False)


def parse_record(text):
    owner, _, rest = text.partition(" ")
    head, _, tail = rest.strip().partition(" ")
    ttl = None
    if head.isdigit():
        ttl = int(head)
        head, _, tail = tail.strip().partition(" ")
    if head == "IN":
        head, _, tail = tail.strip().partition(" ")
    return ExpectedRecord(text, dns.name.from_text(owner), ttl, head, tail.strip())


def expectation_of(value):
    """The long form of what a scenario's `answer:` says.  Raises ValueError on what it may not say."""
    if isinstance(value, str):
        if value not in _SHORTHANDS:
            raise ValueError(f"answer: {value!r} is none of {', '.join(_SHORTHANDS)}, FORWARDED")
        return dict(_SHORTHANDS[value])
    if isinstance(value, list):
        return expectation_of({"aa": True, "answer": value})
    unknown = set(value) - _KEYS
    if unknown:
        raise ValueError(f"answer: unknown keys {sorted(unknown)}; known are {sorted(_KEYS)}")
    for section in ("answer", "authority", "additional", "answer_any_of"):
        for text in value.get(section, []):
            _check_text(text)
    return {"rcode": "NOERROR", **value}


def _check_text(text):
    """Raises ValueError where `text` is neither a record nor a type alone."""
    if " " not in text:
        return
    record = parse_record(text)
    if "*" in record.rdata.split():
        return
    try:
        record.to_rdata()
    except dns.exception.DNSException as error:
        raise ValueError(f"{text!r} is no record: {error}") from error


def check_answer(answer, expected):
    """Raises AssertionError with the whole answer when it is not what was expected."""
    problems = [*_invariant_problems(answer), *_problems(answer, expected)]
    assert not problems, f"{answer.question}:\n- " + "\n- ".join(problems) + f"\ngot, {answer}"


def _problems(answer, expected):
    if answer.rcode != expected["rcode"]:
        yield f"rcode is {answer.rcode}, not {expected['rcode']}"
    for name, flag in _FLAGS.items():
        wanted = expected.get(name, {"ra": True, "tc": False}.get(name))
        if wanted is not None and answer.has(flag) != wanted:
            yield f"flag {name} is {'set' if answer.has(flag) else 'clear'}"
    for section in ("answer", "authority", "additional"):
        if section in expected:
            yield from _section_problems(answer, section, expected[section])
    yield from _answer_shape_problems(answer, expected)
    yield from _ttl_problems(answer, expected)
    yield from _text_problems(answer, expected)
    if "ede" in expected:
        yield from _extended_error_problems(answer.extended_errors(), expected["ede"])
    if not re.search(expected.get("ede_text", ""), answer.extended_text()):
        yield f"the text of the extended error is {answer.extended_text()!r}, not {expected['ede_text']!r}"
    if "within" in expected and answer.elapsed > seconds(expected["within"]):
        yield f"took {answer.elapsed:.2f} s, more than {expected['within']} s"


def _extended_error_problems(found, wanted):
    """No error for None; otherwise exactly one, the wanted code or one of the wanted codes."""
    allowed = wanted if isinstance(wanted, list) else [wanted]
    if wanted is None and found:
        yield f"has extended errors {found}"
    elif wanted is not None and (len(found) != 1 or found[0] not in allowed):
        yield f"extended errors are {found}, not {wanted}"


def _section_problems(answer, section, wanted):
    found = answer.section(section)
    if wanted and all(" " not in w for w in wanted):  # types only
        types = sorted(rdtype for _, _, rdtype, _ in found)
        if types != sorted(wanted):
            yield f"{section} has {types or 'nothing'}, not {sorted(wanted)}"
        return
    missing = [parse_record(w) for w in wanted]
    unexpected = []
    for record in found:
        match = next((m for m in missing if m.matches(record)), None)
        if match:
            missing.remove(match)
        else:
            unexpected.append(_text_of(record))
    yield from (f"{section} lacks: {m.text}" for m in missing)
    yield from (f"{section} has too much: {text}" for text in unexpected)


def _answer_shape_problems(answer, expected):
    found = answer.section("answer")
    if "answer_count" in expected:
        wanted = expected["answer_count"]
        low, high = (wanted, wanted) if isinstance(wanted, int) else wanted
        if not low <= len(found) <= high:
            yield f"has {len(found)} answer records, not {wanted}"
    if "answer_any_of" in expected:
        allowed = [parse_record(text) for text in expected["answer_any_of"]]
        for record in found:
            if not any(a.matches(record) for a in allowed):
                yield f"answer has too much: {_text_of(record)}"


def _ttl_problems(answer, expected):
    for owner, ttl, rdtype, _ in answer.section("answer"):
        if ttl > expected.get("max_ttl", 1 << 31) or ttl < expected.get("min_ttl", 0):
            yield f"TTL of {owner} {rdtype} is {ttl}"
    if "negative_ttl" in expected:
        ttls = [min(ttl, rdata.minimum) for _, ttl, rdtype, rdata in answer.section("authority")
                if rdtype == "SOA"]
        if ttls != [expected["negative_ttl"]]:
            yield f"negative TTL is {ttls}, not {expected['negative_ttl']}"


def _text_problems(answer, expected):
    texts = answer.texts()
    for pattern in expected.get("text_contains", []):
        if not any(re.search(pattern, text) for text in texts):
            yield f"no TXT string matches {pattern!r}: {texts}"
    for pattern in expected.get("text_lacks", []):
        for text in texts:
            if re.search(pattern, text):
                yield f"a TXT string matches {pattern!r}: {text!r}"


def _invariant_problems(answer):
    """Checks the properties of every answer, whatever was asked."""
    message, question = answer.message, answer.question
    if not answer.has(dns.flags.QR):
        yield "QR is clear"
    if answer.has(dns.flags.RD) != question.rd:
        yield "RD is not the question's"
    if answer.has(dns.flags.CD) != question.cd:
        yield "CD is not the question's"
    asked = question.to_message().question[0]
    if len(message.question) != 1:
        yield f"has {len(message.question)} questions"
    else:
        got = message.question[0]
        if (got.name.labels, got.rdtype, got.rdclass) != (asked.name.labels, asked.rdtype, asked.rdclass):
            yield f"the question is not repeated octet by octet: {got}"
    if (message.edns >= 0) != question.edns:
        yield f"OPT is {'present' if message.edns >= 0 else 'missing'}"
    if answer.transport == "udp":
        limit = max(512, question.bufsize) if question.edns else 512
        if len(answer.wire) > limit:
            yield f"{len(answer.wire)} octets over UDP, the limit is {limit}"
    yield from _record_invariant_problems(answer)


def _record_invariant_problems(answer):
    for section in ("answer", "authority", "additional"):
        texts = [_text_of(record, ttl=False) for record in answer.section(section)]
        for text in sorted({t for t in texts if texts.count(t) > 1}):
            yield f"{section} repeats {text}"
    yield from _chain_problems(answer)


def _chain_problems(answer):
    """Aliases first and in order: each record is owned by the name that the ones before lead to."""
    records = answer.section("answer")
    if not records or answer.question.rdclass != "IN":
        return
    current = answer.question.to_message().question[0].name
    if records[0][0].labels != current.labels and records[0][2] != "DNAME":
        yield f"the first owner {records[0][0]} is not spelled as the question"
    aliased = answer.question.rdtype not in ("CNAME", "ANY")
    for owner, _, rdtype, rdata in records:
        if rdtype in ("RRSIG", "DNAME"):
            continue
        if owner != current:
            yield f"{owner} {rdtype} stands where {current} is due"
            return
        if rdtype == "CNAME" and aliased:
            current = rdata.target


def _text_of(record, ttl=True):
    owner, age, rdtype, rdata = record
    return f"{owner} {f'{age} ' if ttl else ''}{rdtype} {rdata}"
