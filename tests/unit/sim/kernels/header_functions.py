#!/usr/bin/env python3
"""usage: header_functions.py NVCC CUPOLA [FOLDER]: compiles a kernel for each device function that
the CUDA headers declare with simple arguments, and asks which instructions the simulated device
lacks. Prints how many, and the forms; exit code 1 if there are any, 77 without the headers.
FOLDER keeps the files."""
import os, re, subprocess, sys, tempfile

HEADERS = ("cuda_fp16.h", "cuda_bf16.h", "crt/device_functions.h", "crt/math_functions.h",
           "crt/device_double_functions.h", "crt/sm_80_rt.h", "crt/sm_90_rt.h",
           "sm_20_intrinsics.h", "sm_30_intrinsics.h", "sm_32_intrinsics.h", "sm_61_intrinsics.h",
           "device_atomic_functions.h", "sm_32_atomic_functions.h", "sm_60_atomic_functions.h")
TYPES = {"__half", "__half2", "__nv_bfloat16", "__nv_bfloat162", "float", "double", "int", "bool",
         "unsigned int", "unsigned", "long long int", "long long", "unsigned long long int",
         "unsigned long long", "short", "short int", "unsigned short", "unsigned short int",
         "char", "signed char", "unsigned char", "float2"}
PROTOTYPE = re.compile(
    r"(?:__device__|_DECL__|__DEVICE_FUNCTIONS_DECL__|__nv_pure__|__cudart_builtin__|"
    r"__device_builtin__)\s+"
    r"((?:const )?(?:unsigned |signed |long |short )*\w+(?: long| int| short)*)"
    r"\s+(\w+)\s*\(([^()]*)\)\s*(?:__[A-Z]\w*(?:\([^)]*\))?)?\s*(?:noexcept|__THROW)?\s*;")
# They end or halt the kernel.
LEFT_OUT = re.compile(r"__trap|__brkpt|__prof_trigger|__nv_\w+|__cuda\w+")
FEWEST = 500  # fewer: the headers are written in another way than this script reads


def include_folder(nvcc):
    home = os.path.dirname(os.path.dirname(os.path.realpath(nvcc)))
    for part in ("include", "targets/x86_64-linux/include"):
        if os.path.exists(os.path.join(home, part, HEADERS[0])):
            return os.path.join(home, part)
    return None


def plain(text):
    text = re.sub(r"\bconst\b|__restrict__|__device_builtin__", " ", text)
    return re.sub(r"\s+", " ", text).strip()


def argument(text):
    """(type, is it a pointer) of a parameter, or None."""
    words = plain(text.split("=")[0].replace("*", " * ")).split()
    pointer = "*" in words
    words = [word for word in words if word != "*"]
    for kept in (words, words[:-1]):
        if " ".join(kept) in TYPES:
            return " ".join(kept), pointer
    return None


def calls(folder):
    """{(name, arguments): return type} of what the headers declare."""
    found = {}
    for header in HEADERS:
        path = os.path.join(folder, header)
        if not os.path.exists(path):
            continue
        with open(path, errors="replace") as file:
            text = re.sub(r"/\*.*?\*/|//[^\n]*", " ", file.read(), flags=re.S)
        for result, name, parameters in PROTOTYPE.findall(text):
            listed = [] if parameters.strip() in ("", "void") else parameters.split(",")
            arguments = tuple(map(argument, listed))
            if plain(result) in TYPES | {"void"} and None not in arguments:
                if not LEFT_OUT.fullmatch(name):
                    found.setdefault((name, arguments), plain(result))
    return found


def kernel(index, name, arguments, result):
    given = ", ".join(f"({kind}*)p" if pointer else f"(({kind}*)p)[{8 + at}]"
                      for at, (kind, pointer) in enumerate(arguments))
    store = "" if result == "void" else f"*({result}*)p = "
    return f'extern "C" __global__ void k{index}_{name}(char* p) {{ {store}{name}({given}); }}'


def compile_kernels(nvcc, lines, folder):
    """The PTX file. Kernels that the compiler refuses are left out."""
    source, ptx = os.path.join(folder, "functions.cu"), os.path.join(folder, "functions.ptx")
    for _ in range(4):
        with open(source, "w") as file:
            file.write("\n".join(lines) + "\n")
        done = subprocess.run([nvcc, "-ptx", "-arch=sm_90", "-std=c++17", source, "-o", ptx],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              timeout=250)
        if done.returncode == 0:
            return ptx
        bad = {int(number) for number in re.findall(r"functions\.cu\((\d+)\): error", done.stdout)}
        lines = ["" if at + 1 in bad else line for at, line in enumerate(lines)]
    sys.exit("nvcc: " + done.stdout[:2000])


def main():
    nvcc, cupola = sys.argv[1:3]
    includes = include_folder(nvcc)
    if includes is None:
        print("skipped: no CUDA headers beside nvcc")
        return 77
    lines = ["#include <cuda_fp16.h>", "#include <cuda_bf16.h>"]
    for index, ((name, arguments), result) in enumerate(calls(includes).items()):
        lines.append(kernel(index, name, arguments, result))
    with tempfile.TemporaryDirectory() as temporary:
        ptx = compile_kernels(nvcc, lines, sys.argv[3] if len(sys.argv) > 3 else temporary)
        with open(ptx) as file:
            count = file.read().count(".visible .entry ")
        check = subprocess.run([cupola, "ptx", "run", "--check", ptx], stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True, timeout=100)
    print(check.stdout, end="")
    lacked = len(check.stdout.splitlines())
    print(f"{count} functions, {lacked} forms of instructions lacking")
    return 1 if check.returncode != 0 or lacked or count < FEWEST else 0


if __name__ == "__main__":
    sys.exit(main())
