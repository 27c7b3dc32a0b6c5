#!/usr/bin/env python3
"""`cupola run` is invisible: exit codes, signals, standard streams, shells, Python, fork and exec.

Every case runs plain, under Cupola, and under Cupola with a trace (where `cupola run` stays as the
parent); exit code, standard output and standard error must be equal, and the exit code the one that
the case names. Prints a table; exit code 1 where a case differs, 77 where nothing can be run here.
"""
import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../apps"))
import runner  # noqa: E402

WAYS = ["plain", "cupola", "traced"]


def cases(folder):
    """(name, command, standard input, exit code; negative for a signal)"""
    add = folder + "/vector_add"
    python = ("import subprocess, sys; "
              f"r = subprocess.run([{add!r}, '2000'], capture_output=True); "
              "sys.stdout.write(r.stdout.decode()); sys.exit(r.returncode + 5)")
    fork = (f"import os, sys; p = os.fork(); \n"
            f"if p == 0: os.execv({add!r}, [{add!r}, '3000'])\n"
            "sys.exit(os.waitstatus_to_exitcode(os.waitpid(p, 0)[1]) + 6)")
    yield "true", ["/bin/true"], b"", 0
    yield "false", ["/bin/false"], b"", 1
    yield "standard streams", ["/bin/sh", "-c", "cat; echo to-stderr >&2; exit 9"], b"in\0put\n", 9
    yield "shell, one app", ["/bin/sh", "-c", f"{add} 1000; exit $(($? + 7))"], b"", 7
    yield "shell, two apps", ["/bin/sh", "-c", f"{add} 1000 && {folder}/histogram 5000"], b"", 0
    yield "shell pipeline", ["/bin/sh", "-c", f"{add} 1000 | tr a-z A-Z | grep CORRECT"], b"", 0
    yield "app exec'ed by shell", ["/bin/sh", "-c", f"exec {add} 4000"], b"", 0
    yield "app fails", [add, "nonsense"], b"", 2
    yield "python subprocess", ["python3", "-c", python], b"", 5
    yield "python fork and exec", ["python3", "-c", fork], b"", 6
    yield "app forks and execs", [folder + "/fork_exec"], b"", 0
    yield "app execs what fails", [folder + "/fork_exec", "/bin/false"], b"", 1
    yield "app aborts", [folder + "/exit_codes", "abort"], b"", -signal.SIGABRT
    yield "app segfaults", [folder + "/exit_codes", "segfault"], b"", -signal.SIGSEGV
    yield "signal to itself", ["/bin/sh", "-c", "kill -USR1 $$"], b"", -signal.SIGUSR1
    yield "closed output", ["/bin/sh", "-c", f"{add} 1000 >&-"], b"", 0
    yield "empty environment", ["/usr/bin/env", "-i", "/bin/echo", "fine"], b"", 0


def signal_case(prefix, environ, number, timeout):
    """Sends a signal to the process that was started while its program waits; how does it end?"""
    program = ["/bin/sh", "-c", "echo ready; exec sleep 30"]
    process = subprocess.Popen(prefix + program, env=environ, stdout=subprocess.PIPE,
                               start_new_session=True, preexec_fn=runner.prepare_child)
    line = process.stdout.readline()
    process.send_signal(number)
    start = time.monotonic()
    try:
        process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return {"code": "timeout", "stdout": line, "stderr": b""}
    quick = time.monotonic() - start < 20
    return {"code": process.returncode if quick else "timeout", "stdout": line, "stderr": b""}


def without_notices(result):
    """With a trace `cupola run` ends with lines of its own on standard error: they are its job."""
    lines = result["stderr"].splitlines(keepends=True)
    return b"".join(line for line in lines if not line.startswith(b"cupola: "))


def compare(name, results, code):
    """`results`: plain, under Cupola, under Cupola with a trace."""
    plain, cupola, traced = results
    same = (all(result[key] == plain[key] for result in results for key in ("code", "stdout"))
            and cupola["stderr"] == plain["stderr"]
            and without_notices(traced) == plain["stderr"])
    row = {"case": name, "identical": same and plain["code"] == code}
    for way, result in zip(WAYS, results):
        row[way] = runner.describe_code(result["code"])
    print(f"{name:24} {row['plain']:10} {row['cupola']:10} {row['traced']:10} "
          f"{'yes' if row['identical'] else 'NO'}", flush=True)
    if not row["identical"]:
        for way, result in zip(WAYS, results):
            row[way + "_output"] = (result["stdout"] + result["stderr"]).decode(errors="replace")
            print(f"    {way}: {row[way + '_output'][-600:]!r}")
    return row


def run_all(build, options, trace):
    environ = runner.environment(build, options.device)
    prefixes = [[], runner.cupola_command(build, options.device),
                runner.cupola_command(build, options.device, trace)]
    folder = f"{build}/apps/{options.form}"
    if not os.path.exists(folder + "/vector_add"):
        raise runner.NotPossible(f"no programs in {folder}: build cupola_apps")
    print(f"{'case':24} {'plain':10} {'cupola':10} {'traced':10} identical")
    rows = []
    for name, command, stdin, code in cases(folder):
        results = [runner.run(prefix + command, environ, options.timeout, stdin)
                   for prefix in prefixes]
        rows.append(compare(name, results, code))
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        results = [signal_case(prefix, environ, number, 25) for prefix in prefixes]
        rows.append(compare(f"{number.name} from outside", results, -number))
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=runner.default_build())
    parser.add_argument("--device", choices=["sim", "gpu"], default="gpu")
    parser.add_argument("--form", default="shared", help="shared or static (default shared)")
    parser.add_argument("--timeout", type=float, default=60)
    parser.add_argument("--json")
    options = parser.parse_args()
    build = os.path.abspath(options.build)
    try:
        with tempfile.TemporaryDirectory(prefix="pass-through-") as folder:
            rows = run_all(build, options, folder + "/trace.json")
    except runner.NotPossible as reason:
        print(f"pass_through: {reason}", file=sys.stderr)
        return runner.NOT_POSSIBLE_HERE
    good = sum(row["identical"] for row in rows)
    print(f"{good} of {len(rows)} identical")
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"good": good, "cases": rows}, file, indent=1)
    return 0 if good == len(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
