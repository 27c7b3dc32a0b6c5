"""Files of results: one form for all, short enough that a person can read what changed in one.

A file holds summaries (medians, percentiles, counts), the machine, and of which commit and time they are. Samples that
a summary was made of are left out; RawSamples keeps them elsewhere where somebody asks for them. Several benches may
share a file: each puts its own metrics, and what the others left there stays. Standard library only."""
import contextlib
import fcntl
import json
import lzma
import os
import tempfile

# The machine's facts that are kept with each metric.
ORIGIN = ("commit", "date", "cpu", "cpus", "kernel", "gpu")
WIDTH = 160  # of a line, where it holds more than one value
CELL_MEMBERS = 20  # of a cell at most; an object of more members is a table of them


def _is_cell(value):
    """Whether parts of a value share lines: numbers in a row do, and the members of an object that says what one
    thing is. An object of many members, or of nothing but objects, is a table of cells, and so are other lists."""
    if isinstance(value, list):
        return all(isinstance(each, (int, float, type(None))) or isinstance(each, list) and _is_cell(each)
                   for each in value)
    return len(value) <= CELL_MEMBERS and not all(isinstance(each, dict) for each in value.values())


def _packed(texts, room, before=0):
    """The texts with commas between them, as many on a line as fit; a text of several lines has lines of its own.
    `before`: what the first line holds already, in characters."""
    lines = [texts[0]]
    for text in texts[1:]:
        lines[-1] += ","
        used = len(lines[-1]) + (before if len(lines) == 1 else 0)
        if "\n" not in lines[-1] + text and used + len(text) + 2 <= room:
            lines[-1] += " " + text
        else:
            lines.append(text)
    return lines


def text_of(value, indent=0, before=0):
    """`value` as JSON with a cell on a line, or on a few: lines are of WIDTH, where a text is not longer by itself.
    `before`: what its line holds already, in characters."""
    text = json.dumps(value)
    if not isinstance(value, (dict, list)) or not value or indent + before + len(text) < WIDTH:
        return text
    if isinstance(value, list):
        brackets, parts = "[]", [text_of(each, indent + 1) for each in value]
    else:
        brackets, parts = "{}", []
        for name, each in value.items():
            name = json.dumps(name) + ": "
            parts.append(name + text_of(each, indent + 1, len(name)))
    inner, room = "\n" + " " * (indent + 1), WIDTH - indent - 2
    if indent > 0 and _is_cell(value):
        return brackets[0] + inner.join(_packed(parts, room, before)) + brackets[1]
    lines = _packed(parts, room if _is_cell(value) else 0)
    return brackets[0] + inner + inner.join(lines) + "\n" + " " * indent + brackets[1]


def write(path, document):
    """Writes all of the text or nothing: a process that is killed meanwhile leaves what was there before."""
    handle, unfinished = tempfile.mkstemp(dir=os.path.dirname(os.path.abspath(path)), prefix=".unfinished-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text_of(document) + "\n")
            file.flush()
            os.fsync(file.fileno())
        os.chmod(unfinished, 0o644)
        os.replace(unfinished, path)
    except BaseException:
        os.unlink(unfinished)
        raise


def origin_of(facts):
    """"<commit>, <day>" of what has "commit" and "date", as in "measured" of a file, or in the file itself."""
    return f"{str(facts.get('commit'))[:9]}, {str(facts.get('date'))[:10]}"


class RawSamples:
    """The samples that summaries were made of, in FOLDER/NAME.jsonl.xz: a line {"of", "commit", "date", "samples"}
    for each cell, written as soon as it is there. Without a folder they are dropped. Not for several threads."""

    def __init__(self, folder=None, name="", facts=None):
        self.path = os.path.join(folder, name + ".jsonl.xz") if folder else None
        self.origin = {key: (facts or {}).get(key) for key in ("commit", "date")}

    def keep(self, of, samples):
        """`of`: the name of the cell; `samples`: anything that JSON can hold."""
        if self.path:
            os.makedirs(os.path.dirname(os.path.abspath(self.path)), exist_ok=True)
            with lzma.open(self.path, "at", encoding="utf-8") as file:
                file.write(json.dumps({"of": of, **self.origin, "samples": samples}) + "\n")


def load(path):
    """What the file holds; an empty result if there is no such file."""
    if not os.path.exists(path):
        return {"metrics": {}, "detail": {}, "measured": {}}
    with open(path, encoding="utf-8") as file:
        return json.load(file)


@contextlib.contextmanager
def _locked(folder):
    """Holds a lock while it lasts, for which other benches of the same folder wait."""
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
        write(path, ordered)
    return ordered
