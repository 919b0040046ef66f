#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A Python that has imported what takes long, and runs programs in forks of itself.

forked.py serve SOCKET MODULE…          imports the modules, prints the process that serves from now on, and ends
forked.py run SOCKET [-c CODE | - | SCRIPT] [ARGUMENT…]
                                        as `python3 …` with the caller's environment, folder and files; without an
                                        argument that it knows, or a server, it becomes that python3

Only modules that keep nothing between programs are named: each program imports dlrover itself. Numbers that Python and
NumPy draw are others in each program, as without a fork.
"""
import json
import os
import select
import signal
import socket
import sys
import types

REQUEST_MAX = 1 << 20


def become(request):
    """In the fork: its folder, environment, words and numbers; umask, limits and hash seed are the server's. Returns
    the program's code and its namespace."""
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    sys.path[1:1] = [path for path in request["env"].get("PYTHONPATH", "").split(":") if path and path not in sys.path]
    kind, *rest = request["argv"]
    if kind == "-c":
        name, text, sys.argv = "<string>", rest[0], ["-c", *rest[1:]]
        sys.path[0] = ""
    elif kind == "-":
        name, text, sys.argv = "<stdin>", sys.stdin.read(), ["-", *rest]
        sys.path[0] = ""
    else:
        with open(kind, encoding="utf-8") as file:
            name, text, sys.argv = kind, file.read(), [kind, *rest]
        sys.path[0] = os.path.dirname(os.path.abspath(kind))
    for drawn in ("random", "numpy.random"):
        if drawn in sys.modules:
            sys.modules[drawn].seed()
    main = types.ModuleType("__main__")
    main.__file__ = name
    sys.modules["__main__"] = main
    return compile(text, name, "exec"), main.__dict__


def supervise(connection, program):
    """Tells how the program ended; one whose caller is gone is ended with all that it started."""
    ended = os.pidfd_open(program)
    ready, _, _ = select.select([ended, connection], [], [])
    if ended not in ready:
        os.killpg(program, signal.SIGKILL)
    _, status = os.waitpid(program, 0)
    try:
        connection.sendall(b"%d" % status)
    except OSError:
        pass  # the caller is gone
    os._exit(0)


def accept(listener):
    """Returns in the fork that is a program, with its request; never in the server."""
    while True:
        connection, _ = listener.accept()
        if os.fork():
            connection.close()
            continue
        listener.close()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        text, files, _, _ = socket.recv_fds(connection, REQUEST_MAX, 3)
        program = os.fork()
        if program:
            try:
                os.setpgid(program, program)  # before it can be asked to end
            except OSError:
                pass  # it has, or is at an end
            for file in files:
                os.close(file)
            supervise(connection, program)
        os.setpgid(0, 0)
        connection.close()
        for number, file in enumerate(files):
            os.dup2(file, number)
            os.close(file)
        return json.loads(text)


def serve(path, modules):
    """Only a program returns from here."""
    sys.dont_write_bytecode = True
    for module in modules:
        __import__(module)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those who supervise
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(path + ".new")
    listener.listen(16)
    os.rename(path + ".new", path)
    if os.fork():
        os._exit(0)
    os.setsid()
    print(os.getpid(), flush=True)
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(nothing, number)
    os.close(nothing)
    return become(accept(listener))


def run(path, argv):
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, REQUEST_MAX)
        try:
            if not argv or argv[0].startswith("-") and argv[0] not in ("-", "-c"):
                raise OSError
            connection.connect(path)
        except OSError:
            os.execv(sys.executable, [sys.executable, *argv])
        request = json.dumps({"cwd": os.getcwd(), "env": dict(os.environ), "argv": argv})
        socket.send_fds(connection, [request.encode()], [0, 1, 2])
        answer = connection.recv(16)
    if not answer:
        sys.exit(f"forked: '{path}' ended")
    code = os.waitstatus_to_exitcode(int(answer))
    if code < 0:
        os.kill(os.getpid(), -code)
    sys.exit(code)


if sys.argv[1] == "run":
    run(sys.argv[2], sys.argv[3:])
code, namespace = serve(sys.argv[2], sys.argv[3:])
del serve, run, accept, supervise, become
exec(code, namespace)  # what it raises ends this process as it would end its own
