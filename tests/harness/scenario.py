# SPDX-License-Identifier: Apache-2.0
"""Scenario files: resources, a client, a scripted upstream, and what each query must get.

tests/scenarios/README.md says how they are written; this module reads and runs them.
"""

import collections
import math
import os
import pathlib
import re
import shutil
import time

import dns.message
import dns.rcode
import dns.rdatatype
import yaml

from harness.daemon import ROOT, Daemon, base_config, merge, run_tool
from harness.dns_client import Question, ask
from harness.expectation import check_answer, expectation_of
from harness.fake_upstream import FakeUpstream, without_retries
from harness.waiting import eventually, seconds

# The contract says one second; the rest is for the polling itself.
_VISIBLE_WITHIN = 1.5

_API_VERSIONS = {
    "ServiceEntry": "networking.istio.io/v1",
    "WorkloadEntry": "networking.istio.io/v1",
    "Sidecar": "networking.istio.io/v1",
    "VirtualService": "networking.istio.io/v1",
    "ConfigMap": "v1",
    "Service": "v1",
    "Endpoints": "v1",
    "Pod": "v1",
    "Namespace": "v1",
    "Node": "v1",
    "EndpointSlice": "discovery.k8s.io/v1",
    "Gateway": "gateway.networking.k8s.io/v1",
    "HTTPRoute": "gateway.networking.k8s.io/v1",
    "TLSRoute": "gateway.networking.k8s.io/v1",
    "GRPCRoute": "gateway.networking.k8s.io/v1",
    "Ingress": "networking.k8s.io/v1",
    "ServiceImport": "multicluster.x-k8s.io/v1alpha1",
    "ServiceExport": "multicluster.x-k8s.io/v1alpha1",
}

_SCENARIO_KEYS = {"name", "about", "config", "client", "clients", "resources", "files", "load",
                  "upstream", "upstreams", "steps", "any_order", "log", "needs"}
# Keys that need the daemon: files, signals, a log and a command line.
_DAEMON_KEYS = {"files", "log"}
_DAEMON_STEP_KEYS = {"check", "reload", "text", "wait_log"}
# The daemon asks each upstream for a name below this one when it is first used.
_LOOP_CHECK = ".loop-check.meshdns.internal."
# For `first_share`: each worker of the base configuration rotates on its own.
_SHARED_ANSWERS = 400
_WORKERS = 2
_WEIGHT_TOLERANCE = 3
# Time that a step may take when time is real.
_MAX_REAL_SECONDS = 1.0
_UPSTREAM_KEYS = {"records", "rules"}
_QUERY_OPTIONS = {"edns", "bufsize", "do", "ad", "cd", "rd"}
_STEP_KEYS = {
    "query": {"query", "answer", "client", "from", "transport", "sent_upstream", "asked_upstream",
              "eventually", "repeat", "first_share", *_QUERY_OPTIONS},
    "write": {"write", "resources", "text"},
    "delete": {"delete"},
    "reload": {"reload"},
    "upstream": {"upstream", "index"},
    "wait_log": {"wait_log"},
    "time_passes": {"time_passes"},
    "check": {"check", "exit", "output", "output_lacks"},
}


class ScenarioError(Exception):
    """The file is not a scenario; says where and why."""


