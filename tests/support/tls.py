"""TLS in front of a server that has none: what comes in is decrypted and passed on.

The servers that the tests start are built without TLS, so this stands where theirs would be: a
client sees certificates, handshakes and refusals as of any server. PostgreSQL's clients ask in
their own protocol whether TLS may begin, and are answered.
"""

from __future__ import annotations

import socket
import ssl
import threading
from contextlib import suppress

__all__ = ["TlsProxy"]

_ASKS = b"\0\0\0\x08\x04\xd2\x16\x2f"  # PostgreSQL's SSLRequest


class TlsProxy:
    """Listens on a port of its own; a context manager.

    Args:
        to: the port of the server, on this host.
        certificate, key: files in PEM.
        asked: clients speak PostgreSQL's protocol.
    """

    def __init__(self, to: int, certificate: str, key: str, *, asked: bool = False) -> None:
        self._to, self._asked = to, asked
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(certificate, key)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._links: list[socket.socket] = []
        self.port: int = self._listener.getsockname()[1]
        self.taken = 0  # connections that were encrypted

    def __enter__(self) -> TlsProxy:
        threading.Thread(target=self._listen, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        for link in [self._listener, *self._links]:
            with suppress(OSError):
                link.shutdown(socket.SHUT_RDWR)
            link.close()

    def _listen(self) -> None:
        with suppress(OSError):  # closed
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        try:
            if self._asked:
                if client.recv(8, socket.MSG_WAITALL) != _ASKS:
                    client.close()
                    return
                client.sendall(b"S")
            outer = self._context.wrap_socket(client, server_side=True)
        except (OSError, ssl.SSLError):  # it does not trust us
            client.close()
            return
        self.taken += 1
        inner = socket.create_connection(("127.0.0.1", self._to))
        self._links += [outer, inner]
        # one thread per direction: a TLS socket may be read and written side by side
        back = threading.Thread(target=_pass, args=(inner, outer), daemon=True)
        back.start()
        _pass(outer, inner)
        back.join()
        for link in (outer, inner):
            link.close()


def _pass(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError, ssl.SSLError, ValueError):
        while data := source.recv(1 << 16):
            target.sendall(data)
    with suppress(OSError):
        target.shutdown(socket.SHUT_RDWR)
    with suppress(OSError):
        source.shutdown(socket.SHUT_RDWR)
