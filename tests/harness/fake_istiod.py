# SPDX-License-Identifier: Apache-2.0
"""An istiod that pushes name tables (NDS) over the aggregated discovery service, both transports, and the addresses of
the workload API.  Its messages are written and read here, field by field, so that no mistake of the daemon's schema is
made twice."""

import queue
import threading
from concurrent import futures

import grpc

NAME_TABLE = "type.googleapis.com/istio.networking.nds.v1.NameTable"
ADDRESS = "type.googleapis.com/istio.workload.Address"
SERVICE = "/envoy.service.discovery.v3.AggregatedDiscoveryService/"
DELTA, WHOLE = SERVICE + "DeltaAggregatedResources", SERVICE + "StreamAggregatedResources"
_END = object()


# --- protobuf ----------------------------------------------------------------------------------


def varint(value):
    octets = bytearray()
    while value > 0x7F:
        octets.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(octets + bytes([value]))


def field(number, value):
    """A field with a length: a text, or a message."""
    octets = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(octets)) + octets if octets else b""


def fields(message):
    """[(number, octets or integer)] of a message."""
    found, at = [], 0

    def read_varint():
        nonlocal at
        value, shift = 0, 0
        while True:
            octet = message[at]
            at += 1
            value |= (octet & 0x7F) << shift
            shift += 7
            if octet < 0x80:
                return value

    while at < len(message):
        tag = read_varint()
        value = read_varint()
        if tag & 7 == 2:
            value, at = message[at:at + value], at + value
        found.append((tag >> 3, value))
    return found


def name_table(table):
    """The octets of {host: {"ips": [...], "registry": ..., "shortname": ..., "namespace": ..., "altHosts": [...]}}."""
    message = []
    for host, info in table.items():
        encoded = b"".join([*(field(1, ip) for ip in info.get("ips", [])), field(2, info.get("registry", "")),
                            field(3, info.get("shortname", "")), field(4, info.get("namespace", "")),
                            *(field(5, name) for name in info.get("altHosts", []))])
        entry = field(1, host) + field(2, encoded)
        message.append(varint(1 << 3 | 2) + varint(len(entry)) + entry)
    return b"".join(message)


def any_table(octets, type_url=NAME_TABLE):
    return field(1, type_url) + field(2, octets)


class Request:
    """DiscoveryRequest or DeltaDiscoveryRequest."""

    def __init__(self, method, message):
        self.is_delta = method == DELTA
        content = fields(message)
        one = dict(content)
        node, nonce, error = (1, 6, 7) if self.is_delta else (2, 5, 6)
        self.node = one.get(node)
        self.type_url = one.get(2 if self.is_delta else 4, b"").decode()
        self.nonce = one.get(nonce, b"").decode()
        self.version = "" if self.is_delta else one.get(1, b"").decode()
        self.error = dict(fields(one[error])).get(2, b"").decode() if error in one else None
        self.held = {}
        self.subscribed = [value.decode() for number, value in content if self.is_delta and number == 3]
        if self.is_delta:
            held = [dict(fields(value)) for number, value in content if number == 5]
            self.held = {entry.get(1, b"").decode(): entry.get(2, b"").decode() for entry in held}

    @property
    def node_id(self):
        return dict(fields(self.node))[1].decode()

    @property
    def metadata(self):
        """{key: text} of the node's metadata; labels are a dictionary of their own."""
        return self._struct(dict(fields(self.node))[3])

    @classmethod
    def _struct(cls, message):
        result = {}
        for _, entry in fields(message):
            pair = dict(fields(entry))
            ((kind, value),) = fields(pair[2])
            result[pair[1].decode()] = value.decode() if kind == 3 else cls._struct(value)
        return result


# --- the server --------------------------------------------------------------------------------


class _Stream:
    def __init__(self, method, context):
        self.method, self.context = method, context
        self.headers = dict(context.invocation_metadata())
        self.responses = queue.Queue()
        self.requests = []


