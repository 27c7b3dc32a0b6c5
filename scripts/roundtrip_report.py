"""The figures of scripts/roundtrip-all: a line for the terminal and the page docs/results/roundtrip.md."""
import collections
import datetime
import os
import platform
import re
import subprocess

COLUMNS = ("modules", "bytes", "parsed", "tokens", "compared", "compared_bytes", "identical",
           "refused", "differing", "open")


def figures(checker, modules):
    """({library: Counter of COLUMNS}, Counter of refusals, lines on what is wrong, Counter of notes)."""
    libraries = collections.defaultdict(collections.Counter)
    refusals, wrong, texts, notes = collections.Counter(), [], set(), collections.Counter()
    for module in modules:
        row = libraries[module["name"]]
        row["modules"] += 1
        row["bytes"] += module["bytes"]
        verdict = checker.verdict_from_records(module)
        image = checker.results.get("image", module["library"], module["image"])
        written = image and checker.results.get("written", image["text"], checker.writer)
        place = f"{module['name']} image {module['image']}"
        if written:
            row["parsed"] += "written" in written
            row["tokens"] += "written" in written and "problem" not in written
            if "problem" in written:
                wrong.append(f"{place}: {written['problem']}")
        if not verdict:
            row["open"] += 1
            row["open_bytes"] += module["bytes"]
            continue
        texts.add(verdict["text"])
        if "refused" in verdict:
            row["refused"] += 1
            refusals[reason(verdict["refused"])] += 1
            continue
        if verdict["invalid"]:
            wrong.append(f"{place}: validate finds an error where ptxas does not: {verdict['invalid']}")
        row["compared"] += 1
        row["compared_bytes"] += module["bytes"]
        row["differing" if verdict.get("differs", ["not parsed"]) else "identical"] += 1
        notes["sections"] += bool(checker.results.get(
            "compare", image["text"], written.get("written"), verdict["options"]))
        if verdict.get("differs"):
            wrong.append(f"{place}: {', '.join(verdict['differs'])}")
    notes["texts"] = len(texts)
    return libraries, refusals, wrong, notes


def reason(refusal):
    """ptxas's complaint without places and numbers of lines."""
    refusal = re.sub(r"^ptxas\s*(fatal|error)?\s*[:,]?\s*", "", refusal)
    return re.sub(r"^line \d+;\s*\w+\s*:\s*", "", refusal)


def files_by_mode(results):
    """{nvcc's flags: Counter of verdicts} of what scripts/roundtrip --record found."""
    modes = collections.defaultdict(collections.Counter)
    for key, record in results.records.items():
        if key[0] == "file":
            modes[record["mode"]][record["verdict"]] += 1
    return modes


def total(libraries):
    row = collections.Counter()
    for counts in libraries.values():
        row.update(counts)
    return row


def summary(checker, modules):
    libraries, _, wrong, _ = figures(checker, modules)
    row = total(libraries)
    return (f"{row['modules']} modules, {row['bytes'] / 1e6:.0f} MB: {row['parsed']} parsed, "
            f"{row['tokens']} written with the same tokens; {row['compared']} compared, "
            f"{row['identical']} identical, {row['differing']} differing; {row['refused']} refused by "
            f"ptxas; {row['open']} not done" + "".join("\n" + line for line in wrong))


def command_output(*words):
    run = subprocess.run(words, capture_output=True, text=True, cwd=os.path.dirname(__file__) or ".")
    return run.stdout.strip()


def processor():
    with open("/proc/cpuinfo") as file:
        found = re.search(r"model name\s*:\s*(.*)", file.read())
    return found.group(1) if found else platform.processor()


def tree_commit():
    changed = bool(command_output("git", "status", "--porcelain", "../device", "../cli"))
    return (command_output("git", "rev-parse", "--short=12", "HEAD")
            + (" with changes" if changed else ""))


def coverage(checker, modules, row):
    """Says in words which part of all modules was compared."""
    if row["open"] == 0:
        return ["Every module was taken through; none is left out."]
    smallest = min(module["bytes"] for module in modules
                   if not checker.verdict_from_records(module))
    return [f"Not all was taken through: {row['open']} of {row['modules']} modules are to do, in bytes "
            f"{100 * row['open_bytes'] / row['bytes']:.0f} %.",
            f"Every module smaller than {smallest} bytes was; of the larger ones, the rest of the table."]


def write(path, checker, modules, commit=None):
    libraries, refusals, wrong, notes = figures(checker, modules)
    row = total(libraries)
    lines = [
        "# PTX of the CUDA libraries through the IR and back", "",
        "Written by `scripts/roundtrip-all --report`; `docs/ptx.md` says what is compared and how.", "",
        f"- date: {datetime.date.today()}",
        f"- commit: {commit or tree_commit()}",
        f"- ptxas: {checker.version}",
        f"- machine: {processor()}, {os.cpu_count()} cores, {platform.system()}", "",
        "Parsed: parsed, written, parsed again with the same IR. Tokens: the written text has the tokens of",
        "the original. Compared: ptxas takes the original, and both cubins were made. Identical: all",
        "sections but debug ones are equal. To do: not compared yet, largest modules last.", "",
        *coverage(checker, modules, row), "",
        "| library | modules | MB | parsed | tokens | compared | MB | identical | differing | refused | to do |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|"]
    for name, counts in [*sorted(libraries.items()), ("**all**", row)]:
        lines.append(f"| {name} | {counts['modules']} | {counts['bytes'] / 1e6:.1f} | {counts['parsed']} | "
                     f"{counts['tokens']} | {counts['compared']} | {counts['compared_bytes'] / 1e6:.1f} | "
                     f"{counts['identical']} | {counts['differing']} | {counts['refused']} | "
                     f"{counts['open']} |")
    lines += ["", f"The modules that were done are {notes['texts']} different texts, since libraries share",
              "some; each was compiled once for each set of options.", ""]
    if notes["sections"]:
        lines += [f"{notes['sections']} of the identical ones differ in names that ptxas makes of lines of the",
                  "text (shared variables of `-rdc` units); without these they are equal.", ""]
    lines += ["## Refused by ptxas", ""]
    lines += [f"- {count}: {text}" for text, count in refusals.most_common()] or ["None."]
    lines += ["", "## Wrong", ""]
    lines += [f"- {line}" for line in wrong] or ["Nothing."]
    modes = files_by_mode(checker.results)
    if modes:
        lines += ["", "## What nvcc makes of tests/apps", "",
                  "By `scripts/roundtrip --record`; the flags of nvcc, then how many programs.", ""]
        lines += [f"- `{mode or 'no flags'}`: " +
                  ", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items()))
                  for mode, counts in sorted(modes.items())]
    with open(path, "w") as file:
        file.write("\n".join(lines) + "\n")
