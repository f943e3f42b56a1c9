# SPDX-License-Identifier: Apache-2.0
"""A small Kubernetes API server: lists and watches as kube-apiserver does, and fails on demand.

It keeps objects with their versions, and a history from which watches are fed.  What the real one does
beyond that (validation, controllers, admission) is not here: a test writes the objects that it wants.
"""

import array
import base64
import contextlib
import copy
import fcntl
import gzip
import json
import re
import socket
import socketserver
import ssl
import struct
import subprocess
import termios
import threading
import time
import urllib.parse
from http.server import BaseHTTPRequestHandler

SLICES = ("discovery.k8s.io", "endpointslices")
CRDS = ("apiextensions.k8s.io", "customresourcedefinitions")
INGRESSES = ("networking.k8s.io", "ingresses")
# (group, plural): (versions, kind)
BUILT_IN = {
    ("", "namespaces"): (["v1"], "Namespace"),
    ("", "services"): (["v1"], "Service"),
    ("", "endpoints"): (["v1"], "Endpoints"),
    ("", "pods"): (["v1"], "Pod"),
    ("", "nodes"): (["v1"], "Node"),
    ("", "configmaps"): (["v1"], "ConfigMap"),
    SLICES: (["v1"], "EndpointSlice"),
    CRDS: (["v1"], "CustomResourceDefinition"),
    INGRESSES: (["v1"], "Ingress"),
}
CUSTOM = {
    "serviceentries.networking.istio.io": "ServiceEntry",
    "workloadentries.networking.istio.io": "WorkloadEntry",
    "sidecars.networking.istio.io": "Sidecar",
    "virtualservices.networking.istio.io": "VirtualService",
    "serviceexports.multicluster.x-k8s.io": "ServiceExport",
    "serviceimports.multicluster.x-k8s.io": "ServiceImport",
    "serviceexports.net.gke.io": "ServiceExport",
    "serviceimports.net.gke.io": "ServiceImport",
    "gateways.gateway.networking.k8s.io": "Gateway",
    "httproutes.gateway.networking.k8s.io": "HTTPRoute",
    "tlsroutes.gateway.networking.k8s.io": "TLSRoute",
    "grpcroutes.gateway.networking.k8s.io": "GRPCRoute",
}


class Fault:
    """The treatment of requests of one collection.  `status`: they are refused.  `cut_after`: so many bytes of the
    body, then the connection is reset.  `garbage`: sent in the stream.  `rate`: bytes per second.  `silent`: a
    watch sends nothing.  `packed`: the body of an answer, compressed already, with what is said of it."""

    def __init__(self, status=None, message="", retry_after=None, cut_after=None, garbage=None, rate=None,
                 silent=False, times=None, on="any", empty=False, packed=None, encoding="gzip", length=None):
        self.status, self.message, self.retry_after = status, message, retry_after
        self.cut_after, self.garbage, self.rate, self.silent = cut_after, garbage, rate, silent
        self.times, self.on, self.empty = times, on, empty
        self.packed, self.encoding, self.length = packed, encoding, length


class Expired(Exception):
    """410: the version, or the page's token, is no longer known."""


def matches_labels(selector, labels):
    for part in filter(None, re.split(r",(?![^(]*\))", selector)):
        if part.endswith(")"):
            key, _, values = part.partition(" in (")
            good = labels.get(key) in values[:-1].split(",")
        elif part.startswith("!"):
            good = part[1:] not in labels
        elif "!=" in part:
            key, _, value = part.partition("!=")
            good = labels.get(key) != value
        elif "=" in part:
            key, _, value = part.replace("==", "=").partition("=")
            good = labels.get(key) == value
        else:
            good = part in labels
        if not good:
            return False
    return True


def matches_fields(selector, item):
    for part in filter(None, selector.split(",")):
        key, sign, value = re.match(r"([\w.]+)(!=|==?)(.*)", part).groups()
        found = item
        for step in key.split("."):
            found = (found or {}).get(step)
        if ((found or "") == value) != (sign != "!="):
            return False
    return True