class _Loader(yaml.SafeLoader):
    """YAML as Kubernetes' tools read it: `off` and dates stay text."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, expression) for tag, expression in resolvers
            if tag not in ("tag:yaml.org,2002:bool", "tag:yaml.org,2002:timestamp")]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"^(?:true|false)$"), list("tf"))


def load(path):
    """The scenarios of one file, each with its line.  Raises ScenarioError."""
    try:
        with open(path, encoding="utf-8") as stream:
            documents = [d for d in yaml.load_all(stream, _Loader) if d is not None]
    except yaml.YAMLError as error:
        raise ScenarioError(f"{path}: {error}") from error
    for document in documents:
        _validate(path, document)
    return documents


def _validate(path, document):
    if not isinstance(document, dict) or "name" not in document or "steps" not in document:
        raise ScenarioError(f"{path}: a scenario needs `name` and `steps`")
    place = f"{path}: {document['name']}"
    _refuse_unknown(place, set(document), _SCENARIO_KEYS)
    needs = document.get("needs")
    used = _DAEMON_KEYS & set(document) | _DAEMON_STEP_KEYS & {k for s in document["steps"] for k in s}
    if needs not in (None, "daemon") or (used and not needs):
        raise ScenarioError(f"{place}: write `needs: daemon` for {sorted(used)}, and nothing else there")
    for number, step in enumerate(document["steps"], 1):
        kinds = [kind for kind in _STEP_KEYS if kind in step]
        if len(kinds) != 1:
            raise ScenarioError(f"{place}: step {number} is none or several of {', '.join(_STEP_KEYS)}")
        _refuse_unknown(f"{place}: step {number}", set(step), _STEP_KEYS[_kind_of(step)])
        if _kind_of(step) == "query" and step.get("answer", "FORWARDED") != "FORWARDED":
            try:
                expectation_of(step["answer"])
            except ValueError as error:
                raise ScenarioError(f"{place}: step {number}: {error}") from error


def _kind_of(step):
    return next(kind for kind in _STEP_KEYS if kind in step)


def _refuse_unknown(place, keys, known):
    unknown = keys - known
    if unknown:
        raise ScenarioError(f"{place}: unknown keys {sorted(unknown)}; known are {sorted(known)}")


def duration(text):
    """Seconds of "250ms", "30s", "2m" or "1h"; a number alone is seconds."""
    match = re.fullmatch(r"([0-9.]+)(ms|s|m|h)?", str(text))
    if not match:
        raise ScenarioError(f"{text!r} is no time; write 250ms, 30s, 2m or 1h")
    return float(match[1]) * {"ms": 0.001, None: 1, "s": 1, "m": 60, "h": 3600}[match[2]]


def takes_too_long(scenario):
    """Whether its time_passes steps add up to more than a test may wait."""
    return sum(duration(step["time_passes"]) for step in scenario["steps"]
               if "time_passes" in step) > _MAX_REAL_SECONDS


def complete_resource(resource):
    """The manifest with the apiVersion that goes with its kind, where it is left out."""
    if "apiVersion" in resource or resource.get("kind") not in _API_VERSIONS:
        return resource
    return {"apiVersion": _API_VERSIONS[resource["kind"]], **resource}


def to_yaml(resources):
    return yaml.safe_dump_all([complete_resource(r) for r in resources], sort_keys=False)


def write_atomically(path, text):
    """As an editor does: beside it, then renamed over it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.new")
    beside.write_text(text)
    os.replace(beside, path)


def parse_question(text, step):
    words = text.split()
    if len(words) == 3:
        name, rdclass, rdtype = words
    else:
        (name, rdtype), rdclass = words, "IN"
    if not name.endswith("."):
        raise AssertionError(f"query {text!r}: write the name with its final dot")
    options = {key: step[key] for key in _QUERY_OPTIONS if key in step}
    return Question(name, rdtype, rdclass, source=step.get("from", ""), **options)


