"""Shared by the tests of `cupola serve`: processes on a board, messages made by hand, and another user.

CUPOLA names the command, BOARD_MEMBER a client that does what it is told, line by line. Every wait is
for something that can be observed, with a deadline; nothing sleeps to let time pass.
"""
import fcntl
import json
import os
import shutil
import socket
import struct
import subprocess
import tempfile
import time
import unittest

CUPOLA = os.environ["CUPOLA"]
BOARD_MEMBER = os.environ["BOARD_MEMBER"]
TIMEOUT = 60
DAEMON_BIT = 1 << 63
MORE_REQUESTS = 1 << 62
BOARD_SLOTS = 256
NOBODY = 65534
NOBODY_PREFIX = ["setpriv", f"--reuid={NOBODY}", "--clear-groups"]


def until(condition, what):
    """Calls `condition()` until it is true, and returns its value."""
    deadline = time.monotonic() + TIMEOUT
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
        time.sleep(0.002)  # between two looks
    raise AssertionError(f"never: {what}")


def as_nobody(work):
    """Calls `work()` in a child process of another user and returns its result; an exception there fails the test."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setresuid(NOBODY, NOBODY, NOBODY)
            answer = {"value": work()}
        except BaseException as error:  # pylint: disable=broad-except
            answer = {"error": repr(error)}
        with os.fdopen(write, "w") as out:
            json.dump(answer, out)
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as answer:
        told = json.load(answer)
    os.waitpid(child, 0)
    if "error" in told:
        raise AssertionError(told["error"])
    return told["value"]


class Wire:
    """The messages of sched/board/protocol.h, as anyone can make them."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.connect(path)  # waits for room; with a time-out it would fail
        self.socket.settimeout(TIMEOUT)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def control(self, **request):
        text = json.dumps(request).encode()
        self.socket.send(struct.pack("<IHHII", 0x4D504F43, 1, 3, 16 + len(text), 0) + text)
        return json.loads(self.socket.recv(65536)[16:])

    def hear(self):
        """The refusal that the daemon sends unasked: (status, reason, whether it has closed the connection)."""
        answer = self.socket.recv(65536)
        return [struct.unpack_from("<I", answer, 16)[0], answer[32:272].rstrip(b"\0").decode(),
                self.socket.recv(65536) == b""]

    def join(self, uuid=b"SIM-0", board=None, slot=0xFFFFFFFF):
        """Joins, perhaps with a board that it brings: (status, reason)."""
        message = struct.pack("<IHHIIIIII", 0x4D504F43, 1, 1, 416, 0, 1, 132, slot, 0)
        socket.send_fds(self.socket, [message + uuid.ljust(64, b"\0") + bytes(320)],
                        [] if board is None else [board])
        answer, files, _, _ = socket.recv_fds(self.socket, 65536, 4)
        for file in files:
            os.close(file)
        return struct.unpack_from("<I", answer, 16)[0], answer[32:272].rstrip(b"\0").decode()


def stat_of(pid):
    """The fields of /proc/PID/stat behind the name (proc(5))."""
    with open(f"/proc/{pid}/stat", "rb") as file:  # a name may be any bytes
        return file.read().rpartition(b")")[2].decode().split()


def state_of(pid):
    return stat_of(pid)[0]


def start_of(pid):
    return int(stat_of(pid)[19])


def forge_board(pids, uuid=b"SIM-0"):
    """A board (sched/board/board.h) with these processes in its first slots, as if it were of an earlier
    daemon."""
    memory = bytearray(4096 + BOARD_SLOTS * 512)
    struct.pack_into("<IIIIQ64s", memory, 0, 0x43555042, 5, BOARD_SLOTS, 0, 0, uuid)
    for i, pid in enumerate(pids):
        struct.pack_into("<IIIiII4QQ", memory, 4096 + 512 * i, 1, pid, os.geteuid(), 0, 1, 0,
                         0, 0, 0, 0, start_of(pid))
    board = os.memfd_create("board", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.write(board, memory)
    fcntl.fcntl(board, fcntl.F_ADD_SEALS,
                fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
    return board


class Member:
    """A process on the board."""

    def __init__(self, test, uuid="SIM-0", name="/bin/member", capabilities=1, prefix=(), env=None):
        self.process = subprocess.Popen(
            [*prefix, BOARD_MEMBER, uuid, name, str(capabilities)], env=env or test.env,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        test.addCleanup(self.close)
        self.joined = self.process.stdout.readline().strip()

    def close(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()

    def say(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def show(self):
        words = self.say("show").split()
        values = dict(zip(words[::2], words[1::2]))
        return {name: int(value, 16 if name in ("requests", "bound", "may_take") else 10)
                for name, value in values.items()}

    @property
    def pid(self):
        return self.process.pid

    @property
    def slot(self):
        return self.show()["slot"]


class ServeTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="cupola-serve-")
        self.addCleanup(shutil.rmtree, self.folder)
        os.chmod(self.folder, 0o755)
        os.mkdir(os.path.join(self.folder, "run"), 0o700)
        self.socket = os.path.join(self.folder, "run", "a.sock")
        self.config = os.path.join(self.folder, "c.toml")
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(("CUPOLA", "LD_"))}
        self.env["CUPOLA_SOCKET"] = self.socket

    def serve(self, *options, env=None):
        daemon = subprocess.Popen([CUPOLA, "serve", *options], env=env or self.env,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

        def close():
            daemon.kill()
            daemon.wait()
            daemon.stdout.close()
            daemon.stderr.close()
        self.addCleanup(close)
        self.assertEqual(daemon.stdout.readline(), f"listening on {self.socket}\n")
        return daemon

    def write_config(self, text):
        with open(self.config, "w", encoding="utf-8") as file:
            file.write(text)

    def cupola(self, *words, **more):
        return subprocess.run([CUPOLA, *words], env=self.env, capture_output=True, text=True,
                              timeout=TIMEOUT, check=False, **more)

    def ctl(self, *words):
        done = self.cupola("ctl", *words)
        self.assertEqual((done.returncode, done.stderr), (0, ""), words)
        return done.stdout

    def clients(self):
        shown = json.loads(self.ctl("--json", "show"))
        return {c["pid"]: c for gpu in shown["gpus"] for c in gpu["clients"]}