class KubeApi:
    """Runs from construction until close().  Objects are changed by any thread."""

    def __init__(self, streams_lists=True, token=None, certificates=None, client_ca=None, bookmark_every=0.5,
                 watch_limit=3600.0, served=BUILT_IN, compresses=False, closes=None):
        self.kinds = dict(served)
        self.streams_lists, self.token = streams_lists, token
        self.bookmark_every, self.watch_limit = bookmark_every, watch_limit
        self.certificates, self.client_ca = certificates, client_ca
        self.compresses = compresses
        # Closes the connection after each answer: "close" announces it, "HTTP/1.0" ends the body with it,
        # "unsaid" and "reset" do not announce it.
        self.closes = closes
        self.compressed = 0  # so many answers
        self.changed = threading.Condition(threading.RLock())
        self.version = 1000
        self.oldest = 1000  # versions before it are compacted
        self.objects = {}   # (group, plural) -> {(namespace, name): object}
        self.history = []   # (version, (group, plural), before, after)
        self.pages = {}     # token -> objects left
        self.faults = {}    # plural -> Fault
        self.expire_pages = 0  # so many requests for a further page find their token expired
        self.requests = []  # (path, query)
        self.unauthorized = 0
        self.is_ready = True         # as it says of itself
        self.unpublished = set()     # groups that it does not serve yet, as after its start
        self.broken_groups = set()   # groups whose discovery fails
        self.clients = set()
        self.port = 0
        self.server = None
        self.start()

    # --- life -----------------------------------------------------------------------------------

    @property
    def url(self):
        return f"http{'s' if self.certificates else ''}://127.0.0.1:{self.port}"

    def start(self):
        api = self

        class Server(socketserver.ThreadingTCPServer):
            allow_reuse_address = True
            daemon_threads = True
            request_queue_size = 64

            def get_request(self):
                connection, address = super().get_request()
                api.clients.add(connection)
                return connection, address

            def finish_request(self, request, client_address):
                if api.certificates:
                    try:
                        request = api.tls_context().wrap_socket(request, server_side=True)
                    except OSError:
                        return
                    api.clients.add(request)
                try:
                    Handler(api, request, client_address, self)
                finally:
                    api.clients.discard(request)

            def shutdown_request(self, request):
                api.clients.discard(request)
                super().shutdown_request(request)

            def handle_error(self, request, client_address):
                pass

        self.server = Server(("127.0.0.1", self.port), Handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def tls_context(self):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*self.certificates)
        if self.client_ca:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(self.client_ca)
        return context

    def stop(self):
        """Gone, as after a crash: connections are reset, new ones refused."""
        server, self.server = self.server, None
        if not server:
            return
        server.shutdown()
        server.server_close()
        self.reset_connections()

    def reset_connections(self):
        for client in list(self.clients):
            with contextlib.suppress(OSError):
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                client.shutdown(socket.SHUT_RDWR)
        with self.changed:
            self.changed.notify_all()

    def close(self):
        self.stop()

    def kubeconfig(self, path, user=None):
        cluster = {"server": self.url}
        if self.certificates:
            cluster["certificate-authority"] = str(self.certificates[0])
        path.write_text(json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "t",
            "clusters": [{"name": "t", "cluster": cluster}],
            "contexts": [{"name": "t", "context": {"cluster": "t", "user": "u"}}],
            "users": [{"name": "u", "user": user or ({"token": self.token} if self.token else {})}]}))
        return str(path)

    # --- objects --------------------------------------------------------------------------------

    def collection_of(self, kind):
        return next(key for key, (_, served) in self.kinds.items() if served == kind)

    def serve(self, crd, versions=("v1",)):
        """A CRD is created."""
        plural, _, group = crd.partition(".")
        self.kinds[(group, plural)] = (list(versions), CUSTOM[crd])
        self.put({"kind": "CustomResourceDefinition", "metadata": {"name": crd}})

    def withdraw(self, crd):
        plural, _, group = crd.partition(".")
        with self.changed:
            self.objects.pop((group, plural), None)
            del self.kinds[(group, plural)]
        self.delete("CustomResourceDefinition", crd)

    def put(self, *objects):
        """Creates, or replaces."""
        for item in objects:
            item = copy.deepcopy(item)
            collection = self.collection_of(item["kind"])
            meta = item["metadata"]
            if item["kind"] not in ("Namespace", "Node", "CustomResourceDefinition"):
                meta.setdefault("namespace", "default")
            meta.setdefault("creationTimestamp", "2026-01-01T00:00:00Z")
            key = (meta.get("namespace", ""), meta["name"])
            with self.changed:
                self.version += 1
                meta["resourceVersion"] = str(self.version)
                of_kind = self.objects.setdefault(collection, {})
                self.history.append((self.version, collection, of_kind.get(key), item))
                of_kind[key] = item
                self.changed.notify_all()

    def delete(self, kind, name, namespace=None):
        collection = self.collection_of(kind)
        namespace = "" if kind in ("Namespace", "Node", "CustomResourceDefinition") else namespace or "default"
        with self.changed:
            before = self.objects[collection].pop((namespace, name))
            self.version += 1
            before = copy.deepcopy(before)
            before["metadata"]["resourceVersion"] = str(self.version)
            self.history.append((self.version, collection, before, None))
            self.changed.notify_all()

    def repeat_event(self, back=1):
        """The same event once more, to all watches: what a broken server does."""
        with self.changed:
            self.history.append(self.history[-back])
            self.changed.notify_all()

    def compact(self):
        """Versions before now, and pages' tokens, are no longer known."""
        with self.changed:
            self.version += 1
            self.oldest = self.version
            self.history.clear()
            self.pages.clear()
            self.changed.notify_all()

    # --- for assertions -------------------------------------------------------------------------

    def asked(self, plural):
        """[(path, query)] of the requests for a collection."""
        return [(path, query) for path, query in list(self.requests) if path.rsplit("/", 1)[-1] == plural]

    def lists(self, plural):
        return [q for _, q in self.asked(plural) if "watch" not in q or "sendInitialEvents" in q]

    def watches(self, plural):
        return [q for _, q in self.asked(plural) if "watch" in q]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1

    def __init__(self, api, *arguments):
        self.api = api
        self.fault = Fault()
        self.sent = 0
        if api.closes == "HTTP/1.0":
            self.protocol_version = "HTTP/1.0"
        super().__init__(*arguments)

    def log_message(self, *_):
        pass

    def do_GET(self):  # noqa: N802, the name is http.server's
        with contextlib.suppress(OSError, ValueError):
            self.answer()
            if self.api.closes == "reset":
                self.reset_when_sent()
            if self.api.closes == "HTTP/1.0" and isinstance(self.connection, ssl.SSLSocket):
                self.say_the_end()
        if self.api.closes:
            self.close_connection = True

    def say_the_end(self):
        """A body that only the end of the connection ends is whole if TLS ends, too (RFC 8446, section 6.1)."""
        self.connection.settimeout(1)
        self.connection.unwrap()

    def reset_when_sent(self):
        """A reset drops what the kernel has not sent yet."""
        unsent = array.array("i", [1])
        while unsent[0]:
            fcntl.ioctl(self.connection.fileno(), termios.TIOCOUTQ, unsent)
            time.sleep(0.001)
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    def end_headers(self):
        if self.api.closes == "close":
            self.send_header("Connection", "close")
        super().end_headers()

    def answer(self):
        api = self.api
        url = urllib.parse.urlsplit(self.path)
        query = dict(urllib.parse.parse_qsl(url.query, keep_blank_values=True))
        api.requests.append((url.path, query))
        self.fault, self.sent = Fault(), 0
        if api.token and self.headers.get("Authorization") != f"Bearer {api.token}":
            api.unauthorized += 1
            return self.refuse(401, "Unauthorized")
        parts = url.path.strip("/").split("/")
        if parts[0] in ("livez", "readyz"):
            return self.answer_json("ok") if api.is_ready else self.refuse(500, "starting")
        if parts[0] == "apis" and len(parts) <= 3:
            return self.discover(parts[1:])
        group = "" if parts[0] == "api" else parts[1]
        rest = parts[2 if parts[0] == "api" else 3:]
        version = parts[1 if parts[0] == "api" else 2]
        namespace = rest[1] if len(rest) > 2 and rest[0] == "namespaces" else None
        plural = rest[-1]
        if (group, plural) not in api.kinds or version not in api.kinds[(group, plural)][0] or group in api.unpublished:
            return self.refuse(404, "the server could not find the requested resource")
        self.take_fault(plural, query)
        if self.fault.status:
            return self.refuse(self.fault.status, self.fault.message, self.fault.retry_after)
        if self.fault.packed is not None and "gzip" in self.headers.get("Accept-Encoding", ""):
            return self.answer_packed()
        self.wanted = (group, version, plural, namespace, query.get("labelSelector", ""),
                       query.get("fieldSelector", ""))
        try:
            if "watch" in query:
                return self.watch(query)
            return self.list(query)
        except Expired as expired:
            return self.refuse(410, "The resourceVersion for the provided watch is too old.", None, "Expired",
                               str(expired))

    def take_fault(self, plural, query):
        with self.api.changed:
            fault = self.api.faults.get(plural) or self.api.faults.get("*")
            if not fault or (fault.on == "watch") > ("watch" in query) or (fault.on == "list") > ("watch" not in query):
                return
            self.fault = fault
            if fault.times is not None:
                fault.times -= 1
                if fault.times <= 0:
                    self.api.faults = {k: f for k, f in self.api.faults.items() if f is not fault}

    # --- answers --------------------------------------------------------------------------------

    def refuse(self, code, message, retry_after=None, reason="", token=""):
        status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "message": message,
                  "reason": reason or {403: "Forbidden", 404: "NotFound"}.get(code, ""),
                  "metadata": {"continue": token} if token else {}}
        body = json.dumps(status).encode()
        self.send_response(code)
        if retry_after is not None:
            self.send_header("Retry-After", str(retry_after))
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    def begin(self, **headers):
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        if self.api.closes != "HTTP/1.0":
            self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.wfile.flush()

    def send(self, data):
        step = max(1, self.fault.rate // 10) if self.fault.rate else len(data) or 1
        for start in range(0, len(data), step):
            piece = data[start:start + step]
            if self.fault.cut_after is not None and self.sent + len(piece) > self.fault.cut_after:
                piece = piece[:self.fault.cut_after - self.sent]
                self.write_chunk(piece)
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                self.connection.close()
                self.close_connection = True
                raise OSError("cut, as asked for")
            self.write_chunk(piece)
            if self.fault.rate:
                time.sleep(0.1)

    def write_chunk(self, piece):
        if piece:
            self.wfile.write(piece if self.api.closes == "HTTP/1.0" else b"%x\r\n%s\r\n" % (len(piece), piece))
            self.wfile.flush()
        self.sent += len(piece)

    def end(self):
        if self.api.closes != "HTTP/1.0":
            self.wfile.write(b"0\r\n\r\n")
        self.wfile.flush()

    def answer_json(self, value):
        text = json.dumps(value).encode()
        # Watches never come compressed, lists do when they are long and may.
        if self.api.compresses and "gzip" in self.headers.get("Accept-Encoding", ""):
            self.api.compressed += 1
            self.begin(Content_Encoding="gzip")
            text = gzip.compress(text)
        else:
            self.begin()
        self.send(text)
        self.end()

    def answer_packed(self):
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Encoding", self.fault.encoding)
        self.send_header("Content-Length", str(self.fault.length or len(self.fault.packed)))
        self.end_headers()
        self.wfile.write(self.fault.packed)
        self.wfile.flush()
        self.close_connection = self.close_connection or self.fault.length is not None

    def discover(self, parts):
        kinds = {key: served for key, served in self.api.kinds.items() if key[0] not in self.api.unpublished}
        if len(parts) == 1 and parts[0] in self.api.broken_groups:
            return self.refuse(503, "the server is currently unable to handle the request")
        if len(parts) == 1:
            versions = sorted({v for (group, _), (served, _) in kinds.items() if group == parts[0] for v in served})
            if not versions:
                return self.refuse(404, "not found")
            return self.answer_json({"kind": "APIGroup", "apiVersion": "v1", "name": parts[0], "versions": [
                {"groupVersion": f"{parts[0]}/{v}", "version": v} for v in versions]})
        found = [{"name": plural, "kind": kind, "namespaced": True} for (group, plural), (versions, kind)
                 in kinds.items() if group == parts[0] and parts[1] in versions]
        if not found:
            return self.refuse(404, "not found")
        return self.answer_json({"kind": "APIResourceList", "resources": found})

    # --- list and watch -------------------------------------------------------------------------

    def is_wanted(self, item):
        _, _, _, namespace, labels, fields = self.wanted
        meta = item["metadata"]
        return ((namespace is None or meta.get("namespace") == namespace)
                and matches_labels(labels, meta.get("labels", {})) and matches_fields(fields, item))

    def shown(self, item):
        """As this request wants to see it."""
        group, version, plural, *_ = self.wanted
        api_version = f"{group}/{version}" if group else version
        if "PartialObjectMetadata" in self.headers.get("Accept", ""):
            return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": item["metadata"]}
        return {**item, "apiVersion": api_version}

    def current(self):
        group, _, plural, *_ = self.wanted
        if self.fault.empty:
            return []
        items = self.api.objects.get((group, plural), {})
        return [items[key] for key in sorted(items) if self.is_wanted(items[key])]

    def list(self, query):
        group, version, plural, *_ = self.wanted
        limit = int(query.get("limit", 0))
        if query.get("resourceVersion") == "0":
            limit = 0  # the watch cache knows no pages
        with self.api.changed:
            if "continue" in query:
                if self.api.expire_pages > 0:
                    self.api.expire_pages -= 1
                    self.api.pages.clear()
                if query["continue"] not in self.api.pages:
                    raise Expired(base64.b64encode(b"inconsistent").decode())
                at, items = self.api.pages[query["continue"]]
            else:
                at, items = self.api.version, self.current()
            meta = {"resourceVersion": str(at)}
            if limit and len(items) > limit:
                token = base64.b64encode(f"{plural} {at} {len(items)} {id(self)}".encode()).decode()
                self.api.pages[token] = (at, items[limit:])
                meta["continue"] = token
                items = items[:limit]
        is_partial = "PartialObjectMetadata" in self.headers.get("Accept", "")
        kind = "PartialObjectMetadata" if is_partial else self.api.kinds[(group, plural)][1]
        api_version = f"{group}/{version}" if group else version
        objects = [self.shown(item) for item in items]
        if group:  # custom resources come with sorted keys, and with their kinds
            return self.answer_json({"apiVersion": api_version, "items": objects, "kind": kind + "List",
                                     "metadata": meta})
        for item in objects:
            item.pop("kind", None)
            item.pop("apiVersion", None)
        return self.answer_json({"kind": kind + "List", "apiVersion": api_version, "metadata": meta,
                                 "items": objects})

    def event(self, kind, item):
        self.send(json.dumps({"type": kind, "object": item}).encode() + b"\n")

    def bookmark(self, version, ends_list=False):
        annotations = {"k8s.io/initial-events-end": "true"} if ends_list else {}
        group, served, plural, *_ = self.wanted
        self.event("BOOKMARK", {"kind": self.api.kinds[(group, plural)][1],
                                "apiVersion": f"{group}/{served}" if group else served,
                                "metadata": {"resourceVersion": str(version), "annotations": annotations}})

    def watch(self, query):
        api = self.api
        group, _, plural, *_ = self.wanted
        initial = []
        with api.changed:
            if query.get("sendInitialEvents") == "true":
                if not api.streams_lists:
                    return self.refuse(422, "resourceVersionMatch is forbidden for watch")
                initial = self.current()
                at = api.version
            else:
                at = int(query.get("resourceVersion") or api.version)
                if at < api.oldest:
                    raise Expired("")
            position = next((i for i, change in enumerate(api.history) if change[0] > at), len(api.history))
            compacted = api.oldest
        self.begin()
        if "PartialObjectMetadataList" in self.headers.get("Accept", ""):
            return self.end()  # what a watch has is no list; the real one ends without a word
        for item in initial:
            self.event("ADDED", self.shown(item))
        if query.get("sendInitialEvents") == "true":
            self.bookmark(at, ends_list=True)
        ends = time.monotonic() + min(float(query.get("timeoutSeconds", 300)), api.watch_limit)
        server = api.server
        bookmark_at = time.monotonic() + api.bookmark_every
        while time.monotonic() < ends and api.server is server:
            with api.changed:
                if position >= len(api.history) and api.oldest == compacted:
                    api.changed.wait(0.1)
                if api.oldest != compacted:  # history is gone; this watch has had what was in it
                    position, compacted = 0, api.oldest
                fresh = api.history[position:]
                position = len(api.history)
                now = api.version
            if self.fault.silent:
                continue
            if self.fault.garbage is not None and fresh:
                self.send(self.fault.garbage)
            for _, collection, before, after in fresh:
                if collection == (group, plural):
                    self.tell(before, after)
            if time.monotonic() >= bookmark_at and query.get("allowWatchBookmarks") == "true":
                self.bookmark(now)
                bookmark_at = time.monotonic() + api.bookmark_every
        if api.server is server:
            self.end()

    def tell(self, before, after):
        was = before is not None and self.is_wanted(before)
        now = after is not None and self.is_wanted(after)
        if now:
            self.event("MODIFIED" if was else "ADDED", self.shown(after))
        elif was:
            gone = copy.deepcopy(before)
            if after is not None:
                gone["metadata"]["resourceVersion"] = after["metadata"]["resourceVersion"]
            self.event("DELETED", self.shown(gone))


def make_certificates(directory, name="localhost"):
    """(certificate, key) of a server at 127.0.0.1 that vouches for itself."""
    certificate, key = directory / f"{name}.crt", directory / f"{name}.key"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "30", "-subj", f"/CN={name}",
                    "-addext", f"subjectAltName=DNS:{name},IP:127.0.0.1", "-keyout", str(key), "-out",
                    str(certificate)], check=True, capture_output=True, timeout=60)
    return certificate, key


