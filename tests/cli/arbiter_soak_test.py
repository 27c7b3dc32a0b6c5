"""A soak of `cupola serve` in real time: the daemon as it is shipped, and processes on its board that join, work, pause,
leave, are killed and stopped, while the configuration is read again and policies change; all from one seed. The rules
are those of the soak in virtual time (tests/unit/sched/soak_checks.h), by what `show` of the control requests says.

  arbiter_soak_test.py [--seconds N] [--seed N] [--clients N] [--rss-kib N]

CUPOLA and BOARD_MEMBER name the two programs. --rss-kib: how much the daemon's memory may grow (0: not looked at, for a
daemon with sanitizers, which keeps what was freed). Prints one JSON object; exit code 0 where no rule was broken.
"""
import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from arbiter_bed import CUPOLA, Member, Wire

POLICIES = ("ffs", "hpf", "ffs", "fifo", "reorder", "corun")
HOG_WEIGHTS = (1, 2, 4)
QUANTUM_S = 0.05
LEASE_MS = 2000
DEAD_S = 2.0          # a dead client's place is free
HELD_S = 2.5          # nobody is held whom nobody asks for: the lease of one that is stopped counts
WINDOW_S = 15.0       # of ffs, in which shares are compared
SHARES_APART = 0.15
DESCRIPTORS = 4       # of connections that come and go


class Client:
    def __init__(self, bed, label, weight=None):
        self.member = Member(bed, name="/opt/soak/" + label, env={**bed.env, "CUPOLA_LABEL": label})
        self.label, self.weight = label, weight
        self.is_stopped = self.is_paused = self.wants = False
        self.end_s = None
        self.held_since = None

    @property
    def pid(self):
        return self.member.pid

    def begin(self, lease_ms):
        self.member.say(f"begin 20000 {lease_ms}")
        self.wants = True

    def end(self):
        self.member.say("end")
        self.wants = False


