#!/usr/bin/env python3
"""What scripts/cubin_compare.py takes for the same cubin, and what not, on cubins that ptxas makes;
and that what the writer's golden cases expect gives the cubin of their input, where ptxas takes
that.

Usage: cubin_compare_test.py PTXAS. Exit code 77 where there is none.
"""
import glob
import os
import sys
import tempfile
import unittest

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../..")
sys.path.insert(0, os.path.join(ROOT, "scripts"))
import cubin_compare  # noqa: E402  (found by the path above)

PTXAS = sys.argv.pop(1) if len(sys.argv) > 1 else ""

TEXT = b""".version 9.0
.target sm_90
.address_size 64
.visible .global .u32 counter = 5;
.visible .entry k(.param .u64 p)
.maxntid 128
{
	.reg .b32 %r<3>;
	.reg .b64 %rd<3>;
	.shared .align 4 .b8 local[64];
	ld.param.u64 %rd1, [p];
	ld.global.u32 %r1, [%rd1+4];
	st.shared.u32 [local+8], %r1;
	bar.sync 0;
	ld.shared.u32 %r2, [local];
	st.global.u32 [%rd1], %r2;
	ret;
}
"""


class CubinCompare(unittest.TestCase):
    def compile(self, text, *more):
        options = cubin_compare.ptxas_options(text.decode(), " ".join(more))
        with tempfile.TemporaryDirectory() as folder:
            cubin, refused = cubin_compare.compile_ptx(PTXAS, text, options, folder, 60)
        self.assertEqual(refused, "")
        return cubin

    def difference(self, changed, *more):
        first, second = self.compile(TEXT, *more), self.compile(changed, *more)
        names = cubin_compare.differing_sections(first, TEXT, second, changed)
        if names:
            self.assertNotEqual(cubin_compare.digest(first), cubin_compare.digest(second))
        return names

    def test_blanks_and_comments_do_not_count(self):
        changed = TEXT.replace(b"\tret;", b"\n\n  ret ; // done")
        self.assertEqual(self.difference(changed), [])
        self.assertEqual(cubin_compare.digest(self.compile(TEXT)),
                         cubin_compare.digest(self.compile(changed)))

    def test_lines_in_the_names_of_a_unit_do_not_count(self):
        self.assertEqual(self.difference(b"\n" + TEXT, "--compile-only"), [])

    def test_another_offset_is_seen_in_the_code(self):
        self.assertEqual(self.difference(TEXT.replace(b"+4]", b"+12]")), [".text.k"])

    def test_another_initial_value_is_seen(self):
        self.assertEqual(self.difference(TEXT.replace(b"= 5", b"= 6")), [".nv.global.init"])

    def test_another_bound_is_seen_in_the_facts(self):
        self.assertIn(".nv.info.k", self.difference(TEXT.replace(b".maxntid 128", b".maxntid 64")))

    def test_another_size_of_shared_memory_is_seen(self):
        self.assertIn(".nv.shared.k", self.difference(TEXT.replace(b"local[64]", b"local[4096]")))

    def test_another_name_is_seen_in_the_symbols(self):
        for text, changed in ((b"counter", b"counted"), (b"entry k(", b"entry l(")):
            self.assertIn(".symtab", self.difference(TEXT.replace(text, changed)))

    def test_another_name_of_a_shared_variable_of_a_unit_is_seen(self):
        changed = TEXT.replace(b"local", b"other")
        self.assertEqual(self.difference(changed, "--compile-only"), [".symtab"])

    def test_refusals_tell_the_reason(self):
        with tempfile.TemporaryDirectory() as folder:
            cubin, refused = cubin_compare.compile_ptx(
                PTXAS, TEXT.replace(b"ret;", b"retire;"), ["-arch=sm_90"], folder, 60)
        self.assertIsNone(cubin)
        self.assertIn("'retire'", refused)

    def test_options_follow_the_target_and_the_image(self):
        options = cubin_compare.ptxas_options
        self.assertEqual(options(".target sm_90a\n.entry k"), ["-arch=sm_90a"])
        self.assertEqual(options(".target sm_70\n.entry k"), ["-arch=sm_75"])
        self.assertEqual(options(".target sm_90, debug\n.entry k"), ["-arch=sm_90", "-g"])
        self.assertEqual(options(".target sm_90\n"), ["-arch=sm_90", "--compile-only"])
        asked = '-maxrregcount=96 -v --ext-desc-file="/a"'
        self.assertEqual(options(".target sm_80\n.entry k", asked),
                         ["-arch=sm_80", "-maxrregcount=96"])

    def test_golden_cases_of_the_writer_keep_the_cubin(self):
        compared = 0
        for path in sorted(glob.glob(os.path.join(ROOT, "tests/golden/ptx/write/*.ptx"))):
            with open(path, "rb") as file:
                text, _, written = file.read().partition(b"// %%% output %%%\n")
            options = cubin_compare.ptxas_options(text.decode(errors="replace"))
            with tempfile.TemporaryDirectory() as folder:
                first, refused = cubin_compare.compile_ptx(PTXAS, text, options, folder, 60)
                if "opcodes_" in path:
                    self.assertEqual(refused, "", path)
                if first is None:
                    continue
                second, refused = cubin_compare.compile_ptx(PTXAS, written, options, folder, 60)
            self.assertEqual(refused, "", path)
            differs = cubin_compare.differing_sections(first, text, second, written)
            self.assertEqual(differs, [], path)
            compared += 1
        self.assertGreater(compared, 15)


if __name__ == "__main__":
    if not os.path.exists(PTXAS):
        print("skipped: no ptxas found")
        sys.exit(77)
    unittest.main()
