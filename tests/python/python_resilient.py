# SPDX-License-Identifier: Apache-2.0
"""A process that stays over two rounds, with a played agent (dlr_local(5)): what ends a wait, what is new after it,
what is said of things left over. Before it, one that runs ahead on a spare: it waits in its first round for a rank.
"""
import os
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

HEAD = struct.Struct("<IHHIiQ4QII")  # magic, version, type, round, rank, step, arg[4], bytes of text, 0
MAGIC, VERSION = 0x4c524c44, 2
STAY, PARKED, WARM, PARK, JOIN = 24, 25, 27, 38, 39


def say(conn, kind, number, fds=(), task=0):
    socket.send_fds(conn, [HEAD.pack(MAGIC, VERSION, kind, number, 3, 0, task, 0, 0, 0, 0, 0)], fds)


def hear(conn, kind, number, rank=3):
    head = HEAD.unpack_from(conn.recv(16384))
    assert head[2:5] == (kind, number, rank), head


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


def ahead():
    """In a process of its own, that has run ahead."""
    import dlrover  # pylint: disable=import-outside-toplevel

    try:
        dlrover.Checkpoint()
        raise AssertionError("a checkpoint without a rank")
    except dlrover.Error as error:
        assert "runs ahead" in str(error), error
    with dlrover.round() as current:
        got = (current.number, os.environ["RANK"], os.environ["HOME"], "DLROVER_WARM" in os.environ,
               os.getenv("DLROVER_WARM"), len(os.sched_getaffinity(0)))
        assert got == (5, "3", "/of-the-task", False, None, 1), got
    print("in the round", flush=True)


def play_ahead(listener, path, output):
    """The spare's agent: the node gets a rank, whose task has one CPU and this environment."""
    words = [sys.executable, os.path.realpath(__file__), "ahead"]
    environment = {**os.environ, "DLROVER_AGENT_SOCKET": path, "DLROVER_ROUND": "4", "DLROVER_IN_PROCESS": "1",
                   "DLROVER_WARM": "1", "HOME": "/here"}
    with subprocess.Popen(["sleep", "60"]) as task, subprocess.Popen(words, env=environment) as process:
        os.sched_setaffinity(task.pid, {min(os.sched_getaffinity(0))})
        conn, _ = listener.accept()
        hear(conn, WARM, 0, -1)
        file = os.memfd_create("environment")
        os.write(file, b"DLROVER_ROUND=5\0SLURM_PROCID=3\0RANK=3\0HOME=/of-the-task\0")
        say(conn, JOIN, 5, [output, 2, file], task.pid)
        os.close(file)
        code = process.wait()
        task.kill()
        conn.close()
    assert code == 0, code
    with open(f"/proc/self/fd/{output}", encoding="ascii") as text:
        assert text.read() == "in the round\n"
    os.ftruncate(output, 0)
    os.lseek(output, 0, os.SEEK_SET)


def main():
    directory = tempfile.mkdtemp()
    path = os.path.join(directory, "agent")
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(path)
    listener.listen()
    output = os.open(os.path.join(directory, "out"), os.O_WRONLY | os.O_CREAT)
    play_ahead(listener, path, output)
    os.environ.update(DLROVER_AGENT_SOCKET=path, DLROVER_ROUND="4", SLURM_PROCID="3", DLROVER_IN_PROCESS="1",
                      HOME="/here")
    begun, last = threading.Event(), threading.Event()
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


if __name__ == "__main__" and sys.argv[1:] == ["ahead"]:
    ahead()
elif __name__ == "__main__":
    main()
