# SPDX-License-Identifier: Apache-2.0
"""A node's agent as a rank of python_state.py meets it under a job (dlr_local(5)): it offers a version that
another number of ranks made and whose slots are files, as a requeued job does.
"""
import fcntl
import mmap
import os
import socket
import struct
import threading

HEAD = struct.Struct("<IHHIiQ4QII")  # magic, version, type, round, rank, step, arg[4], bytes of text, 0
MAGIC, VERSION = 0x4c524c44, 2
HELLO, RESTORED, PEEK, WATCH, WELCOME, GO, PEEKED, WATCHED = 16, 20, 22, 28, 32, 34, 35, 42
ROUND = 4
WATCH_BYTES, F_ADD_SEALS, F_SEAL_SHRINK = 32768, 1033, 2


def _page(rank):
    """A progress page on which nothing was begun, ordered or committed."""
    fd = os.memfd_create("page")
    os.truncate(fd, 4096)
    with mmap.mmap(fd, 4096) as page:
        struct.pack_into("<4sIiI", page, 0, b"DLP2", 4096, rank, ROUND)
        page[64:72] = b"\xff" * 8
        page[128:264] = b"\xff" * 136
    return fd


def _watch_page(rank):
    """A watch page on which nothing was told."""
    fd = os.memfd_create("watch", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.truncate(fd, WATCH_BYTES)
    fcntl.fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK)
    os.pwrite(fd, struct.pack("<4sIiI", b"DLW1", WATCH_BYTES, rank, ROUND), 0)
    os.pwrite(fd, b"\xff" * 8, 72)
    return fd


class Agent:
    """While it is entered it is the agent of this process, which is the rank. restored: the errno that
    the rank told, None before; peeked: whose slots it asked for.
    """

    def __init__(self, directory, rank, step, made_by):
        self._dir, self._rank, self._step, self._made_by = directory, rank, step, made_by
        self._path = os.path.join(directory, "agent")
        self.restored, self.peeked = None, []
        self.watch = _watch_page(rank)

    def __enter__(self):
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listener.bind(self._path)
        self._listener.listen()
        os.environ.update(DLROVER_AGENT_SOCKET=self._path, DLROVER_ROUND=str(ROUND))
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_):
        del os.environ["DLROVER_AGENT_SOCKET"], os.environ["DLROVER_ROUND"]
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        os.unlink(self._path)

    def _accept(self):
        while True:
            try:
                conn, _ = self._listener.accept()
            except OSError:
                return  # it is over
            threading.Thread(target=self._serve, args=(conn,), daemon=True).start()

    def _serve(self, conn):
        with conn:
            while True:
                packet = conn.recv(16384)
                if not packet:
                    return
                _, _, kind, _, _, _, *arg, _, _ = HEAD.unpack_from(packet)
                self._answer(conn, kind, arg)

    def _answer(self, conn, kind, arg):
        if kind == HELLO:
            page = _page(self._rank)
            self._say(conn, WELCOME, [1, 0, 0, self._made_by], "cluster.7.run", [page])
            os.close(page)
        elif kind == WATCH:
            self._say(conn, WATCHED, [0] * 4, "", [self.watch])
        elif kind == PEEK:
            self.peeked.append(arg[0])
            name = f"r{arg[0]}-{self._step}.safetensors"
            self._say(conn, PEEKED, [arg[0], 0, 0, 0], os.path.join(self._dir, name))
        elif kind == RESTORED:
            self.restored = arg[1]
            self._say(conn, GO, [0] * 4)

    def _say(self, conn, kind, arg, text="", fds=()):
        head = HEAD.pack(MAGIC, VERSION, kind, ROUND, self._rank, self._step, *arg, len(text), 0)
        socket.send_fds(conn, [head + text.encode()], fds)
