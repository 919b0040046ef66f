#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What another user of a node may try against a job: stranger.py UID JOB PORT,... [PAYLOAD CREDENTIAL].

Prints a line for everything that worked and must not. PORTs are those of the job on this node. PAYLOAD is
what the supervisor's CREDENTIAL says: with its public key, which nobody should have, messages are sent
as if this were an agent.
"""
import ctypes
import json
import os
import pwd
import re
import resource
import select
import signal
import socket
import stat
import struct
import subprocess
import sys

uid, job = int(sys.argv[1]), sys.argv[2]
ports = [int(port) for port in sys.argv[3].split(",")]
payload = json.loads(sys.argv[4]) if len(sys.argv) > 4 else None
seen = sys.argv[5] if len(sys.argv) > 5 else None
FLOOD = 300  # connections at once
WAIT_MS = 1500  # for an answer that must not come
HOARD, LARGE = 128, 3 << 20  # connections, bytes that each sends in the handshake's place
GROWTH_KB = 64 << 10  # of any process, at most
PTRACE_ATTACH, PIDFD_OPEN, PIDFD_GETFD = 16, 434, 438
GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x00" + b"CURVE".ljust(20, b"\0") + bytes(32)
libc = ctypes.CDLL(None, use_errno=True)


def must_fail(what, fn, *args):
    try:
        fn(*args)
    except OSError:
        return
    print(f"{what} worked")


def system(what, *args):
    """A function of the C library that must fail."""
    if what(*args) >= 0:
        return
    raise OSError(ctypes.get_errno(), "")


def processes():
    """Those of the owner, with their names."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.stat(f"/proc/{pid}").st_uid == uid:
                yield int(pid), open(f"/proc/{pid}/comm").read().strip()
        except OSError:
            pass


def memory():
    """Of the job's own tmpfs, and of /dev/shm where there is none."""
    tops = [t for t in (f"/run/dlrover/{uid}-{job}", "/dev/shm") if os.path.isdir(t)]
    mine = [f"{t}/{n}" for t in tops for n in os.listdir(t) if n.startswith(f"dlrover-{uid}-{job}")]
    if not any(os.stat(path).st_uid == uid for path in mine):
        print("there is no memory of the job to try")
    for path in mine:
        if os.stat(path).st_uid != uid:
            continue
        if stat.S_IMODE(os.stat(path).st_mode) != 0o700:
            print(f"{path} is open to others")
        must_fail(f"listing {path}", os.listdir, path)
        must_fail(f"writing into {path}", open, f"{path}/x", "w")
        must_fail(f"renaming {path}", os.rename, path, f"{os.path.dirname(path)}/stolen")
        must_fail(f"removing {path}", os.rmdir, path)


def the_processes():
    names = set()
    for pid, name in processes():
        names.add(name)
        must_fail(f"killing {name}", os.kill, pid, signal.SIGKILL)
        must_fail(f"stopping {name}", os.kill, pid, signal.SIGSTOP)
        for part in ("environ", "mem", "maps", "fd/9"):
            must_fail(f"reading {part} of {name}", open, f"/proc/{pid}/{part}", "rb")
        must_fail(f"listing descriptors of {name}", os.listdir, f"/proc/{pid}/fd")
        must_fail(f"tracing {name}", system, libc.ptrace, PTRACE_ATTACH, pid, None, None)
        must_fail(f"taking a descriptor of {name}", system, libc.syscall, PIDFD_GETFD,
                  libc.syscall(PIDFD_OPEN, pid, 0), 3, 0)
        words = open(f"/proc/{pid}/cmdline", "rb").read()
        if re.search(rb"(?:[^0-9a-f]|^)[0-9a-f]{32}(?:[^0-9a-f]|$)|\0[^\0/ ]{40}\0", words):
            print(f"{name} has a token or a key on its command line")
    if "dlrover-agent" not in names:
        print(f"there is no agent to try, only {sorted(names)}")
    # Abstract sockets have no mode; ours have names in directories.
    for line in open("/proc/net/unix").read().splitlines()[1:]:
        word = line.split()
        if len(word) > 7 and "dlrover" in word[7] and f"dlrover-{os.getuid()}-" not in word[7]:
            s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            must_fail(f"connecting to {word[7]}", s.connect, word[7].replace("@", "\0", 1))


def state():
    """What the supervisor keeps, and what a requeued job would restore."""
    run = f"{pwd.getpwuid(uid).pw_dir}/.dlrover/job-{job}"
    must_fail("listing the state", os.listdir, run)
    must_fail("planting state", open, f"{run}/state.json", "w")
    must_fail("reading the journal", open, f"{run}/events.jsonl")
    must_fail("taking the state away", os.rename, run, f"{run}.old")
    must_fail("planting the next job's", os.symlink, "/tmp", f"{os.path.dirname(run)}/job-{int(job) + 1}")


def ours():
    """{pid: (name, the most KiB it ever had)} of the job's processes of this suite."""
    found = {}
    for pid, name in processes():
        if name.startswith("dlrover-"):
            said = re.search(r"VmHWM:\s*(\d+)", open(f"/proc/{pid}/status").read())
            found[pid] = name, int(said[1]) if said else 0
    return found


