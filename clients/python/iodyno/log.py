"""Client of `iodyno log serve`, made from docs/log-protocol.md. Standard library only.

    from iodyno.log import Connection, Publisher

    with Publisher("unix:iodyno-log.sock", name="orders-1") as publisher:
        publisher.publish("orders", b"17", b'{"price": 10}')
    # All of them are persisted.

    connection = Connection("unix:iodyno-log.sock")
    bookmark, values = connection.query()       # the current values
    for message in connection.read(start=bookmark):
        print(message.number, message.topic, message.key, message.body)
"""

import collections
import ipaddress
import json
import select
import socket
import struct
import time

VERSION = 1
HELLO, OPEN_PUBLISHER, PUBLISH, READ, QUERY, STATUS = range(1, 7)
(WELCOME, ERROR, PUBLISHER, PERSISTED, STREAM, MESSAGE, STREAM_END, SNAPSHOT, VALUE, SNAPSHOT_END,
 STATE) = range(64, 75)
# Errors after which a client that connects again later may go on.
CONNECTIONS, FULL, BROKEN, STOPS, MEMORY = 4, 7, 8, 15, 17
NOW, OLDEST = "now", "oldest"

Message = collections.namedtuple("Message", "number publisher sequence time_ns deletes topic key body")
Welcome = collections.namedtuple("Welcome", "version log durability message_bytes_max next")


class ServerError(Exception):
    """The server's error, which ended the connection."""

    def __init__(self, code, number, text):
        super().__init__(f"{text} (error {code})")
        self.code, self.number, self.text = code, number, text


def _short(value):
    return struct.pack("<B", len(value)) + value


def _long(value):
    return struct.pack("<H", len(value)) + value


def _message(fields):
    number, publisher, sequence, time_ns, kind, length = struct.unpack_from("<QQQQBB", fields)
    at = 34
    topic = fields[at:at + length].decode()
    at += length
    (length,) = struct.unpack_from("<H", fields, at)
    at += 2
    key, body = fields[at:at + length], fields[at + length:]
    return Message(number, publisher, sequence, time_ns, kind == 1, topic, key, body)


class Connection:
    """A connection. `address` is `unix:PATH` or `HOST:PORT`; `tls` is an `ssl.SSLContext` for the latter.

    A token goes to another machine without TLS only with `insist_on_plain`.
    """

    def __init__(self, address, token=b"", tls=None, timeout=None, insist_on_plain=False):
        if address.startswith("unix:"):
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            self._socket.settimeout(timeout)
            self._socket.connect(address[5:])
        else:
            host, port = address.rsplit(":", 1)
            host = host.strip("[]")
            self._socket = socket.create_connection((host, int(port)), timeout)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if tls is not None:
                self._socket = tls.wrap_socket(self._socket, server_hostname=host)
            elif token and not insist_on_plain and not self._is_local():
                self._socket.close()
                raise ValueError(
                    f"the token would go to {address} in the clear: give `tls`, or `insist_on_plain=True`")
        self._input = bytearray()
        self._send(HELLO, b"IMLP" + struct.pack("<H", VERSION) + _long(token))
        self.welcome = Welcome(*struct.unpack("<HQBIQ", self._expect(WELCOME)))

    def _is_local(self):
        peer = ipaddress.ip_address(self._socket.getpeername()[0])
        return (getattr(peer, "ipv4_mapped", None) or peer).is_loopback

    def close(self):
        self._socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _send(self, kind, fields=b""):
        self._socket.sendall(struct.pack("<IB", len(fields) + 1, kind) + fields)

    def _frame(self):
        """The next frame: its kind and its fields."""
        while True:
            if len(self._input) >= 4:
                (length,) = struct.unpack_from("<I", self._input)
                if len(self._input) >= 4 + length:
                    kind, fields = self._input[4], bytes(self._input[5:4 + length])
                    del self._input[:4 + length]
                    break
            received = self._socket.recv(256 << 10)
            if not received:
                raise ConnectionError("the server closed the connection")
            self._input += received
        if kind == ERROR:
            code, number, length = struct.unpack_from("<HQH", fields)
            raise ServerError(code, number, fields[12:12 + length].decode())
        return kind, fields

    def _expect(self, wanted):
        kind, fields = self._frame()
        if kind != wanted:
            raise ConnectionError(f"a frame of kind {kind} where {wanted} was expected")
        return fields

    def read(self, start=NOW, end=None, topic="", filter="", start_time_ns=None):
        """Messages, as they are persisted. `start` is a number, NOW or OLDEST, or give `start_time_ns`. `end` is None for a
        subscription, NOW for what is there, or a number. Afterwards `bookmark` is the number to go on with."""
        if start_time_ns is not None:
            begin = (2, start_time_ns)
        else:
            begin = {NOW: (0, 0), OLDEST: (3, 0)}.get(start) or (1, start)
        finish = (0, 0) if end is None else (1, 0) if end == NOW else (2, end)
        fields = struct.pack("<BQBQ", *begin, *finish) + _short(topic.encode()) + _long(filter.encode())
        self._send(READ, fields)
        (self.bookmark,) = struct.unpack("<Q", self._expect(STREAM))
        return self._messages()

    def _messages(self):
        while True:
            kind, fields = self._frame()
            if kind == MESSAGE:
                message = _message(fields)
                self.bookmark = message.number + 1
                yield message
            elif kind == STREAM_END:
                (self.bookmark,) = struct.unpack("<Q", fields)
                return
            else:
                raise ConnectionError(f"a frame of kind {kind} in a stream")

    def query(self, topic="", filter=""):
        """The current values at one instant, and the bookmark to read on with."""
        self._send(QUERY, _short(topic.encode()) + _long(filter.encode()))
        (bookmark,) = struct.unpack("<Q", self._expect(SNAPSHOT))
        values = []
        while True:
            kind, fields = self._frame()
            if kind == VALUE:
                values.append(_message(fields))
            elif kind == SNAPSHOT_END:
                return bookmark, values
            else:
                raise ConnectionError(f"a frame of kind {kind} in a snapshot")

    def status(self):
        """The server's state."""
        self._send(STATUS)
        return json.loads(self._expect(STATE))


