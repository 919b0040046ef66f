#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A PUT request to a port of UCX's TCP transport, as anybody may send it: ucx_put.py HOST PORT [ADDRESS].

Without an address no byte is written; UCX acknowledges it all the same. With one (0x..., of the process that
listens) a word is written there. Prints "obeyed" when it was acknowledged, "dropped" when not; exit status 0.
"""
import socket
import struct
import sys

MAGIC, CONNECT, PUT_REQUEST, PUT_ACK = 0xCAFEBABE12345678, 32, 33, 34
WAIT_S = 1

host, port = sys.argv[1], int(sys.argv[2])
address = int(sys.argv[3], 0) if len(sys.argv) > 3 else 0
data = b"stranger" if address else b""


def message(kind, payload):
    return struct.pack("<BI", kind, len(payload)) + payload


me = struct.pack("<H", socket.AF_INET) + bytes(14)
hello = struct.pack("<Q", MAGIC) + message(CONNECT, struct.pack("<IBQ", 1, 0, 7) + me)
request = message(PUT_REQUEST, struct.pack("<QQI", address, len(data), 1)) + data
answer = b""
try:
    with socket.create_connection((host, port), WAIT_S) as s:
        s.sendall(hello + request)
        while bytes([PUT_ACK, 4, 0, 0, 0]) not in answer and (more := s.recv(64)):
            answer += more
except OSError:
    pass
print("obeyed" if bytes([PUT_ACK, 4, 0, 0, 0]) in answer else "dropped")
