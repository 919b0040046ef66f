#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A stand-in for the agent: listens at SOCKET and writes each local message to LOG.

usage: agent.py SOCKET LOG

The layout is that of struct dlr_local_msg in common/local/message.h.
"""
import select
import socket
import struct
import sys

NAMES = {1: "STEPD", 2: "TASK", 3: "EXIT", 4: "STDERR"}
HEAD = struct.Struct("<IHHIiQQQQQII")


def main():
    path, log = sys.argv[1:]
    server = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    server.bind(path)
    server.listen(64)
    out = open(log, "w", buffering=1)
    print("ready", flush=True)
    peers = [server]
    while True:
        for peer in select.select(peers, [], [])[0]:
            if peer is server:
                peers.append(server.accept()[0])
                continue
            msg = peer.recv(16384)
            if not msg:
                print("EOF", file=out)
                peers.remove(peer)
                peer.close()
                continue
            _, _, kind, rnd, rank, _, arg, _, _, _, size, _ = HEAD.unpack_from(msg)
            text = msg[HEAD.size:HEAD.size + size].decode()
            print(NAMES.get(kind, kind), rnd, rank, arg, repr(text), file=out)


main()
