"""Pagoda's evaluation (PPoPP 2017, section 6) on this machine: scripts/bench pagoda.

The programs of tests/apps/pagoda, in all their forms by turns; each section leaves its raw figures
in detail[section][app], so that sections and applications may be measured in several runs. Standard
library only."""
import json
import os
import sys
import tempfile
import time

import machine
import pagoda_metrics as m
import result_file
import runner

APPS = ["mb", "fb", "bf", "conv", "dct", "mm", "slud", "3des", "mpe"]
# The sections, the most important first, each with the seconds that it takes on an H200, guessed from sizes.
SECTIONS = {"apps": 130, "irregular": 20, "scale": 25, "threads": 20, "shared": 6, "latency": 8,
            "sizes": 8}
# Forms of the process that runs all of them in turn; streams in a process of their own are "plain".
FORMS = ["cpu", "streams", "streams8", "graph", "fused", "fused:inside", "persistent", "batched",
         "tasks", "tasks:bulk", "tasks-batched"]
MOST_SECONDS = 40  # of a program


class Failed(Exception):
    pass


class Evaluation:
    def __init__(self, build, device, detail, quick, repeats, tasks, seconds_left, facts, save):
        self.build, self.device, self.detail, self.quick = build, device, detail, quick
        self.repeats, self.tasks, self.seconds_left = repeats, tasks, seconds_left
        self.facts, self.save, self.ran = facts, save, None
        self.failures = []  # of what is being measured
        self.environ = runner.environment(build, device) if device == "sim" else dict(os.environ)
        self.store, self.built = tempfile.TemporaryDirectory(), set()
        # As many hardware queues as there may be, for the streams.
        self.environ["CUDA_DEVICE_MAX_CONNECTIONS"] = "32"

    def few(self, full, quick):
        return quick if self.quick else full

    def store_with(self, program):
        """The variant store, which has the program's MasterKernel."""
        if program not in self.built:
            if problem := runner.build_variants(self.build, self.store.name, program):
                raise Failed(problem)
            self.built.add(program)
        return self.store.name

    def run(self, app, arguments, kind):
        """Runs a program as "plain" or "unmodified" streams, "forms" or "device_graph". Returns its lines."""
        form = "static" if self.device == "gpu" else "shared"
        folder = f"{self.build}/apps"
        command = ([f"{folder}/{form}/pagoda_{app}"] if kind in ("plain", "unmodified") else
                   [f"{folder}/tasks/pagoda_{kind}_{app}_{form}"])
        environ = dict(self.environ)
        if kind == "unmodified":
            environ["CUPOLA_STORE"] = self.store_with(command[0])
            command = [*runner.cupola_command(self.build, self.device), *command]
        limit = min(MOST_SECONDS, self.seconds_left() - 5)
        if limit < 5:
            raise Failed("no time left")
        result = runner.run(command + arguments, environ, limit)
        lines = [json.loads(line) for line in result["stdout"].decode().splitlines()]
        # If the results of forms differ the exit code is 1, and the lines say which do.
        differ = result["code"] == 1 and any(line.get("equal") is False for line in lines)
        if result["code"] != 0 and not differ:
            raise Failed(f"{kind} {' '.join(arguments)}: {runner.describe_code(result['code'])} "
                         f"{result['stderr'].decode(errors='replace')[-300:]}")
        for line in lines:
            if line.get("equal") is False:
                self.fail(f"{kind} {line['form']}: another result")
        return [line for line in lines if line.get("equal", True)]

    def attempt(self, app, arguments, kind):
        """As run; if that fails, it says why and returns no lines."""
        try:
            return self.run(app, arguments, kind)
        except (Failed, ValueError) as error:
            self.fail(str(error))
            return []

    def fail(self, what):
        self.failures.append(what)
        print(f"pagoda: {what}", file=sys.stderr, flush=True)

    def section(self, name, apps):
        """Measures a section for the applications; names those that fail and goes on with the others. Returns whether
        all went well."""
        return all([self.section_of(name, app) for app in apps])

    def section_of(self, name, app):
        """Measures a section for one application. Its failures replace those of the last time; for whatever is not
        measured now, both figures and failures stay."""
        began, self.failures, self.ran, found = time.monotonic(), [], None, None
        try:
            found = getattr(self, name)(app)
        except (Failed, OSError, ValueError) as error:
            self.fail(str(error))
        if found is None and not self.failures:
            return True
        m.note_failures(self.detail, f"{name} {app}", self.failures)
        if found is not None:
            self.detail.setdefault(name, {})[app] = found
            if self.ran:
                self.detail.setdefault("ran", {})[f"{name} {app}"] = self.ran
            machine.note_measured(self.detail, f"{name} {app}", self.facts,
                                  time.monotonic() - began)
        self.save(m.metrics(self.detail), self.detail)
        return not self.failures

    # Sections: each returns what it found of an application, or None where the paper has none.

    def apps(self, app):
        """All forms with copies: fig. 5, fig. 11."""
        size = ["--tasks", str(self.tasks)]
        arguments = [*size, "--repeat", str(self.repeats), "--forms"]
        lines = self.attempt(app, [*arguments, ",".join(FORMS)], "forms")
        if not lines:  # one of them has ended the process: most by themselves, then each task form
            tasks = [form for form in FORMS if form.startswith("tasks")]
            rest = ",".join(form for form in FORMS if form not in tasks)
            for forms in (rest, *(f"streams,{form}" for form in tasks)):
                lines += self.attempt(app, [*arguments, forms], "forms")
        row = {line["form"]: line for line in lines}
        turns = [("plain", "unmodified"), ("unmodified", "plain")]
        for kind in (kind for turn in self.few(turns, turns[:1]) for kind in turn):
            for line in self.attempt(app, [*size, "--repeat", str(self.repeats // 2 + 1)], kind):
                known = row.setdefault(kind, {**line, "form": kind, "ms": []})
                known["ms"] += line["ms"]
                if known["checksum"] != line["checksum"]:
                    raise Failed(f"{kind}: checksum {line['checksum']}, not {known['checksum']}")
        if self.device == "gpu":
            lines = self.attempt(app, [*size, "--repeat", str(self.repeats)], "device_graph")
            row.update({line["form"]: line for line in lines if line["form"] == "device-graph"})
        for _, form in m.differing({app: row}):
            self.fail(f"{form}: another result")
            del row[form]
        return row

    def irregular(self, app):
        """Sizes by seed, threads as the sizes want them: fig. 9."""
        if app in ("slud", "mpe"):
            return None
        tasks = str(min(self.tasks, self.few(8192, 6)))
        lines = self.run(app, ["--irregular", "--tasks", tasks, "--repeat", self.few("3", "1"),
                               "--forms", "cpu,streams,fused,persistent,tasks"], "forms")
        return {line["form"]: line for line in lines}

    def scale(self, app):
        """More and more tasks: fig. 6. {form: [[tasks, milliseconds], ...]}"""
        counts = self.few([128, 512, 2048, 8192, 32768], [2, 6])
        return self.series(app, "tasks", [
            "--tasks", ",".join(str(n) for n in counts if n <= max(self.tasks, counts[0])),
            "--repeat", self.few("3", "1"), "--forms", "streams,graph,batched,fused,tasks"])

    def threads(self, app):
        """More and more threads a task, compute only, no shared memory where it is not needed:
        fig. 7."""
        if app in ("slud", "mpe"):
            return None
        return self.series(app, "threads", [
            "--no-copies", "--no-shared", "--threads", self.few("32,64,128,256,512", "32,96"),
            "--tasks", str(min(self.tasks, self.few(8192, 4))), "--repeat", self.few("3", "1"),
            "--forms", "streams,batched,tasks"])

    def sizes(self, app):
        """Sizes and threads of several blocks, compute only: fig. 8. A list of lines."""
        if app not in ("mb", "conv"):
            return None
        return self.run(app, [
            "--no-copies", "--size", self.few("32,64,128,256", "16,32"), "--threads",
            self.few("64,256", "64"), "--blocks", self.few("1,4,16", "1,2"), "--tasks",
            str(min(self.tasks, self.few(2048, 3))), "--repeat", self.few("3", "1"), "--forms",
            "streams,tasks"], "forms")

    def latency(self, app):
        """Of a task on average, in microseconds: fig. 10. {form: [[tasks, us], ...]}"""
        if app not in ("3des", "mm"):
            return None
        counts = self.few([128, 512, 2048, 8192, 32768], [2, 6])
        lines = self.run(app, [
            "--latency", "--tasks", ",".join(str(n) for n in counts if n <= max(self.tasks, 2)),
            "--repeat", self.few("3", "1"), "--forms", "fused,tasks"], "forms")
        self.ran = m.what_ran(lines)
        found = {"fused": [], "tasks": []}
        for line in lines:
            # A fused task ends when all have.
            us = line.get("latency_us") or 1000 * m.median_ms({"fused": line}, "fused")
            found[line["form"]].append([line["tasks"], us])
        return found

    def shared(self, app):
        """With and without shared memory, compute only: table 5."""
        if app not in ("dct", "mm"):
            return None
        arguments = ["--no-copies", "--threads", "64" if app == "dct" else "256", "--tasks",
                     str(min(self.tasks, self.few(32768, 4))), "--repeat", self.few("5", "1"),
                     "--forms", "streams,tasks"]
        return {how: {line["form"]: line for line in self.run(app, arguments + flag, "forms")}
                for how, flag in (("shared", []), ("no_shared", ["--no-shared"]))}

    def series(self, app, across, arguments):
        found, lines = {}, self.run(app, arguments, "forms")
        self.ran = m.what_ran(lines)
        for line in lines:
            ms = m.median_ms({"form": line}, "form")
            found.setdefault(line["form"], []).append([line[across], ms])
        return found


def measure(build, device, sections, apps, detail, options, facts, save):
    """{"metrics", "detail", "good"}. `detail`: what earlier runs have left, into which goes what is
    measured now; `options`: quick, repeats, tasks, seconds_left."""
    tasks = options.tasks or (8 if options.quick else 32768)
    evaluation = Evaluation(build, device, detail, options.quick,
                            options.repeats or (1 if options.quick else 3), tasks,
                            options.seconds_left, facts, save)
    m.adopt_failures(detail)
    good = all([evaluation.section(name, apps) for name in sections])
    return {"metrics": m.metrics(detail), "detail": detail, "good": good}


def summary(detail):
    """A short table of the applications: times faster than plain streams."""
    shown = ["unmodified", "streams8", "graph", "batched", "fused", "persistent", "tasks",
             "tasks:bulk", "cpu"]
    lines = [" ".join([f"{'app':5} {'ms':>8}", *(f"{form:>10}" for form in shown)])]
    for app, row in detail.get("apps", {}).items():
        words = [f"{app:5} {m.median_ms(row, m.BASE) or 0:8.2f}"]
        for form in shown:
            value = m.speedup(row, form)
            words.append(f"{value:10.2f}" if value else f"{'-':>10}")
        lines.append(" ".join(words))
    return "\n".join(lines) + "\n"


def merge(folder):
    """Called whenever narrow.json or pagoda.json was written: if a folder has both, copies the applications' keys
    from the second into the first."""
    paths = [os.path.join(folder, name) for name in ("narrow.json", "pagoda.json")]
    if not all(os.path.exists(path) for path in paths):
        return
    narrow, pagoda = (load(path) for path in paths)
    result_file.write(paths[0], m.merge_into_narrow(narrow, pagoda))


def load(path):
    with open(path) as file:
        return json.load(file)
