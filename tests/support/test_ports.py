"""Ports that stay free until a server takes them."""

from __future__ import annotations

import os
import socket

from tests.support import ports


def test_a_port_is_given_once_and_is_not_one_of_connections() -> None:
    taken = [ports.free_port() for _ in range(20)]
    assert len({*taken}) == 20
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert max(taken) < server.getsockname()[1]
    for file in ports._reserved[-20:]:
        os.close(file)
    del ports._reserved[-20:]