class ScenarioRun:
    """One scenario from start to end.  `reverse` gives the resources in the opposite order."""

    def __init__(self, scenario, directory, reverse=False):
        self.scenario = scenario
        self.directory = pathlib.Path(directory)
        self.resources = self.directory / "resources"
        self.reverse = reverse
        self.upstreams = []
        self.daemons = {}
        self._changed_at = -math.inf

    def run(self):
        try:
            self._prepare_files()
            self._start_upstreams()
            self._start_daemons()
            for number, step in enumerate(self.scenario["steps"], 1):
                try:
                    getattr(self, f"_do_{_kind_of(step)}")(step)
                except AssertionError as error:
                    raise AssertionError(f"step {number}: {error}") from None
            for pattern in self.scenario.get("log", []):
                self._any_daemon().wait_for_log(pattern)
            for daemon in self.daemons.values():
                daemon.stop()
        finally:
            for daemon in self.daemons.values():
                daemon.kill()
            for upstream in self.upstreams:
                upstream.close()

    def log(self):
        return "\n".join(daemon.process.log_tail() for daemon in self.daemons.values())

    def _any_daemon(self):
        return next(iter(self.daemons.values()))

    def _prepare_files(self):
        self.resources.mkdir()
        for path in self.scenario.get("load", []):
            source = ROOT / path
            if source.is_dir():
                shutil.copytree(source, self.resources / source.name)
            else:
                shutil.copy(source, self.resources)
        resources = self.scenario.get("resources", [])
        if resources:
            text = to_yaml(reversed(resources) if self.reverse else resources)
            (self.resources / "resources.yaml").write_text(text)
        for name, text in self.scenario.get("files", {}).items():
            write_atomically(self.resources / name, text)

    def _start_upstreams(self):
        specs = self.scenario.get("upstreams", [self.scenario.get("upstream", {})])
        for spec in specs:
            upstream = FakeUpstream()
            self.upstreams.append(upstream)
            _set_upstream(upstream, spec)

    def _start_daemons(self):
        clients = self.scenario.get("clients", {"": self.scenario.get("client")})
        for name, identity in clients.items():
            home = self.directory / f"daemon-{name}"
            home.mkdir()
            config = merge(self._base_config(name), self._expand(self.scenario.get("config", {})))
            if identity:
                config = merge(config, {"client": {"default": identity}})
            self.daemons[name] = Daemon(config, home)

    def _base_config(self, client):
        """The configuration below the scenario's, for the daemon of that client."""
        del client
        return base_config(self.resources, [u.server for u in self.upstreams])

    def _expand(self, value):
        """`$UPSTREAM0`, `$UPSTREAM1`, ... and `$DIRECTORY` in a configuration's texts."""
        if isinstance(value, dict):
            return {k: self._expand(v) for k, v in value.items()}
        if isinstance(value, list):
            return [self._expand(v) for v in value]
        if isinstance(value, str):
            for index, upstream in enumerate(self.upstreams):
                value = value.replace(f"$UPSTREAM{index}", upstream.server)
            return value.replace("$DIRECTORY", str(self.directory))
        return value

    def _do_query(self, step):
        eventually(lambda: self._query_once(step), step.get("eventually", self._time_left_to_show()))

    def _time_left_to_show(self):
        """The rest of the time within which the last change must show, as a limit for `eventually`.

        It is one time for all queries: a daemon shows a change when it has it, whatever another one has answered by
        then, and a first answer may be the same before and after."""
        since = (time.monotonic() - self._changed_at) / seconds(1)
        return max(0.0, _VISIBLE_WITHIN - since)

    def _query_once(self, step):
        daemon = self.daemons[step.get("client", "")]
        transport = step.get("transport", "both")
        transports = ["udp", "tcp"] if transport == "both" else [transport]
        queries = step["query"] if isinstance(step["query"], list) else [step["query"]]
        step_started = time.monotonic()
        for text in queries:
            question = parse_question(text, step)
            started = time.monotonic()
            for way in transports:
                for _ in range(step.get("repeat", 1)):
                    self._check(step, self._ask(daemon, question, way))
            if "first_share" in step:
                self._check_first_share(step, daemon, question)
            sent = self._received(started, question.name)
            wanted = step.get("sent_upstream", len(sent))
            assert _is_count_of(wanted, sent), f"{text}: {len(sent)} queries were sent upstream, not {wanted}"
        asked = self._received(step_started)
        wanted = step.get("asked_upstream", [str(each) for each in asked])
        assert all(_is_count_of(wanted.count(name), [each for each in asked if str(each) == name])
                   for name in {*map(str, asked), *wanted}), (
            f"{step['query']}: the upstreams were asked {sorted(map(str, asked))}, not {sorted(wanted)}")

    def _ask(self, daemon, question, transport):
        """One question of a step."""
        return self._ask_once(daemon, question, transport)

    def _ask_once(self, daemon, question, transport="udp"):
        return ask(daemon.server, question, transport)

    def _received(self, since, name=None):
        """The queries that reached each upstream since then."""
        return [received for upstream in self.upstreams for received in upstream.received(name)
                if received.time >= since and not received.name.endswith(_LOOP_CHECK)]

    def _check(self, step, answer):
        if "answer" not in step:
            return
        if step["answer"] != "FORWARDED":
            check_answer(answer, expectation_of(step["answer"]))
            return
        question = answer.question
        check_answer(answer, self._upstream_answer(question))
        # By any type: a name that does not exist is missing in all of them.
        assert any(u.received(question.name) for u in self.upstreams), (
            f"{question}: never reached the upstream")

    def _upstream_answer(self, question):
        """Returns the answer of the first upstream's records, as a forwarder passes it on."""
        response = dns.message.make_response(question.to_message())
        self.upstreams[0].answer_from_zone(response)
        expected = {
            "rcode": dns.rcode.to_text(response.rcode()), "aa": False,
            "answer": [f"{rrset.name} {dns.rdatatype.to_text(rrset.rdtype)} {rdata}"
                       for rrset in response.answer for rdata in rrset]}
        if response.authority:
            expected["authority"] = ["SOA"]
        return expected

    def _check_first_share(self, step, daemon, question):
        """How often each address is the first of 400 answers, see tests/scenarios/README.md."""
        firsts = collections.Counter(dict.fromkeys(self._ask_once(daemon, question).addresses(), 0))
        firsts.update(self._ask_once(daemon, question).addresses()[0] for _ in range(_SHARED_ANSWERS))
        if step["first_share"] == "even":
            assert max(firsts.values()) - min(firsts.values()) <= _WORKERS, f"{firsts} is not even"
            return
        for address, wanted in step["first_share"].items():
            assert abs(firsts[address] - wanted * _SHARED_ANSWERS) <= _WEIGHT_TOLERANCE * _WORKERS, (
                f"{address} is first in {firsts[address]} of {_SHARED_ANSWERS} answers, not {wanted:.1%}")

    def _do_write(self, step):
        text = step["text"] if "text" in step else to_yaml(step["resources"])
        write_atomically(self.resources / step["write"], text)
        self._changed_at = time.monotonic()

    def _do_delete(self, step):
        (self.resources / step["delete"]).unlink()
        self._changed_at = time.monotonic()

    def _do_reload(self, step):
        """SIGHUP, after the given keys have replaced those of the configuration."""
        for daemon in self.daemons.values():
            daemon.write_config(merge(daemon.config, self._expand(step["reload"] or {})))
            daemon.reload()
        self._changed_at = time.monotonic()

    def _do_upstream(self, step):
        _set_upstream(self.upstreams[step.get("index", 0)], step["upstream"])
        self._changed_at = time.monotonic()

    @staticmethod
    def _do_time_passes(step):
        time.sleep(duration(step["time_passes"]))

    def _do_wait_log(self, step):
        self._any_daemon().wait_for_log(step["wait_log"])

    def _do_check(self, step):
        """`meshdnsd check` on files made of the step's resources, or on the daemon's configuration."""
        arguments = ["check", "--config", self._any_daemon().config_path]
        if isinstance(step["check"], list):
            path = self.directory / "checked.yaml"
            path.write_text(to_yaml(step["check"]))
            arguments = ["check", path]
        result = run_tool(*arguments)
        output = result.stdout + result.stderr
        assert result.returncode == step.get("exit", 0), (
            f"exit code {result.returncode}, not {step.get('exit', 0)}\n{output}")
        for pattern in step.get("output", []):
            assert re.search(pattern, output, re.MULTILINE), f"no line matches {pattern!r}:\n{output}"
        for pattern in step.get("output_lacks", []):
            assert not re.search(pattern, output, re.MULTILINE), f"a line matches {pattern!r}:\n{output}"


def _is_count_of(wanted, received):
    """Whether so many queries may be these: a retry may be one of them, or one that a busy machine has added."""
    return len(without_retries(received)) <= wanted <= len(received)


def _set_upstream(upstream, spec):
    if isinstance(spec, list):
        spec = {"records": spec}
    _refuse_unknown("upstream", set(spec), _UPSTREAM_KEYS)
    upstream.set(spec.get("records", ()), spec.get("rules", ()))
