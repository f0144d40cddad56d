"""Tests of iodyno.log against a server that breaks connections: `python3 test_log.py`, or pytest."""

import os
import socket
import struct
import tempfile
import threading

from iodyno import log

FOLDER = tempfile.TemporaryDirectory(prefix="iodyno-log-")
PATH = os.path.join(FOLDER.name, "socket")


class Server:
    """Persists messages of one publisher. It ends, with its connection, after `limit` messages."""

    def __init__(self, bodies, limit=None):
        self.bodies, self.limit, self._peer = bodies, limit, None
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(PATH)
        self._socket.listen()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def end(self):
        self._thread.join()

    def _serve(self):
        peer = self._socket.accept()[0]
        with self._socket, peer, peer.makefile("rwb") as stream:
            while self.limit is None or len(self.bodies) < self.limit:
                head = stream.read(5)
                if len(head) < 5:
                    break
                length, kind = struct.unpack("<IB", head)
                self._answer(stream, kind, stream.read(length - 1))
                stream.flush()
        os.unlink(PATH)

    def _answer(self, stream, kind, fields):
        if kind == log.HELLO:
            self._send(stream, log.WELCOME, struct.pack("<HQBIQ", log.VERSION, 1, 1, 65536, 1))
        elif kind == log.OPEN_PUBLISHER:
            self._send(stream, log.PUBLISHER, struct.pack("<QQ", 1, len(self.bodies)))
        else:
            (sequence,) = struct.unpack_from("<Q", fields)
            assert sequence == len(self.bodies) + 1, (sequence, self.bodies)
            self.bodies.append(fields[-1:])
            self._send(stream, log.PERSISTED, struct.pack("<Q", sequence))

    def _send(self, stream, kind, fields):
        stream.write(struct.pack("<IB", len(fields) + 1, kind) + fields)


def raises(kind, call):
    try:
        call()
    except kind as error:
        return str(error)
    raise AssertionError(f"no {kind.__name__}")


def publish_last(publisher, body):
    """Publishes what the server ends after: `publish` may already see the end."""
    try:
        publisher.publish("t", b"", body)
        publisher.finish()
    except OSError:
        assert not publisher._held


def test_a_publisher_goes_on_after_its_patience_ran_out():
    bodies = []
    first = Server(bodies, limit=1)
    publisher = log.Publisher(f"unix:{PATH}", name="p", patience=0.05)
    publish_last(publisher, b"a")
    first.end()
    for body in (b"b", b"c"):
        raises(OSError, lambda body=body: publisher.publish("t", b"", body))
    raises(OSError, publisher.finish)
    second = Server(bodies)
    assert publisher.publish("t", b"", b"d") == 4
    publisher.finish()
    assert publisher.persisted == 4
    assert publisher.close() == 0
    second.end()
    assert bodies == [b"a", b"b", b"c", b"d"]


def test_a_message_is_held_also_if_no_more_may_be():
    bodies = []
    first = Server(bodies, limit=1)
    publisher = log.Publisher(f"unix:{PATH}", name="p", held_max=1, patience=0.05)
    publish_last(publisher, b"a")
    first.end()
    for body in (b"b", b"c"):
        raises(OSError, lambda body=body: publisher.publish("t", b"", body))
    # What can't be sent is not held, and takes no sequence.
    raises(struct.error, lambda: publisher.publish("t" * 256, b"", b"x"))
    second = Server(bodies)
    assert publisher.publish("t", b"", b"d") == 4
    publisher.finish()
    assert publisher.close() == 0
    second.end()
    assert bodies == [b"a", b"b", b"c", b"d"]


def test_closing_tells_what_may_be_lost():
    bodies = []
    server = Server(bodies)
    with log.Publisher(f"unix:{PATH}", name="p", patience=0.05) as publisher:
        for body in (b"a", b"b", b"c"):
            publisher.publish("t", b"", body)
    server.end()
    assert bodies == [b"a", b"b", b"c"]
    assert "closed" in raises(ValueError, lambda: publisher.publish("t", b"", b"d"))

    first = Server(bodies, limit=4)
    publisher = log.Publisher(f"unix:{PATH}", name="p", patience=0.05)
    publish_last(publisher, b"d")
    first.end()
    raises(OSError, lambda: publisher.publish("t", b"", b"e"))
    assert publisher.close() == 1
    assert "1 messages" in raises(ValueError, publisher.finish)


if __name__ == "__main__":
    for name, test in list(globals().items()):
        if name.startswith("test_"):
            test()