def hoard(host, port):
    """All but the end of a large message on many connections at once, before any handshake."""
    held, ready = flood(host, port, HOARD), select.poll()
    left = {s.fileno(): (s, memoryview(GREETING + struct.pack(">BQ", 6, 4 << 20) + bytes(LARGE))) for s in held}
    for fd in left:
        ready.register(fd, select.POLLOUT)
    for _ in range(2 * LARGE >> 20):
        for fd, _what in ready.poll(200):
            s, rest = left[fd]
            try:
                left[fd] = s, rest[s.send(rest):]
            except OSError:
                ready.unregister(fd)
    return held


def garbage(host, port):
    huge = struct.pack(">BQ", 2, 1 << 62)  # the head of an endless ZMTP frame
    null = b"\xff" + bytes(8) + b"\x7f\x03\x00" + b"NULL".ljust(20, b"\0") + bytes(32)
    for bytes_ in (b"GET / HTTP/1.1\r\n\r\n", os.urandom(65536), b"\xff" * (1 << 20), bytes(1 << 20),
                   GREETING + huge + bytes(1 << 20), null + huge, b'{"v":2,"t":"shutdown"}', b"DLRB" + bytes(44)):
        try:
            with socket.create_connection((host, port), 2) as s:
                s.settimeout(0.2)
                s.sendall(bytes_)
                s.recv(64)
        except OSError:
            pass


def flood(host, port, count=FLOOD):
    held = []
    for _ in range(count):
        try:
            s = socket.socket()
            s.setblocking(False)
            s.connect_ex((host, port))
            held.append(s)
        except OSError:
            break
    return held


class Zmq:
    """As much of libzmq as an agent has."""

    DEALER, LINGER, RCVTIMEO, PUB, SEC, SERVER = 5, 17, 27, 48, 49, 50

    def __init__(self):
        self.lib = ctypes.CDLL("libzmq.so.5")
        for name in ("zmq_ctx_new", "zmq_socket"):
            getattr(self.lib, name).restype = ctypes.c_void_p
        self.ctx = ctypes.c_void_p(self.lib.zmq_ctx_new())
        pub, sec = ctypes.create_string_buffer(41), ctypes.create_string_buffer(41)
        self.lib.zmq_curve_keypair(pub, sec)
        self.pub, self.sec = pub.value, sec.value

    def dealer(self, host, port, server):
        s = ctypes.c_void_p(self.lib.zmq_socket(self.ctx, self.DEALER))
        for option, value in ((self.LINGER, 0), (self.RCVTIMEO, WAIT_MS)):
            number = ctypes.c_int(value)
            self.lib.zmq_setsockopt(s, option, ctypes.byref(number), 4)
        for option, value in ((self.SERVER, server), (self.PUB, self.pub), (self.SEC, self.sec)):
            self.lib.zmq_setsockopt(s, option, value + b"\0", 41)
        self.lib.zmq_connect(s, f"tcp://{host}:{port}".encode())
        return s

    def ask(self, host, port, server, messages):
        """What comes back; [] when nothing does."""
        s, got = self.dealer(host, port, server), []
        for m in messages:
            self.lib.zmq_send(s, m, len(m), 0)
        buf = ctypes.create_string_buffer(1 << 16)
        while (n := self.lib.zmq_recv(s, buf, len(buf), 0)) >= 0:
            got.append(buf.raw[: min(n, len(buf))])
        self.lib.zmq_close(s)
        return got


def credential(says):
    return subprocess.run(["munge", "-s", json.dumps(says)], capture_output=True, text=True,
                          check=True).stdout.strip()


def as_agent(zmq, host, port):
    other = b"rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7"  # the key of an example in RFC 27
    if zmq.ask(host, port, other, [b'{"v":2,"t":"shutdown"}']):
        print(f"port {port} answers who has not its key")
    if not payload:
        return
    run = {**payload, "key": zmq.pub.decode()}
    hello = {"v": 2, "t": "hello", "node": "n2", "boot": "b", "pid": 1, "topo": "n2", "addr": f"{host}:1",
             "key": zmq.pub.decode(), "data": "", "cpus": 1, "shm_free": 1}
    messages = [json.dumps({**hello, "cred": c}).encode() for c in (credential(run), seen or "", "MUNGE:AAA=:")]
    messages += [b'{"v":2,"t":"shutdown"}', b'{"v":2,"t":"exit","round":0,"rank":0,"status":9,"at_ms":1}',
                 b'{"v":2,"t":"kill","round":0}', b'{"v":2,"t":"persist","gen":1,"id":1,"rank":0}',
                 b"[" * (1 << 20), b"x" * (8 << 20)]
    for answer in zmq.ask(host, port, payload["key"].encode(), messages):
        if json.loads(answer).get("t") != "who":
            print(f"port {port} answers a stranger: {answer[:200]!r}")


def main():
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    before = ours()
    memory()
    state()
    the_processes()
    zmq, held, host = Zmq(), [], socket.gethostname()
    for port in ports:
        held += flood(host, port)
        garbage(host, port)
        held += hoard(host, port)
        as_agent(zmq, host, port)
    after = ours()
    for pid, (name, most) in before.items():
        if pid not in after:
            print(f"{name} is gone")
        elif after[pid][1] - most > GROWTH_KB:
            print(f"{name} took {after[pid][1] - most} KiB more")
    for s in held:
        s.close()


main()