class FakeIstiod:
    """Serves at 127.0.0.1 with TLS.  `certificates`: (certificate, key); with `client_authority`, clients need a
    certificate of it; with `token`, that token."""

    def __init__(self, certificates, client_authority=None, token=None, port=0, table=None,
                 addresses=None):
        self.token = token
        self.table = table
        self.addresses = None if addresses is None else dict(addresses)
        self.streams = []
        self.refused_tokens = []
        self._version = 0
        self._lock = threading.Lock()
        self._server = grpc.server(futures.ThreadPoolExecutor(max_workers=16), options=[
            ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
            ("grpc.http2.min_recv_ping_interval_without_data_ms", 10_000),
            ("grpc.keepalive_permit_without_calls", 1), ("grpc.max_send_message_length", -1), ("grpc.so_reuseport", 0)])
        self._server.add_generic_rpc_handlers([self._Handlers(self)])
        certificate, key = (path.read_bytes() for path in certificates)
        authority = client_authority.read_bytes() if client_authority else None
        credentials = grpc.ssl_server_credentials([(key, certificate)], authority, client_authority is not None)
        self.port = self._server.add_secure_port(f"127.0.0.1:{port}", credentials)
        self._server.start()

    @property
    def address(self):
        return f"127.0.0.1:{self.port}"

    def close(self):
        self._server.stop(None).wait(10)
        for stream in self.streams:
            stream.responses.put(_END)

    def push(self, table):
        """Sends the table to every stream, and to those to come."""
        with self._lock:
            self.table = table
            self._version += 1
            for stream in self.streams:
                self._send_table(stream)

    def push_delta(self, tables=None, removed=()):
        """Sends named tables {name: (version, table)} to every stream."""
        resources = [field(2, field(1, version) + field(2, any_table(name_table(table))) + field(3, name))
                     for name, (version, table) in (tables or {}).items()]
        self.send(b"".join([*resources, field(4, NAME_TABLE), field(5, self._nonce()),
                            *(field(6, name) for name in removed)]))

    def push_addresses(self, addresses=(), removed=()):
        """Sends [(name, octets)] to every stream; those to come get all that there is then."""
        with self._lock:
            self.addresses = {**(self.addresses or {}), **dict(addresses)}
            for name in removed:
                self.addresses.pop(name, None)
            for stream in self.streams:
                stream.responses.put(self.address_response(dict(addresses), removed))

    def address_response(self, addresses, removed=(), nonce=None):
        resources = [field(2, field(1, f"v{self._version}") + field(2, any_table(octets, ADDRESS)) + field(3, name))
                     for name, octets in addresses.items()]
        return b"".join([field(1, f"v{self._version}"), *resources, field(4, ADDRESS), field(5, nonce or self._nonce()),
                         *(field(6, name) for name in removed)])

    def send(self, octets):
        """Sends a response as it is to every stream."""
        with self._lock:
            for stream in self.streams:
                stream.responses.put(octets)

    def end_streams(self):
        with self._lock:
            for stream in self.streams:
                stream.responses.put(_END)
            self.streams = []

    @property
    def requests(self):
        """Of the latest stream."""
        with self._lock:
            return list(self.streams[-1].requests) if self.streams else []

    def response(self, method, table, nonce=None):
        """The octets of a push as istiod makes it: one resource without a name."""
        resource = any_table(table if isinstance(table, bytes) else name_table(table))
        nonce = nonce or self._nonce()
        if method == DELTA:
            return field(1, f"v{self._version}") + field(2, field(2, resource)) + field(4, NAME_TABLE) + field(5, nonce)
        return field(1, f"v{self._version}") + field(2, resource) + field(4, NAME_TABLE) + field(5, nonce)

    _nonces = 0

    def _nonce(self):
        FakeIstiod._nonces += 1
        return f"nonce-{FakeIstiod._nonces}"

    def _send_table(self, stream):
        stream.responses.put(self.response(stream.method, self.table))

    def _serve(self, method, requests, context):
        stream = _Stream(method, context)
        token = stream.headers.get("authorization", "")
        if self.token is not None and token != f"Bearer {self.token}":
            self.refused_tokens.append(token)
            context.abort(grpc.StatusCode.UNAUTHENTICATED, "authentication failure")
        stream.requests.append(Request(method, next(requests)))
        with self._lock:
            self.streams.append(stream)
            if self.table is not None:
                self._send_table(stream)
            if self.addresses is not None:
                gone = [name for name in stream.requests[0].held if name not in self.addresses]
                stream.responses.put(self.address_response(self.addresses, gone))
        threading.Thread(target=self._listen, args=(stream, requests), daemon=True).start()
        while (octets := stream.responses.get()) is not _END:
            yield octets

    @staticmethod
    def _listen(stream, requests):
        try:
            for message in requests:
                stream.requests.append(Request(stream.method, message))
        except grpc.RpcError:
            pass
        finally:
            stream.responses.put(_END)

    class _Handlers(grpc.GenericRpcHandler):
        def __init__(self, istiod):
            self._istiod = istiod

        def service(self, details):
            if details.method not in (DELTA, WHOLE):
                return None
            return grpc.stream_stream_rpc_method_handler(
                lambda requests, context: self._istiod._serve(details.method, requests, context))