class Publisher:
    """Holds messages until they are persisted, and sends them again when it had to connect again. With a name, none is
    lost or stored twice. With more than `held_max` messages `publish` waits.

    After a connection's or a server's error from `publish` or `finish` the messages are still held, including the last
    one, even beyond `held_max`: the next call connects again and sends them. `with` waits until all are persisted;
    `close` doesn't, and says how many are not."""

    def __init__(self, address, name="", held_max=65536, patience=30.0, **connection):
        self._address, self._name, self._options = address, name.encode(), connection
        self._held, self._held_max, self._patience = collections.deque(), held_max, patience
        self._connection, self._failing_since, self._pause = None, None, 0.0
        self.persisted, self.next_sequence, self._was_open, self._is_closed = 0, 1, False, False
        try:
            self._try_connect()
        except (OSError, ServerError) as error:
            self._recover(error)
        self._failing_since = None

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        try:
            if kind is None:
                self.finish()
        finally:
            self.close()

    def close(self):
        """Disconnects, and gives the number of messages that may not be persisted."""
        self._is_closed = True
        self._disconnect()
        return len(self._held)

    def _disconnect(self):
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def publish(self, topic, key, body, deletes=False):
        """Sends a message, and gives its sequence. It is held until it is persisted, also after an error."""
        if self._is_closed:
            raise ValueError("the publisher is closed")
        # A wrong argument takes no sequence.
        fields = struct.pack("<B", deletes) + _short(topic.encode()) + _long(key) + body
        sequence = self.next_sequence
        self.next_sequence += 1
        self._held.append((sequence, fields))
        try:
            if self._connection is None:
                self._try_connect()
            else:
                self._send(sequence, fields)
            self._take_answers()
        except (OSError, ServerError) as error:
            self._recover(error)
        # The message is already held if this fails.
        while len(self._held) > self._held_max:
            self._wait()
        # A publisher without a name may have been numbered anew.
        return self.next_sequence - 1

    def finish(self):
        """Waits until all messages are persisted."""
        while self._held:
            self._wait()

    def _send(self, sequence, fields):
        self._connection._send(PUBLISH, struct.pack("<Q", sequence) + fields)

    def _take_answers(self):
        """Takes what has come, without waiting for more."""
        connection = self._connection
        while connection._input or select.select([connection._socket], [], [], 0)[0]:
            self._release(struct.unpack("<Q", connection._expect(PERSISTED))[0])

    def _wait(self):
        if self._is_closed:
            raise ValueError(f"the publisher is closed, with {len(self._held)} messages that may not be persisted")
        try:
            if self._connection is None:
                # It may have persisted all of them.
                return self._try_connect()
            self._release(struct.unpack("<Q", self._connection._expect(PERSISTED))[0])
        except (OSError, ServerError) as error:
            self._recover(error)

    def _release(self, sequence):
        if sequence > self.persisted:
            self.persisted, self._failing_since = sequence, None
        while self._held and self._held[0][0] <= sequence:
            self._held.popleft()

    def _recover(self, error):
        if self._failing_since is None:
            self._failing_since, self._pause = time.monotonic(), 0.01
        while True:
            self._disconnect()
            passes = not isinstance(error, ServerError) or error.code in (
                CONNECTIONS, FULL, BROKEN, STOPS, MEMORY)
            if not passes or time.monotonic() + self._pause > self._failing_since + self._patience:
                # The next call has the whole patience again.
                self._failing_since = None
                raise error
            time.sleep(self._pause)
            self._pause = min(2 * self._pause, 1.0)
            try:
                return self._try_connect()
            except (OSError, ServerError) as again:
                error = again

    def _try_connect(self):
        connection = self._connection = Connection(self._address, **self._options)
        connection._send(OPEN_PUBLISHER, _short(self._name))
        _, found = struct.unpack("<QQ", connection._expect(PUBLISHER))
        if not self._name:
            self._held = collections.deque((i, fields) for i, (_, fields) in enumerate(self._held, 1))
            self.persisted, self.next_sequence = 0, len(self._held) + 1
        elif not self._was_open:
            self.persisted, self.next_sequence = found, found + 1
        elif found < self.persisted or found >= self.next_sequence:
            self._disconnect()
            raise RuntimeError(f"the log has {found} messages of this publisher, which this client did not leave there")
        else:
            self._release(found)
        self._was_open = True
        for sequence, fields in self._held:
            self._send(sequence, fields)
