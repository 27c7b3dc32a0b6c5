#!/usr/bin/env python3
"""Runs the golden kernels on the real GPU and compares their expectations with what it does.

usage: golden_kernels.py [--write FOLDER] [FILE...]   (default: every .ptx of tests/golden/sim)
--write puts copies whose expectations are the GPU's into FOLDER. Needs libcuda.so.1 and a GPU.
Exit code 1 if any file differs."""
import argparse, ctypes, os, struct, sys

MARKER = "// %%% output %%%"
SIZES = {"8": 1, "16": 2, "32": 4, "64": 8}


def type_bytes(name):
    return SIZES[name.lstrip("busf")]


def value_bits(name, word):
    if name[0] == "f" and not word.startswith("0x"):
        code = {"f32": ("<f", "<I"), "f64": ("<d", "<Q")}[name]
        return struct.unpack(code[1], struct.pack(code[0], float(word)))[0]
    return int(word, 0) & ((1 << (8 * type_bytes(name))) - 1)


def parse(text):
    launch = {"grid": "1", "block": "1", "shared": "0", "cooperative": "0", "kernel": ""}
    args = []
    for line in text.split(MARKER)[0].splitlines():
        words = line.split()
        if words[:2] == ["//", "launch:"]:
            launch.update(word.split("=") for word in words[2:])
        elif words[:2] == ["//", "arg:"]:
            args.append(words[2])
    return launch, args


def dims(text):
    return ([int(x) for x in text.split(",")] + [1, 1])[:3]


class Gpu:
    def __init__(self):
        self.cuda = ctypes.CDLL("libcuda.so.1")
        self.check("cuInit", 0)
        context, device = ctypes.c_void_p(), ctypes.c_int()
        self.check("cuDeviceGet", ctypes.byref(device), 0)
        self.check("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.check("cuCtxSetCurrent", context)

    def check(self, name, *arguments):
        result = getattr(self.cuda, name)(*arguments)
        if result != 0:
            raise RuntimeError(f"{name}: error {result}")

    def run(self, text):
        launch, words = parse(text)
        module, function, count = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_uint()
        self.check("cuModuleLoadData", ctypes.byref(module), text.encode() + b"\0")
        functions = (ctypes.c_void_p * 1)()
        self.check("cuModuleEnumerateFunctions", functions, 1, module)
        function.value = functions[0]
        buffers, holders = [], []
        for word in words:
            parts = word.split(":")
            if parts[0] != "buf":
                size = type_bytes(parts[0])
                holders.append(ctypes.create_string_buffer(
                    value_bits(parts[0], parts[1]).to_bytes(size, "little"), size))
                continue
            name = parts[1]
            size = type_bytes(name)
            number, _, fill = parts[2].partition("=")
            number = int(number, 0)
            values = list(range(number)) if fill == "iota" else [
                value_bits(name, v) for v in (fill or "0").split(";")]
            data = b"".join(values[i % len(values)].to_bytes(size, "little") for i in range(number))
            pointer = ctypes.c_uint64()
            self.check("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(len(data)))
            self.check("cuMemcpyHtoD_v2", pointer, data, ctypes.c_size_t(len(data)))
            buffers.append((len(holders), name, number, pointer))
            holders.append(pointer)
        params = (ctypes.c_void_p * max(1, len(holders)))(
            *[ctypes.cast(ctypes.byref(h), ctypes.c_void_p) for h in holders])
        shared = int(launch["shared"])
        arguments = [function, *[ctypes.c_uint(d) for d in dims(launch["grid"]) + dims(launch["block"])],
                     ctypes.c_uint(shared), None, params]
        if launch["cooperative"] == "1":
            self.check("cuLaunchCooperativeKernel", *arguments)
        else:
            self.check("cuLaunchKernel", *arguments, None)
        self.check("cuCtxSynchronize")
        lines = []
        for index, name, number, pointer in buffers:
            size = type_bytes(name)
            data = ctypes.create_string_buffer(size * number)
            self.check("cuMemcpyDtoH_v2", data, pointer, ctypes.c_size_t(size * number))
            raw = [int.from_bytes(data.raw[i * size:(i + 1) * size], "little") for i in range(number)]
            if name[0] == "b":
                shown = [f"0x{v:0{size * 2}x}" for v in raw]
            elif name[0] == "s":
                shown = [str(v - (1 << 8 * size) if v >> (8 * size - 1) else v) for v in raw]
            else:
                shown = [str(v) for v in raw]
            for at in range(0, number, 8):
                lines.append(f"// {index}[{at}]: " + " ".join(shown[at:at + 8]) + "\n")
        return "".join(lines)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--write")
    parser.add_argument("files", nargs="*")
    options = parser.parse_args()
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../golden/sim")
    files = options.files or sorted(os.path.join(folder, name) for name in os.listdir(folder)
                                    if name.endswith(".ptx"))
    gpu, bad = Gpu(), 0
    for path in files:
        text = open(path).read()
        head, _, expected = text.partition(MARKER + "\n")
        try:
            output = gpu.run(head)
        except RuntimeError as error:
            print(f"{os.path.basename(path)}: {error}")
            bad += 1
            continue
        if options.write:
            open(os.path.join(options.write, os.path.basename(path)), "w").write(head + MARKER + "\n" + output)
        differs = [(e, g) for e, g in zip(expected.splitlines(), output.splitlines()) if e != g]
        print(f"{os.path.basename(path)}: {'equal' if expected == output else 'DIFFERENT'}")
        for e, g in differs[:4]:
            print(f"  expected {e}\n  gpu      {g}")
        bad += expected != output
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
