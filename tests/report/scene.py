"""Two programs under an arbiter on the simulated device, traced: one runs long kernels back to back, the other has
priority and comes with a short kernel now and then. Used by the test of the page and by scripts/screenshots."""
import os
import shutil
import signal
import subprocess

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DEADLINE_S = 60


class Scene:
    """`play` writes batch.json, interactive.json and arbiter.json into the folder. `programs`: where batch and
    interactive of examples/priority are."""

    def __init__(self, cupola, programs, folder):
        self.cupola, self.programs, self.folder = cupola, programs, folder
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(("CUPOLA", "LD_"))}
        run = os.path.join(folder, "run")
        os.mkdir(run, 0o700)
        self.env.update(CUPOLA_STORE=os.path.join(folder, "variants"), CUPOLA_PROFILES=os.path.join(folder, "profiles"),
                        CUPOLA_SOCKET=os.path.join(run, "a.sock"), CUPOLA_SIM_TOKEN=os.path.join(folder, "token"),
                        CUPOLA_WAIT_LIMIT_MS="3000")
        self.started = []
        self.said = open(os.path.join(folder, "errors"), "a", encoding="utf-8")  # standard error of all

    def path(self, name):
        return os.path.join(self.folder, name)

    def start(self, *words, **more):
        process = subprocess.Popen([self.cupola, *words], env={**self.env, **more.pop("env", {})}, text=True,
                                   stderr=self.said, **more)
        self.started.append(process)
        return process

    def program(self, name, *words):
        """Starts a program, which runs until its standard input is closed."""
        shutil.copy2(os.path.join(self.programs, name), self.path(name))
        process = self.start("run", "--device", "sim", "--trace", self.path(name + ".json"), "--", self.path(name), *words,
                             env={"CUPOLA_LABEL": name}, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        process.name = name
        return process

    def await_line(self, process):
        """Waits until the program has printed its line: the batch after its first round, the other one at its end."""
        if not process.stdout.readline().startswith(process.name):
            raise RuntimeError(f"{process.name} did not run: {self.errors()}")

    def errors(self):
        with open(self.path("errors"), encoding="utf-8") as file:
            return file.read()

    def play(self, requests=10, while_both_run=lambda: None):
        try:
            subprocess.run([self.cupola, "build", "--quiet", os.path.join(self.programs, "batch")], env=self.env, check=True,
                           capture_output=True)
            arbiter = self.start("serve", "--config", os.path.join(ROOT, "examples", "priority", "cupola.toml"),
                                 "--trace", self.path("arbiter.json"), stdout=subprocess.PIPE)
            if not arbiter.stdout.readline().startswith("listening"):
                raise RuntimeError(f"the arbiter does not listen: {self.errors()}")
            batch = self.program("batch", "512", "500")
            self.await_line(batch)
            interactive = self.program("interactive", str(requests))
            while_both_run()
            self.await_line(interactive)
            for process in (interactive, batch):
                process.stdin.close()
                process.wait(DEADLINE_S)
            arbiter.send_signal(signal.SIGTERM)
            arbiter.wait(DEADLINE_S)
        finally:
            self.said.close()
            for process in self.started:
                process.kill()
                process.wait()
                for pipe in (process.stdin, process.stdout):
                    if pipe is not None:
                        pipe.close()
        return [self.path(name) for name in ("batch.json", "interactive.json", "arbiter.json")]

    def report(self, files, page):
        return subprocess.run([self.cupola, "report", *map(os.path.basename, files), "-o", page], cwd=self.folder,
                              env=self.env, text=True, capture_output=True, check=False)
