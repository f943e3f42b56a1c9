# SPDX-License-Identifier: Apache-2.0
"""Renders a Helm chart as Helm does, as far as our chart uses it.  Everything else is an error: a construct that is not here
fails the test, and nothing is rendered as something else."""

import copy
import hashlib
import json
import re

import yaml

from harness.daemon import merge

_ACTION = re.compile(r"\{\{(-\s)?\s*(.*?)\s*(\s-)?\}\}", re.S)
_TOKEN = re.compile(r'\s*("(?:[^"\\]|\\.)*"|:=|\$?[\w]*(?:\.\w+)+|\$\w*|\.|\w+|[()|=]|-?\d+)')


def _to_json(value):
    # As encoding/json writes it: sorted keys, and nothing that HTML would read.
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


class Failed(Exception):
    """The chart refuses its values."""


def _fail(text):
    raise Failed(text)


def _set(target, key, value):
    target[key] = value
    return target


_FUNCTIONS = {
    "and": lambda *values: next((value for value in values if not value), values[-1]),
    "append": lambda values, value: [*values, value],
    "contains": lambda part, text: part in text,
    "deepCopy": copy.deepcopy,
    "default": lambda other, value: value or other,
    "dict": lambda *words: dict(zip(words[::2], words[1::2])),
    "fail": _fail,
    "fromYaml": yaml.safe_load,
    "hasKey": lambda mapping, key: key in mapping,
    "index": lambda values, number: values[number],
    "join": lambda separator, values: separator.join(map(str, values)),
    "list": lambda *values: list(values),
    "merge": lambda target, more: {**more, **target},
    "not": lambda value: not value,
    "print": lambda *texts: "".join(texts),
    "printf": lambda pattern, *values: pattern % values,
    "quote": lambda text: json.dumps(str(text), ensure_ascii=False),
    "set": _set,
    "sha256sum": lambda text: hashlib.sha256(text.encode()).hexdigest(),
    "ternary": lambda yes, no, condition: yes if condition else no,
    "toJson": _to_json,
}


def _pieces(text):
    """Texts and actions in turn, with white space trimmed as the actions say."""
    position, pieces, trims = 0, [], False
    for action in _ACTION.finditer(text):
        before = text[position:action.start()]
        before = before.lstrip() if trims else before
        pieces += [("text", before.rstrip() if action.group(1) else before), ("action", action.group(2))]
        position, trims = action.end(), bool(action.group(3))
    rest = text[position:]
    return [*pieces, ("text", rest.lstrip() if trims else rest)]