class Soak:
    def __init__(self, options):
        self.options = options
        self.random = random.Random(options.seed)
        self.folder = tempfile.mkdtemp(prefix="cupola-soak-")
        os.mkdir(self.folder + "/run", 0o700)
        self.socket = self.folder + "/run/a.sock"
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(("CUPOLA", "LD_"))}
        self.env["CUPOLA_SOCKET"] = self.socket
        self.cleanups, self.violations, self.clients, self.hogs = [], [], [], []
        self.counts = dict.fromkeys(("joins", "kills", "leaves", "freezes", "reloads", "bad_reloads", "policy_switches",
                                     "pauses", "looks", "windows"), 0)
        self.gone = {}          # pid: when it went
        self.ran = {}           # pid: ran_ns when last seen
        self.now_ns = 0
        self.priorities = {}
        self.policy, self.window = "hpf", None
        self.worst_apart = 0.0
        self.first_rss = self.last_rss = None

    def addCleanup(self, work):  # pylint: disable=invalid-name; as Member wants it of a test
        self.cleanups.append(work)

    def violate(self, rule, text):
        self.violations.append(f"{rule}: {text}")
        print(f"arbiter_soak_test --seed {self.options.seed}: {rule}: {text}", file=sys.stderr, flush=True)

    def write_config(self, is_good=True):
        text = f'[policy]\nname = "hpf"\nquantum_us = {int(QUANTUM_S * 1e6)}\nepoch_us = 60000000\n'
        for label, priority in self.priorities.items():
            text += f'[[rule]]\nlabel = "{label}"\npriority = {priority}\n'
        for weight in HOG_WEIGHTS:
            text += f'[[rule]]\nlabel = "hog{weight}"\nweight = {weight}\n'
        with open(self.folder + "/c.toml", "w", encoding="utf-8") as file:
            file.write(text if is_good else text + "[[rule]]\npriority = \"high\"\n")

    def control(self, **request):
        with Wire(self.socket) as wire:
            return wire.control(**request)

    def start(self):
        self.priorities = {f"l{i}": self.random.randrange(4) for i in range(4)}
        self.write_config()
        self.daemon = subprocess.Popen([CUPOLA, "serve", "--socket", self.socket, "--config", self.folder + "/c.toml"],
                                       env=self.env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert self.daemon.stdout.readline() == f"listening on {self.socket}\n"
        for weight in HOG_WEIGHTS:
            hog = Client(self, f"hog{weight}", weight)
            hog.begin(10 * 3600 * 1000)
            self.hogs.append(hog)

    # --- what happens

    def join(self):
        if len(self.clients) >= self.options.clients:
            return
        client = Client(self, f"l{self.random.randrange(4)}")
        if client.member.joined != "joined":
            self.violate("slots", f"a client is not joined: {client.member.joined}")
            return
        client.end_s = time.monotonic() + self.random.expovariate(1 / 8)
        self.clients.append(client)
        self.counts["joins"] += 1

    def go(self, client):
        if client.is_stopped or self.random.random() < 0.5:
            self.counts["kills"] += 1
        else:
            self.counts["leaves"] += 1
            client.member.say("leave")
        client.member.close()
        self.clients.remove(client)
        self.cleanups.remove(client.member.close)
        self.gone[client.pid] = time.monotonic()
        self.ran.pop(client.pid, None)

    def freeze(self, client):
        self.counts["freezes"] += not client.is_stopped
        client.member.process.send_signal(signal.SIGCONT if client.is_stopped else signal.SIGSTOP)
        client.is_stopped = not client.is_stopped

    def pause(self, client):
        self.counts["pauses"] += not client.is_paused
        answer = self.control(command="set", pid=client.pid, paused=not client.is_paused)
        if not answer["ok"]:
            self.violate("settings", f"{client.pid} is not paused: {answer}")
        client.is_paused = not client.is_paused

    def reload(self):
        is_good = self.random.random() < 0.8
        before = dict(self.priorities)
        self.priorities = {label: self.random.randrange(4) for label in before}
        self.write_config(is_good)
        self.counts["reloads" if is_good else "bad_reloads"] += 1
        if self.control(command="reload")["ok"] != is_good:
            self.violate("settings", "a reload was taken for good, or for wrong, and was the other")
        if not is_good:
            self.priorities = before

    def switch(self):
        self.counts["policy_switches"] += 1
        self.end_window()
        self.policy = POLICIES[self.counts["policy_switches"] % len(POLICIES)]
        if not self.control(command="policy", name=self.policy)["ok"]:
            self.violate("settings", f"no policy {self.policy}")

    def act(self):
        """One thing, by chance; hogs are left alone."""
        what = self.random.random()
        client = self.random.choice(self.clients) if self.clients else None
        if what < 0.25 or client is None:
            self.join()
        elif what < 0.32:
            self.freeze(client)
        elif what < 0.40:
            self.pause(client)
        elif not client.is_stopped:
            if client.wants:
                client.end()
            else:
                client.begin(LEASE_MS)

    # --- what is looked at

    def look(self):
        self.counts["looks"] += 1
        shown = self.control(command="show", state=True)
        now = time.monotonic()
        gpus = shown["gpus"]
        rows = [row for gpu in gpus for row in gpu["clients"]]
        by_pid = {row["pid"]: row for row in rows}
        if len(by_pid) != len(rows) or len({row["slot"] for row in rows}) != len(rows):
            self.violate("slots", "a client, or a slot, is shown twice")
        if gpus[0]["policy"] != self.policy:
            self.violate("settings", f"the policy is {gpus[0]['policy']}, wanted {self.policy}")
        if gpus[0]["now_ns"] < self.now_ns:
            self.violate("time", "the daemon's time goes back")
        self.now_ns = gpus[0]["now_ns"]
        for pid in by_pid.keys() & self.gone.keys():
            if now - self.gone[pid] > DEAD_S:
                self.violate("slots", f"client {pid} is shown {now - self.gone[pid]:.1f} s after its end")
        self.gone = {pid: at for pid, at in self.gone.items() if now - at < 10}  # the system may give a number again
        active = sum(row["active"] for row in rows)
        for client in self.clients + self.hogs:
            row = by_pid.get(client.pid)
            if row is None:
                self.violate("slots", f"client {client.pid} has lost its place")
                continue
            wanted = [self.priorities.get(client.label, 0), client.weight or 1, client.is_paused]
            if [row["priority"], row["weight"], row["paused"]] != wanted:
                self.violate("settings", f"client {client.pid} has not the settings {wanted}")
            if row["ran_ns"] < self.ran.get(client.pid, 0):
                self.violate("time", f"client {client.pid} has run less than before")
            self.ran[client.pid] = row["ran_ns"]
            for_nobody = row["held"] and row["active"] and active == 1 and not client.is_paused
            client.held_since = (client.held_since or now) if for_nobody else None
            if client.held_since is not None and now - client.held_since > HELD_S:
                self.violate("held", f"client {client.pid} is held, and nobody asks for it")
                client.held_since = None
        self.look_at_shares(now)
        descriptors = len(os.listdir(f"/proc/{self.daemon.pid}/fd"))
        # Own ones, the board's, and one for each process.
        if not hasattr(self, "own_descriptors"):
            self.own_descriptors = descriptors - len(rows)
        if descriptors > self.own_descriptors + len(rows) + DESCRIPTORS:
            self.violate("memory", f"{descriptors} descriptors are open, with {len(rows)} clients")

    def look_at_shares(self, now):
        if self.policy != "ffs":
            return
        if self.window is None:
            self.window = (now, [self.ran[hog.pid] for hog in self.hogs])
        elif now - self.window[0] > WINDOW_S:
            self.end_window()

    def end_window(self):
        """Of the clients that always have work, each has had the GPU by its weight."""
        window, self.window = self.window, None
        if window is None or time.monotonic() - window[0] < WINDOW_S / 3:
            return
        had = [(self.ran[hog.pid] - before) / hog.weight / 1e9 for hog, before in zip(self.hogs, window[1])]
        self.counts["windows"] += 1
        apart = max(0.0, max(had) - min(had) - 4 * QUANTUM_S) / max(*had, 1e-9)
        self.worst_apart = max(self.worst_apart, apart)
        if min(had) == 0 or apart > SHARES_APART:
            self.violate("shares", f"by weight {list(HOG_WEIGHTS)} clients had {[round(s, 3) for s in had]} s each")

    def note_memory(self):
        with open(f"/proc/{self.daemon.pid}/status", encoding="utf-8") as file:
            self.last_rss = int(next(line for line in file if line.startswith("VmRSS")).split()[1])
        if self.first_rss is None:
            self.first_rss = self.last_rss

    def run(self):
        self.start()
        begin = time.monotonic()
        end = begin + self.options.seconds
        warm = begin + min(60, self.options.seconds / 3)
        period = min(30.0, self.options.seconds / 6)
        next_policy, next_reload, next_look = begin + 1, begin + 2, begin
        while time.monotonic() < end and len(self.violations) < 20:
            now = time.monotonic()
            for client in [one for one in self.clients if one.end_s < now]:
                self.go(client)
            if now > next_policy:
                self.switch()
                next_policy = now + self.random.uniform(0.7, 1.3) * period
            if now > next_reload:
                self.reload()
                next_reload = now + self.random.uniform(0.5, 1.5) * period
            if now > next_look:
                self.look()
                next_look = now + 0.2
            if now > warm:
                self.note_memory()
                warm = now + 10
            self.act()
            if self.daemon.poll() is not None:
                self.violate("waits", f"the daemon has ended with {self.daemon.returncode}")
                break
            time.sleep(self.random.uniform(0, 0.06))  # the pace of it, waits for nothing
        self.end_window()
        grown = (self.last_rss or 0) - (self.first_rss or 0)
        if self.options.rss_kib and grown > self.options.rss_kib:
            self.violate("memory", f"the daemon has {self.last_rss} KiB, {grown} more than when it was warm")
        return {"seed": self.options.seed, "seconds": round(time.monotonic() - begin, 1), "counts": self.counts,
                "violations": len(self.violations), "shares_apart": round(self.worst_apart, 4),
                "rss_kib": [self.first_rss, self.last_rss]}

    def close(self):
        for work in self.cleanups:
            work()
        if hasattr(self, "daemon"):
            self.daemon.terminate()
            self.daemon.wait()
        shutil.rmtree(self.folder)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=1200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--clients", type=int, default=30, help="at once, at most")
    parser.add_argument("--rss-kib", type=int, default=2048)
    soak = Soak(parser.parse_args())
    try:
        result = soak.run()
    finally:
        soak.close()
    print(json.dumps(result, indent=1))
    return 1 if soak.violations else 0


if __name__ == "__main__":
    sys.exit(main())
