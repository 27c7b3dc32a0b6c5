"""Results of tests/cases as cells: one for each case, with the commit and the GPU of its run.

Runs that were cut off are put together by case; cells of another commit or another GPU are left out. A document
(cases.json) holds the cells, the counts that follow from them, and whatever else was in it before. Standard
library only.
"""
import fnmatch
import json
import os
import re

ALONE = re.compile(r"^# Alone(?: on a GPU)?: ", re.MULTILINE)
SIMULATED = "simulated device"


def model_of(facts):
    """The GPU's name without its driver, which may differ between cells of one document."""
    return (facts.get("gpu") or SIMULATED).split(",")[0]


def counted(cells):
    """Cases that could be tried, and how many of them are right."""
    tried = [cell for cell in cells if cell["verdict"] != "skipped"]
    return len(tried), sum(cell["verdict"] == "right" for cell in tried)


def cells_of(document):
    """A document's cells, each with its commit and GPU; older documents have these once for all cells."""
    of_all = {"commit": document.get("cases_commit"), "gpu": model_of(document.get("machine", {}))}
    return [{**of_all, **cell} for cell in document.get("cases", [])]


def merged(cells, commit, model):
    """For each case the last cell of this commit and this GPU. None if the commit is not known."""
    found = {}
    for cell in sorted(cells, key=lambda cell: cell.get("date") or ""):
        if commit and (cell["commit"], cell["gpu"]) == (commit, model):
            found[cell["case"]] = cell
    return found


def document_of(found, names, facts, before=None):
    """What cases.json holds: `found` by case, of the cases `names`; other keys of `before` stay."""
    cells = [found[name] for name in sorted(found)]
    total, right = counted(cells)
    return {**(before or {}), "cases_total": total, "cases_right": right,
            "cases_not_reached": sorted(set(names) - set(found)), "machine": facts,
            "cases_commit": facts.get("commit"), "cases": cells}


def read(path):
    """A document, or an empty one where there is no such file."""
    if not os.path.exists(path):
        return {}
    with open(path) as file:
        return json.load(file)


def chosen(names, patterns):
    """Those of `names` that a shell pattern matches; all without patterns. A pattern that matches none is an error."""
    for pattern in patterns:
        if not fnmatch.filter(names, pattern):
            raise ValueError(f"no case {pattern}")
    return [name for name in names if not patterns or any(fnmatch.fnmatch(name, each) for each in patterns)]


def is_alone(script):
    """Whether a case's run.sh says that nothing else may run on the machine, or the GPU, meanwhile."""
    with open(script) as file:
        return ALONE.search(file.read()) is not None


def in_order(names, seconds):
    """Sorts cases: first those whose time is not known, then the others, the longest first."""
    return sorted(names, key=lambda name: (-seconds.get(name, float("inf")), name))
