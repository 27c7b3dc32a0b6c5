"""Plants a bug in a copy of a source, at the place that a marker in the source names.

A marker is a comment `// plant: NAME`, or `// plant: NAME, NAME` where several bugs have the same place. At the end of
a line it marks the statement that begins in this line, and on a line of its own the statement that begins in the next.
A marked statement ends as one of C++ does: with the line that ends in `;`, `{` or `}` when the brackets that were
opened in it are closed. Several statements are marked from `// plant: NAME` to `// end plant: NAME`, each on a line of
its own.

A bug has the name of its marker, and is one of the actions below. An action gets the marked code without its markers,
and returns what takes its place:

  drop()                     nothing
  replace(TEXT)              TEXT, indented as the marked code is
  before(TEXT), after(TEXT)  TEXT, as above, and the marked code
  condition(TEXT)            the marked if or while, with TEXT for its condition
  change(PART, BY)           the marked code, with BY for PART, which must occur in it once

PART should be the token that the bug is about, so that other edits of the marked code leave the bug as it is.
"""
import re

MARKER = re.compile(r"[ \t]*// (?P<end>end )?plant: (?P<names>\w+(?:, \w+)*)$")
STRING_OR_COMMENT = re.compile(r"""//.*|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])'""")


class PlantError(Exception):
    """A bug that cannot be planted: there is no one place for it, or what it changes is not there."""


def names_of(text):
    """The names in the markers of a source, in order; those of `end plant` are left out."""
    found = [MARKER.search(line) for line in text.splitlines()]
    return [name for marker in found if marker and not marker["end"] for name in marker["names"].split(", ")]


def planted(text, name, action, source):
    """The text of the source with this bug. `source` is what a PlantError calls it."""
    lines = text.splitlines(keepends=True)
    first, end = _marked(lines, name, source)
    code = "".join(_without_marker(line) for line in lines[first:end])
    try:
        return "".join(lines[:first]) + action(code) + "".join(lines[end:])
    except PlantError as error:
        raise PlantError(f"{source}: at '// plant: {name}': {error}") from None


def drop():
    return lambda code: ""


def replace(text):
    return lambda code: _indented(text, code)


def before(text):
    return lambda code: _indented(text, code) + code


def after(text):
    return lambda code: code + _indented(text, code)


def condition(text):
    def action(code):
        head = re.match(r"\s*(if|while) \(", code)
        if not head:
            raise PlantError("the marked statement has no condition")
        depth = 1
        for at in range(head.end(), len(code)):
            depth += {"(": 1, ")": -1}.get(code[at], 0)
            if depth == 0:
                return code[:head.end()] + text + code[at:]
        raise PlantError("the condition of the marked statement has no end")
    return action


def change(part, by):
    def action(code):
        if code.count(part) != 1:
            raise PlantError(f"{part!r} occurs {code.count(part)} times in the marked code, not once")
        return code.replace(part, by)
    return action


def _marked(lines, name, source):
    """The marked lines: the first, and the one behind the last."""
    begins, ends = _places(lines, name, False), _places(lines, name, True)
    if len(begins) != 1:
        raise PlantError(f"{source}: the marker '// plant: {name}' occurs {len(begins)} times, not once")
    first = begins[0]
    while first < len(lines) and _is_only_marker(lines[first]):
        first += 1
    if ends:
        if len(ends) != 1 or ends[0] <= first:
            raise PlantError(f"{source}: '// end plant: {name}' is to stand once, and behind '// plant: {name}'")
        return first, ends[0]
    depth = 0
    for at in range(first, len(lines)):
        code = STRING_OR_COMMENT.sub("", lines[at]).rstrip()
        depth += sum(code.count(bracket) for bracket in "([{") - sum(code.count(bracket) for bracket in ")]}")
        if depth <= 0 and code.endswith((";", "{", "}")):
            return first, at + 1
    raise PlantError(f"{source}: the statement at '// plant: {name}' has no end")


def _places(lines, name, is_end):
    found = [MARKER.search(line.rstrip("\n")) for line in lines]
    return [at for at, marker in enumerate(found)
            if marker and bool(marker["end"]) == is_end and name in marker["names"].split(", ")]


def _is_only_marker(line):
    return MARKER.fullmatch(line.rstrip("\n")) is not None


def _without_marker(line):
    return "" if _is_only_marker(line) else MARKER.sub("", line.rstrip("\n")) + "\n"


def _indented(text, code):
    indent = re.match(r"[ \t]*", code)[0]
    return "".join(f"{indent}{line}\n" for line in text.splitlines())