# --- objects in short ---------------------------------------------------------------------------


def service(name, namespace="shop", ip="10.96.0.1", **spec):
    return {"kind": "Service", "metadata": {"name": name, "namespace": namespace},
            "spec": {"clusterIP": ip, "ports": [{"name": "http", "port": 80, "protocol": "TCP"}], **spec}}


def headless(name, namespace="shop"):
    return service(name, namespace, ip="None")


def endpoint_slice(of, addresses, namespace="shop", number=0, managed=True, is_headless=True):
    labels = {"kubernetes.io/service-name": of}
    if managed:
        labels["endpointslice.kubernetes.io/managed-by"] = "endpointslice-controller.k8s.io"
    if is_headless:
        labels["service.kubernetes.io/headless"] = ""
    return {"kind": "EndpointSlice", "metadata": {"name": f"{of}-{number}", "namespace": namespace, "labels": labels},
            "addressType": "IPv4", "ports": [{"name": "http", "port": 80, "protocol": "TCP"}],
            "endpoints": [{"addresses": [address], "conditions": {"ready": True}} for address in addresses]}


def pod(name, ip, namespace="shop", node="node-1", labels=None):
    return {"kind": "Pod", "metadata": {"name": name, "namespace": namespace, "labels": labels or {}},
            "spec": {"nodeName": node}, "status": {"phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}],
                       "conditions": [{"type": "Ready", "status": "True"}]}}


def service_entry(name, host, namespace="shop", **spec):
    return {"kind": "ServiceEntry", "metadata": {"name": name, "namespace": namespace},
            "spec": {"hosts": [host], "ports": [{"number": 80, "name": "http", "protocol": "HTTP"}], **spec}}


def namespace(name, **labels):
    return {"kind": "Namespace", "metadata": {"name": name, "labels": labels}}