class _Renderer:
    def __init__(self, root):
        self.root, self.defined = root, {}

    # --- structure

    def parse(self, pieces, ends=()):
        """(nodes, the action that ended them)"""
        nodes = []
        while pieces:
            kind, text = pieces.pop(0)
            word, _, rest = text.partition(" ")
            if kind == "text":
                nodes.append((kind, text))
            elif word in ends:
                return nodes, text
            elif word == "if":
                nodes.append(self._parse_if(pieces, rest))
            elif word in ("range", "define"):
                nodes.append((word, rest, self.parse(pieces, ("end",))[0]))
            elif not text.startswith("/*"):
                nodes.append((kind, text))
        assert not ends, f"no {ends}"
        return nodes, ""

    def _parse_if(self, pieces, condition):
        yes, ended_by = self.parse(pieces, ("else", "end"))
        no = []
        if ended_by.startswith("else if "):
            no = [self._parse_if(pieces, ended_by.removeprefix("else if "))]
        elif ended_by == "else":
            no = self.parse(pieces, ("end",))[0]
        return "if", condition, yes, no

    def run(self, nodes, dot, variables):
        texts = []
        for kind, *parts in nodes:
            if kind == "text":
                texts.append(parts[0])
            elif kind == "if":
                texts.append(self.run(parts[1] if self.value(parts[0], dot, variables) else parts[2], dot, variables))
            elif kind == "range":
                texts += [self.run(parts[1], item, variables) for item in self.value(parts[0], dot, variables)]
            elif kind == "define":
                self.defined[json.loads(parts[0])] = parts[1]
            else:
                texts.append(self._act(parts[0], dot, variables))
        return "".join(texts)

    def _act(self, text, dot, variables):
        if assigned := re.fullmatch(r"\$(\w+) (:?=) (.*)", text, re.S):
            name, sign, expression = assigned.groups()
            assert sign == ":=" or name in variables, text
            variables[name] = self.value(expression, dot, variables)
            return ""
        value = self.value(text, dot, variables)
        assert isinstance(value, (str, int)), text
        return str(value)

    # --- expressions

    def value(self, text, dot, variables):
        tokens, position = [], 0
        while position < len(text.rstrip()):
            token = _TOKEN.match(text, position)
            assert token, text
            tokens.append(token.group(1))
            position = token.end()
        value = self._pipeline(tokens, dot, variables)
        assert not tokens, text
        return value

    def _pipeline(self, tokens, dot, variables):
        value = self._command(tokens, dot, variables)
        while tokens and tokens[0] == "|":
            tokens.pop(0)
            value = self._command(tokens, dot, variables, [value])
        return value

    def _command(self, tokens, dot, variables, piped=()):
        head = tokens.pop(0)
        function = self._function(head)
        if not function:
            value = self._operand(head, tokens, dot, variables)
            assert not piped and (not tokens or tokens[0] in "|)"), tokens
            return value
        arguments = []
        while tokens and tokens[0] not in "|)":
            arguments.append(self._operand(tokens.pop(0), tokens, dot, variables))
        return function(*arguments, *piped)

    def _function(self, name):
        if name == "include":
            return lambda template, dot: self.run(self.defined[template], dot, {})
        if name == ".Files.Get":
            return lambda path: (self.root["Files"] / path).read_text()
        return _FUNCTIONS.get(name)

    def _operand(self, token, tokens, dot, variables):
        if token == "(":
            value = self._pipeline(tokens, dot, variables)
            assert tokens.pop(0) == ")"
            return value
        if token[0] == '"':
            return json.loads(token)
        if re.fullmatch(r"-?\d+", token):
            return int(token)
        if token == ".":
            return dot
        if found := re.fullmatch(r"(\$\w+|)((?:\.\w+)*)", token):
            value = variables[found.group(1)[1:]] if found.group(1) else dot
            for name in found.group(2).split(".")[1:]:
                value = value[name]
            return value
        return _FUNCTIONS[token]()  # `list` without arguments; else an error


def render(chart, values=None, namespace="kube-system"):
    """The objects of `chart` with `values` over its own, without those of hooks."""
    return render_all(chart, values, namespace)[0]


def render_all(chart, values=None, namespace="kube-system"):
    """(objects, notes)"""
    objects, notes = _rendered(chart, values, namespace)
    return [made for made in objects if not _is_of_hook(made)], notes


def render_hooks(chart, values=None, namespace="kube-system"):
    """The objects that only a verb makes, such as `helm test`."""
    return [made for made in _rendered(chart, values, namespace)[0] if _is_of_hook(made)]


def _is_of_hook(made):
    return "helm.sh/hook" in made["metadata"].get("annotations", {})


def _rendered(chart, values, namespace):
    about = yaml.safe_load((chart / "Chart.yaml").read_text())
    root = {"Values": merge(yaml.safe_load((chart / "values.yaml").read_text()), values or {}),
            "Release": {"Namespace": namespace, "Name": "meshdns", "Service": "Helm"},
            "Chart": {"AppVersion": about["appVersion"]}, "Files": chart}
    renderer, objects, notes = _Renderer(root), [], ""
    for path in sorted((chart / "templates").iterdir(), key=lambda path: path.name != "_helpers.tpl"):
        text = renderer.run(renderer.parse(_pieces(path.read_text()))[0], root, {})
        if path.suffix == ".yaml":
            objects += [made for made in yaml.safe_load_all(text) if made]
        elif path.name == "NOTES.txt":
            notes = text
        else:
            assert not text.strip(), path
    return objects, notes
