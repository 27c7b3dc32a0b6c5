"""A day of the arbiter in virtual time: 10,000 clients over 86,400 simulated seconds (tests/unit/sched/soak.h), by
bin/arbiter_soak of a release build. No GPU is needed. Standard library only."""
import json
import os
import subprocess

CLIENTS, SECONDS = 10_000, 86_400


class Failed(Exception):
    pass


def run(build, seed, clients=CLIENTS, seconds=SECONDS):
    """Runs arbiter_soak and returns what it prints; it writes broken rules to standard error as it finds them."""
    command = [os.path.join(build, "bin/arbiter_soak"), "--seed", str(seed), "--clients", str(clients),
               "--seconds", str(seconds)]
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
        return json.loads(done.stdout)
    except (OSError, ValueError) as error:
        raise Failed(f"{command[0]}: {error}") from error


def metrics_of(result):
    """`soak_clients`: that had a place; `soak_violations`: rules that were found broken, and answers of the daemon to
    control requests that were not as they must be."""
    counts = result["counts"]
    return {"soak_clients": counts["joins"],
            "soak_violations": result["violations"] + counts.get("wrong_answers", 0),
            "soak_simulated_s": counts["simulated_seconds"], "soak_decisions": counts["decisions"],
            "soak_wall_s": round(result["wall_s"], 1), "soak_peak_memory_kib": result["peak_memory_kib"]}
