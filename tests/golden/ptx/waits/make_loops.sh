#!/bin/bash
# Makes release.ptx and debug.ptx of loops.cu anew, without what says where lines came from. Then
# CUPOLA_REBASE=1 bin/ptx_test --gtest_filter='*Golden*' writes the expectations.
set -e
cd "$(dirname "$0")"
make() { "${NVCC:-nvcc}" -w -arch=sm_90 -ptx "${@:2}" -o - loops.cu |
  sed -e '/^\s*\/\//d' -e '/^\s*\.loc\s/d' -e '/^\s*\.file\s/d' -e '/^\$L__\(tmp\|func\)/d' -e '/^\s*$/d' -e '/^\s*\.section/,$d' >"$1"; }
make release.ptx
make debug.ptx -G
