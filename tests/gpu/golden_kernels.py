#!/usr/bin/env python3
"""Runs the golden kernels on the real GPU and compares their expectations with what it does.

usage: golden_kernels.py [--write FOLDER] [FILE...]   (default: every .ptx of tests/golden/sim)
--write puts copies whose expectations are the GPU's into FOLDER. Needs libcuda.so.1 and a GPU.
A kernel that ends in a fault takes its context with it, so each file that expects one runs in a
process of its own. Exit code 1 if any file differs."""
import argparse, ctypes, os, subprocess, sys, tempfile

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
sys.path.insert(0, os.path.join(ROOT, "golden/sim_reference"))
from kernel_file import MARKER, KernelFile, dims

FAULTS = {700: "illegal_address", 710: "assert", 715: "illegal_instruction",
          716: "misaligned_address", 719: "trap"}


class DriverError(RuntimeError):
    def __init__(self, name, code):
        super().__init__(f"{name}: error {code}")
        self.code = code


class Printed:
    """Takes this process's standard output, device printf included, while it is open."""

    def __enter__(self):
        sys.stdout.flush()
        self.file = tempfile.TemporaryFile()
        self.saved = os.dup(1)
        os.dup2(self.file.fileno(), 1)
        return self

    def __exit__(self, *_):
        ctypes.CDLL(None).fflush(None)
        os.dup2(self.saved, 1)
        os.close(self.saved)
        self.file.seek(0)
        self.text = self.file.read().decode()


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
            raise DriverError(name, result)

    def run(self, kernel):
        module, functions = ctypes.c_void_p(), (ctypes.c_void_p * 1)()
        self.check("cuModuleLoadData", ctypes.byref(module), kernel.head.encode() + b"\0")
        if kernel.launch["kernel"]:
            self.check("cuModuleGetFunction", functions, module, kernel.launch["kernel"].encode())
        else:
            self.check("cuModuleEnumerateFunctions", functions, 1, module)
        holders, buffers = [], {}
        for index, arg in enumerate(kernel.args):
            if not arg.is_buffer:
                holders.append(ctypes.create_string_buffer(arg.data(), arg.size))
                continue
            pointer, data = ctypes.c_uint64(), arg.data()
            self.check("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(len(data)))
            self.check("cuMemcpyHtoD_v2", pointer, data, ctypes.c_size_t(len(data)))
            buffers[index] = pointer
            holders.append(pointer)
        params = (ctypes.c_void_p * max(1, len(holders)))(
            *[ctypes.cast(ctypes.byref(h), ctypes.c_void_p) for h in holders])
        shape = [ctypes.c_uint(d) for word in ("grid", "block") for d in dims(kernel.launch[word])]
        launch = [ctypes.c_void_p(functions[0]), *shape,
                  ctypes.c_uint(int(kernel.launch["shared"])), None, params]
        try:
            with Printed() as printed:
                if kernel.launch["cooperative"] == "1":
                    self.check("cuLaunchCooperativeKernel", *launch)
                else:
                    self.check("cuLaunchKernel", *launch, None)
                self.check("cuCtxSynchronize")
        except DriverError as error:
            if error.code not in FAULTS:
                raise
            return kernel.output({}, fault=FAULTS[error.code])
        values = {}
        for index, pointer in buffers.items():
            size, count = kernel.args[index].size, len(kernel.args[index].values)
            data = ctypes.create_string_buffer(size * count)
            self.check("cuMemcpyDtoH_v2", data, pointer, ctypes.c_size_t(size * count))
            self.check("cuMemFree_v2", pointer)
            values[index] = [int.from_bytes(data.raw[i * size:(i + 1) * size], "little")
                             for i in range(count)]
        self.check("cuModuleUnload", module)
        return kernel.output(values, printed.text)


def check_file(gpu, path, folder):
    kernel = KernelFile(path)
    try:
        output = gpu.run(kernel)
    except RuntimeError as error:
        print(f"{os.path.basename(path)}: DIFFERENT\n  {error}")
        return False
    if folder:
        with open(os.path.join(folder, os.path.basename(path)), "w") as file:
            file.write(kernel.head + MARKER + "\n" + output)
    equal = kernel.expected == output
    print(f"{os.path.basename(path)}: {'equal' if equal else 'DIFFERENT'}")
    expected, found = kernel.expected.splitlines(), output.splitlines()
    differs = [pair for pair in zip(expected, found) if pair[0] != pair[1]]
    for wanted, got in differs[:4]:
        print(f"  expected {wanted}\n  gpu      {got}")
    if len(expected) != len(found):
        print(f"  expected {len(expected)} lines\n  gpu      {len(found)}")
    return equal


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--write")
    parser.add_argument("files", nargs="*")
    options = parser.parse_args()
    folder = os.path.join(ROOT, "golden/sim")
    files = options.files or sorted(os.path.join(folder, name) for name in os.listdir(folder)
                                    if name.endswith(".ptx"))
    gpu, good = None, True
    for path in files:
        if "// fault:" in KernelFile(path).expected and len(files) > 1:
            sys.stdout.flush()
            write = ["--write", options.write] if options.write else []
            command = [sys.executable, __file__, *write, path]
            good &= subprocess.run(command, timeout=60).returncode == 0
            continue
        gpu = gpu or Gpu()
        good &= check_file(gpu, path, options.write)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
