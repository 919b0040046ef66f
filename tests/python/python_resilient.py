# SPDX-License-Identifier: Apache-2.0
"""A process that stays over two rounds, with a played agent (dlr_local(5)): what ends a wait, what is new after it,
what is said of things left over.
"""
import os
import socket
import struct
import sys
import tempfile
import threading
import time

HEAD = struct.Struct("<IHHIiQ4QII")  # magic, version, type, round, rank, step, arg[4], bytes of text, 0
MAGIC, VERSION = 0x4c524c44, 2
STAY, PARKED, PARK, JOIN = 24, 25, 38, 39


def say(conn, kind, number, fds=()):
    socket.send_fds(conn, [HEAD.pack(MAGIC, VERSION, kind, number, 3, 0, 0, 0, 0, 0, 0, 0)], fds)


def hear(conn, kind, number):
    head = HEAD.unpack_from(conn.recv(16384))
    assert head[2:5] == (kind, number, 3), head


def play(listener, begun, output):
    """The agent: the round ends each time that the function is in it, until the third."""
    conn, _ = listener.accept()
    hear(conn, STAY, 4)
    for number in 4, 5:
        begun.wait()
        begun.clear()
        say(conn, PARK, number)
        hear(conn, PARKED, number)
        environment = os.memfd_create("environment")
        os.write(environment, f"DLROVER_ROUND={number + 1}\0MASTER_PORT={number}\0HOME=/else\0".encode())
        say(conn, JOIN, number + 1, [output, 2, environment])
        os.close(environment)
    conn.recv(1)


def main():
    directory = tempfile.mkdtemp()
    path = os.path.join(directory, "agent")
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(path)
    listener.listen()
    os.environ.update(DLROVER_AGENT_SOCKET=path, DLROVER_ROUND="4", SLURM_PROCID="3", DLROVER_IN_PROCESS="1",
                      HOME="/here")
    begun, last = threading.Event(), threading.Event()
    output = os.open(os.path.join(directory, "out"), os.O_WRONLY | os.O_CREAT)
    threading.Thread(target=play, args=(listener, begun, output), daemon=True).start()
    import dlrover  # pylint: disable=import-outside-toplevel

    seen, peers = [], []

    @dlrover.resilient
    def train(word):
        seen.append((os.environ["DLROVER_ROUND"], os.environ.get("MASTER_PORT"), os.environ["HOME"]))
        if len(seen) == 3:
            return word
        begun.set()
        if len(seen) == 1:
            threading.Thread(target=last.wait, name="left over", daemon=True).start()
            server = socket.create_server(("127.0.0.1", 0))
            with socket.create_connection(server.getsockname()) as mine:
                peers.append(server.accept())
                if not mine.recv(1):  # it blocks: nobody sends
                    raise RuntimeError("connection closed by peer")
        while True:
            time.sleep(0.01)

    assert train("done") == "done"
    assert seen == [("4", None, "/here"), ("5", "4", "/here"), ("6", "5", "/here")], seen
    os.write(1, b"of the last round\n")
    with open(os.path.join(directory, "out"), encoding="ascii") as file:
        assert file.read() == "of the last round\n"
    try:
        with dlrover.round() as current:
            raise KeyError("a fault of the program")
    except KeyError:
        assert not current.ended
    try:
        with dlrover.round(), dlrover.round():
            pass
    except RuntimeError as error:
        print(error, file=sys.stderr)


main()
