"""A file of results that several benches share: each puts its own metrics, and what the others left there stays.
Standard library only."""
import contextlib
import fcntl
import json
import os

# Of the machine's facts those that say what a metric was measured with.
ORIGIN = ("commit", "date", "cpu", "cpus", "kernel", "gpu")


def load(path):
    """What the file holds; of one that is not there, nothing."""
    if not os.path.exists(path):
        return {"metrics": {}, "detail": {}, "measured": {}}
    with open(path, encoding="utf-8") as file:
        return json.load(file)


@contextlib.contextmanager
def _locked(folder):
    """While another bench of the same folder waits."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def merge(path, facts, metrics, detail=None):
    """Puts `metrics` and `detail` ({name: anything}) into the file at `path`, key by key, and for each metric
    under "measured" of which commit, when and on which machine it is. `facts`: machine.facts(). "machine",
    "date" and "commit" of the file are those of the last bench that wrote. Returns what the file holds now."""
    with _locked(os.path.dirname(os.path.abspath(path))):
        result = load(path)
        facts = dict(facts)
        origin = {key: facts.get(key) for key in ORIGIN}
        result["metrics"].update(metrics)
        result["detail"].update(detail or {})
        result["measured"].update({key: origin for key in metrics})
        ordered = {"date": facts.pop("date", None), "commit": facts.pop("commit", None), "machine": facts,
                   **{part: dict(sorted(result[part].items())) for part in ("metrics", "detail", "measured")}}
        with open(path + ".new", "w", encoding="utf-8") as file:
            json.dump(ordered, file, indent=1)
            file.write("\n")
        os.replace(path + ".new", path)
    return ordered
