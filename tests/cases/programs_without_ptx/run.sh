#!/bin/bash
# Programs of which no variants can be made say so by name, and what to do: separately compiled units
# (-rdc), machine code without PTX, a bare cubin.
. "$(dirname "$0")/../common.sh"
compile units "$here/one.cu" "$here/other.cu" -rdc=true
"$NVCC" -w -cudart shared -gencode arch=compute_90,code=sm_90 -rdc=false -include "$here/other.cu" -o "$work/code" "$here/one.cu" || skip "does not compile"
"$NVCC" -w -arch=sm_90 -cubin -include "$here/other.cu" -o "$work/bare.cubin" "$here/one.cu" || skip "does not compile"
says() {  # command, file, words
  said=$("$CUPOLA" $1 "$work/$2" 2>&1)
  [[ "$said" == *"$3"* ]] && right "$1 $2: $3" || wrong "$1 $2 says nothing of '$3': $said"
}
says build units "linked of separately compiled units (-rdc): no PTX; compile without -rdc"
says build units "its units are linked only in the program; compile without -rdc"
says inspect units "separately compiled (-rdc); compile without"
says build code "no PTX: machine code only; compile with -gencode arch=compute_90,code=compute_90 too"
says build bare.cubin "1 image, 1 kernel: no PTX: machine code only; compile with -gencode arch=compute_90"
says inspect bare.cubin "none: no PTX"
exit $bad
