"""A board in a file, for a program of one process, and a requester that asks it to yield all the time. Standard
library only."""
import contextlib
import mmap
import os
import struct
import threading

# sched/board/board.h: the head, slot 0, and in it gate, demand, stopped, yield_requests, yield_sm_bound, wake, not_now and
# being_asked.
BOARD_BYTES, SLOT, DEMAND, STOPPED, REQUESTS, BOUND, WAKE = 135168, 4096, 132, 164, 256, 264, 272
GATE, HELD_FOR_ANYONE = 112, 1  # may_be_held is behind the gate
NOT_NOW, BEING_ASKED = 344, 348
DAEMON_BIT, ALL_SMS = 1 << 63, 0xFFFF


class Board:
    def __init__(self, folder):
        self.path = os.path.join(folder, "board")
        with open(self.path, "wb") as file:
            file.write(bytes(BOARD_BYTES))
        self.file = open(self.path, "r+b")
        self.memory = mmap.mmap(self.file.fileno(), 0)
        struct.pack_into("<III", self.memory, 0, 0x43555042, 5, 256)
        struct.pack_into("<I", self.memory, SLOT, 1)
        struct.pack_into("<I", self.memory, SLOT + BOUND, ALL_SMS)
        self.asked = self.answered = 0

    def close(self):
        self.memory.close()
        self.file.close()

    def ask(self, requests):
        """Asks the process to yield (`requests` is not 0), or lets it go. False: it may not be asked now.

        As sched/board/yield_protocol.h says under "Not now": a process that was asked in spite of that would hang.
        """
        struct.pack_into("<I", self.memory, SLOT + BEING_ASKED, 1)
        may_ask = requests == 0 or struct.unpack_from("<I", self.memory, SLOT + NOT_NOW)[0] == 0
        if may_ask:
            struct.pack_into("<Q", self.memory, SLOT + REQUESTS, requests)
            # A process does not wait for ever for a requester that is not given a processor.
            if requests != 0 and struct.unpack_from("<I", self.memory, SLOT + NOT_NOW)[0] != 0:
                struct.pack_into("<Q", self.memory, SLOT + REQUESTS, 0)
                may_ask = False
        struct.pack_into("<I", self.memory, SLOT + BEING_ASKED, 0)
        if not may_ask:
            return False
        wake = struct.unpack_from("<I", self.memory, SLOT + WAKE)[0]
        struct.pack_into("<I", self.memory, SLOT + WAKE, (wake + 1) & 0xFFFFFFFF)
        return True

    def open_gate_for_anyone(self):
        """From now on the process may come to be held for anyone's sake, so its plain launches wait at gates, which
        are open."""
        struct.pack_into("<II", self.memory, SLOT + GATE, 1, HELD_FOR_ANYONE)

    def has_answered(self):
        """Whether the process says that it has yielded. Only meaningful while it is asked."""
        return struct.unpack_from("<I", self.memory, SLOT + STOPPED)[0] == 1

    def has_demand(self):
        """Whether the process has work on the GPU, or waiting, as far as it knows."""
        return struct.unpack_from("<I", self.memory, SLOT + DEMAND)[0] % 2 == 1

    def overhead_ns(self):
        """How long the process says that it takes to stop; 0: it does not know."""
        return struct.unpack_from("<Q", self.memory, SLOT + 128 + 120)[0]

    def preemptions(self):
        return struct.unpack_from("<Q", self.memory, SLOT + 128 + 48)[0]


@contextlib.contextmanager
def beside(work):
    """Runs `work(over)` on a thread until the `with` block ends; `over` is an event that is set then."""
    over = threading.Event()
    thread = threading.Thread(target=work, args=(over,))
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def pestering(board, seconds=0.0004):
    """Asks the process of slot 0 to yield and lets it go, again and again, until the `with` block ends."""
    def pester(over):
        while not over.wait(seconds):
            struct.pack_into("<I", board.memory, SLOT + STOPPED, 0)
            if not board.ask(DAEMON_BIT):
                continue
            board.asked += 1
            if over.wait(seconds):
                break
            board.answered += board.has_answered()
            board.ask(0)
        board.ask(0)

    return beside(pester)
