"""Reads and writes the files of tests/golden/sim: a PTX module, its launch and arguments in comments, and
behind a marker what its buffers hold afterwards, what it prints and how it fails.

    // launch: grid=2 block=32 shared=64 cooperative=1 kernel=k
    // arg: u32:5
    // arg: buf:b32:4=7;8
    // %%% output %%%
    // 1[0]: 0x00000007 ...        (elements 0... of argument 1)
    // printed: a line
    // fault: trap                 (then no buffers: a GPU's are out of reach)
"""
import struct

MARKER = "// %%% output %%%"
SIZES = {"8": 1, "16": 2, "32": 4, "64": 8}


def type_bytes(name):
    return SIZES[name.lstrip("busf")]


def value_bits(name, word):
    if name[0] == "f" and not word.startswith("0x"):
        code = {"f32": ("<f", "<I"), "f64": ("<d", "<Q")}[name]
        return struct.unpack(code[1], struct.pack(code[0], float(word)))[0]
    return int(word, 0) & ((1 << (8 * type_bytes(name))) - 1)


def dims(text):
    return ([int(x) for x in text.split(",")] + [1, 1])[:3]


class Argument:
    """A scalar (one value) or a buffer; values are bits."""

    def __init__(self, word):
        parts = word.split(":")
        self.is_buffer = parts[0] == "buf"
        self.type = parts[1] if self.is_buffer else parts[0]
        self.size = type_bytes(self.type)
        if not self.is_buffer:
            self.values = [value_bits(self.type, parts[1])]
            return
        count, _, fill = parts[2].partition("=")
        count = int(count, 0)
        given = list(range(count)) if fill == "iota" else [
            value_bits(self.type, v) for v in (fill or "0").split(";")]
        self.values = [given[i % len(given)] for i in range(count)]

    def data(self):
        return b"".join(v.to_bytes(self.size, "little") for v in self.values)

    def shown(self, values):
        top = 8 * self.size - 1
        if self.type[0] == "b":
            return [f"0x{v:0{self.size * 2}x}" for v in values]
        if self.type[0] == "s":
            return [str(v - (2 << top) if v >> top else v) for v in values]
        return [str(v) for v in values]


class KernelFile:
    def __init__(self, path):
        with open(path) as file:
            self.head, self.marker, self.expected = file.read().partition(MARKER + "\n")
        self.launch = {"grid": "1", "block": "1", "shared": "0", "cooperative": "0", "kernel": ""}
        self.args = []
        for line in self.head.splitlines():
            words = line.split()
            if words[:2] == ["//", "launch:"]:
                self.launch.update(word.split("=") for word in words[2:])
            elif words[:2] == ["//", "arg:"]:
                self.args.append(Argument(words[2]))

    def output(self, buffers, printed="", fault=None):
        """The expectation's text. buffers: {argument: values}; buffers that are not named keep their contents."""
        if fault:
            return f"// fault: {fault}\n"
        lines = []
        for index, arg in enumerate(self.args):
            if not arg.is_buffer:
                continue
            shown = arg.shown(buffers.get(index, arg.values))
            for at in range(0, len(shown), 8):
                lines.append(f"// {index}[{at}]: " + " ".join(shown[at:at + 8]) + "\n")
        return "".join(lines) + "".join(f"// printed: {line}\n" for line in printed.splitlines())
