// Entry points that must not disturb what their caller passed: the first call of a forwarded driver
// function, and the interposed dlopen and dlsym. The latter two leave by a jump, so that glibc sees
// the program as the caller: it decides by the return address whose RUNPATH and which RTLD_NEXT
// apply. x86-64 System V ABI.

// Saves everything in which arguments may arrive. On entry rsp is 8 mod 16 (after `pushq %rbp`).
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

.macro FUNCTION name
    .globl \name
    .type \name,@function
    .p2align 4
\name:
    .cfi_startproc
    endbr64
.endm

.macro END name
    .cfi_endproc
    .size \name,.-\name
.endm

    .text

// The stack holds the call's index above the return address: find the real function, jump to it.
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

// Calls that may wait, and stream-ordered ones, while `cupola_watched` says that they are to be looked
// at (generate/stubs.py). The stack holds the call's index and the function to call above the return
// address.
.macro ENTER_WATCHED
    .cfi_adjust_cfa_offset 16
    pushq %rbp
    .cfi_adjust_cfa_offset 8
    .cfi_offset %rbp, -32
    SAVE_ARGUMENTS
    .cfi_def_cfa_register %rbp
.endm

// Leaves by a jump to the function, with everything as the program passed it.
.macro JUMP_WATCHED
    RESTORE_ARGUMENTS
    popq %rbp
    .cfi_def_cfa %rsp, 24
    movq 8(%rsp), %r11
    leaq 16(%rsp), %rsp
    .cfi_adjust_cfa_offset -16
    jmp *%r11
.endm

// Where `enter` says that something is to be done after the call too, it is made from here: with the
// registers as they came and a copy of 16 words of the stack. No driver call passes more (the most is
// 11 arguments).
.macro WATCHED_CALL name, enter
    .hidden \name
FUNCTION \name
    ENTER_WATCHED
    movq 8(%rbp), %rdi
    leaq -8(%rbp), %rsi
    call \enter
    testq %rax, %rax
    je .Lunwatched\@
    RESTORE_ARGUMENTS
    subq $128, %rsp
    movups 32(%rbp), %xmm8
    movups 48(%rbp), %xmm9
    movups 64(%rbp), %xmm10
    movups 80(%rbp), %xmm11
    movups 96(%rbp), %xmm12
    movups 112(%rbp), %xmm13
    movups 128(%rbp), %xmm14
    movups 144(%rbp), %xmm15
    movaps %xmm8, (%rsp)
    movaps %xmm9, 16(%rsp)
    movaps %xmm10, 32(%rsp)
    movaps %xmm11, 48(%rsp)
    movaps %xmm12, 64(%rsp)
    movaps %xmm13, 80(%rsp)
    movaps %xmm14, 96(%rsp)
    movaps %xmm15, 112(%rsp)
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
    JUMP_WATCHED
END \name
.endm

WATCHED_CALL cupola_stream_ordered_call, cupola_enter_stream_ordered
WATCHED_CALL cupola_may_wait_call, cupola_enter_may_wait

// void* dlopen(const char* file, int mode)
FUNCTION dlopen
    pushq %rbp
    .cfi_adjust_cfa_offset 8
    .cfi_offset %rbp, -16
    SAVE_ARGUMENTS
    .cfi_def_cfa_register %rbp
    movq 8(%rbp), %rsi                  // the caller's return address
    call cupola_dlopen_name             // (file, caller) -> file to open
    movq %rax, -8(%rbp)                 // becomes rdi
    RESTORE_ARGUMENTS
    popq %rbp
    .cfi_def_cfa %rsp, 8
    jmp *cupola_real_dlopen(%rip)
END dlopen

// void* dlsym(void* handle, const char* name). Only our own handle takes the slow way.
FUNCTION dlsym
    movq cupola_real_dlsym(%rip), %r11
    testq %r11, %r11
    je .Lslow
    cmpq cupola_own_handle(%rip), %rdi
    je .Lslow
    jmp *%r11
.Lslow:
    pushq %rbp
    .cfi_adjust_cfa_offset 8
    .cfi_offset %rbp, -16
    SAVE_ARGUMENTS
    .cfi_def_cfa_register %rbp
    call cupola_dlsym_handle            // (handle, name) -> handle to search
    movq %rax, -8(%rbp)
    RESTORE_ARGUMENTS
    popq %rbp
    .cfi_def_cfa %rsp, 8
    jmp *cupola_real_dlsym(%rip)
END dlsym

    .section .note.GNU-stack,"",@progbits
