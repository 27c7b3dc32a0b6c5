// Entry points that must keep everything that their caller passed: the first call of a forwarded
// driver function, and watched calls. The generated stubs (generate/stubs.py) jump here, on the thread
// of the program that makes the call. x86-64 System V ABI.
//
// The frame of both, from rbp (SAVE_ARGUMENTS sets it), in bytes:
//    0        the caller's rbp
//    8        the call's index, which the stub pushed; behind a watched call its result is kept here
//   -8...-48  rdi, rsi, rdx, rcx, r8, r9: arguments 0 to 5
//   -56, -64  rax, r10
// Below these lie xmm0 to xmm7, at a multiple of 16. In lazy_call the return address is at 16, and the
// arguments that the caller passed on the stack begin at 24. In a watched call the function to call is
// at 16, the return address at 24, and the stack arguments begin at 32.

#include "intercept/function.inc"

// Saves all registers in which arguments may arrive. On entry rsp is 8 mod 16 (after `pushq %rbp`).
.macro SAVE_ARGUMENTS
    movq %rsp, %rbp
    pushq %rdi
    pushq %rsi
    pushq %rdx
    pushq %rcx
    pushq %r8
    pushq %r9
    pushq %rax
    pushq %r10
    subq $128, %rsp
    andq $-16, %rsp
    movaps %xmm0, (%rsp)
    movaps %xmm1, 16(%rsp)
    movaps %xmm2, 32(%rsp)
    movaps %xmm3, 48(%rsp)
    movaps %xmm4, 64(%rsp)
    movaps %xmm5, 80(%rsp)
    movaps %xmm6, 96(%rsp)
    movaps %xmm7, 112(%rsp)
.endm

.macro RESTORE_ARGUMENTS
    movaps (%rsp), %xmm0
    movaps 16(%rsp), %xmm1
    movaps 32(%rsp), %xmm2
    movaps 48(%rsp), %xmm3
    movaps 64(%rsp), %xmm4
    movaps 80(%rsp), %xmm5
    movaps 96(%rsp), %xmm6
    movaps 112(%rsp), %xmm7
    leaq -64(%rbp), %rsp
    popq %r10
    popq %rax
    popq %r9
    popq %r8
    popq %rcx
    popq %rdx
    popq %rsi
    popq %rdi
.endm

    .text

// Where a stub leads at its first call. The return address lies above the call's index on the stack.
// Finds the driver's function, by opening the driver if need be, and jumps to it.
    .hidden cupola_lazy_call
FUNCTION cupola_lazy_call
    .cfi_adjust_cfa_offset 8
    pushq %rbp
    .cfi_adjust_cfa_offset 8
    .cfi_offset %rbp, -24
    SAVE_ARGUMENTS
    .cfi_def_cfa_register %rbp
    movq 8(%rbp), %rdi
    call cupola_resolve_call
    movq %rax, %r11
    RESTORE_ARGUMENTS
    popq %rbp
    .cfi_def_cfa %rsp, 16
    leaq 8(%rsp), %rsp
    .cfi_adjust_cfa_offset -8
    jmp *%r11
END cupola_lazy_call

// Where the stubs of waiting and stream-ordered calls lead while `cupola_watched` says so
// (generate/stubs.py). The stack holds the call's index, then the function to call, then the return
// address.
//
// `enter`, a function of calls/dispatch.cpp, gets the call's index, the address of argument 0 and the
// address of kCallBytes in this frame. It returns whether something is to be done after the call too. If
// so the call is made from here, with the registers as they came and a copy of those words of the stack in
// which arguments were passed (cupola_stack_words in process/stack_words.cpp tells how many). Then
// cupola_leave_call does what is left, as `enter` has noted it in the kCallBytes. Else this leaves by a
// jump to the function, with everything as the program passed it.
.set kCallBytes, 192

.macro WATCHED_CALL name, enter
    .hidden \name
FUNCTION \name
    .cfi_adjust_cfa_offset 16
    pushq %rbp
    .cfi_adjust_cfa_offset 8
    .cfi_offset %rbp, -32
    SAVE_ARGUMENTS
    .cfi_def_cfa_register %rbp
    subq $kCallBytes, %rsp
    movq 8(%rbp), %rdi
    leaq -8(%rbp), %rsi
    movq %rsp, %rdx
    call \enter
    testq %rax, %rax
    je .Lunwatched\@
    movzwl 8(%rbp), %eax                // the call's index
    leaq cupola_stack_words(%rip), %r11
    movzbl (%r11,%rax), %eax
    movaps kCallBytes+0(%rsp), %xmm0
    movaps kCallBytes+16(%rsp), %xmm1
    movaps kCallBytes+32(%rsp), %xmm2
    movaps kCallBytes+48(%rsp), %xmm3
    movaps kCallBytes+64(%rsp), %xmm4
    movaps kCallBytes+80(%rsp), %xmm5
    movaps kCallBytes+96(%rsp), %xmm6
    movaps kCallBytes+112(%rsp), %xmm7
    leal 1(%rax), %r11d
    andl $-2, %r11d                     // rsp stays a multiple of 16
    shll $3, %r11d
    subq %r11, %rsp
    testl %eax, %eax
    je .Lpassed\@
.Lword\@:
    decl %eax
    movq 32(%rbp,%rax,8), %r11
    movq %r11, (%rsp,%rax,8)
    jne .Lword\@
.Lpassed\@:
    movq -8(%rbp), %rdi
    movq -16(%rbp), %rsi
    movq -24(%rbp), %rdx
    movq -32(%rbp), %rcx
    movq -40(%rbp), %r8
    movq -48(%rbp), %r9
    call *16(%rbp)
    movq %rax, 8(%rbp)
    movl %eax, %edi
    call cupola_leave_call
    movq 8(%rbp), %rax
    movq %rbp, %rsp
    popq %rbp
    .cfi_remember_state
    .cfi_def_cfa %rsp, 24
    leaq 16(%rsp), %rsp
    .cfi_adjust_cfa_offset -16
    ret
    .cfi_restore_state
.Lunwatched\@:
    addq $kCallBytes, %rsp
    RESTORE_ARGUMENTS
    popq %rbp
    .cfi_def_cfa %rsp, 24
    movq 8(%rsp), %r11
    leaq 16(%rsp), %rsp
    .cfi_adjust_cfa_offset -16
    jmp *%r11
END \name
.endm

WATCHED_CALL cupola_stream_ordered_call, cupola_enter_stream_ordered
WATCHED_CALL cupola_may_wait_call, cupola_enter_may_wait

    .section .note.GNU-stack,"",@progbits
