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
