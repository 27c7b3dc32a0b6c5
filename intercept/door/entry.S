// The interposed dlopen and dlsym. Both leave by a jump to the next definition, so that the dynamic linker
// sees the program as the caller: it decides by the return address whose RUNPATH, whose $ORIGIN and which
// RTLD_NEXT apply. x86-64 System V ABI; neither has floating-point arguments.

#include "intercept/function.inc"

// Saves the three registers that hold or may hold arguments; after it rsp is a multiple of 16.
.macro KEEP_ARGUMENTS
    pushq %rdi
    .cfi_adjust_cfa_offset 8
    pushq %rsi
    .cfi_adjust_cfa_offset 8
    pushq %rdx
    .cfi_adjust_cfa_offset 8
.endm

.macro TAKE_ARGUMENTS_BACK
    popq %rdx
    .cfi_adjust_cfa_offset -8
    popq %rsi
    .cfi_adjust_cfa_offset -8
    popq %rdi
    .cfi_adjust_cfa_offset -8
.endm

    .text

// void* dlopen(const char* file, int mode)
FUNCTION dlopen
    KEEP_ARGUMENTS
    movq 24(%rsp), %rdx                 // the caller's return address
    call cupola_dlopen_name             // (file, mode, caller) -> file to open
    movq %rax, 16(%rsp)                 // becomes rdi
    TAKE_ARGUMENTS_BACK
    jmp *cupola_next_dlopen(%rip)
END dlopen

// void* dlsym(void* handle, const char* name). The slow way is for the first call, for the library's own handle, and for
// names that begin as those of compile calls do (compile_calls.h).
FUNCTION dlsym
    movq cupola_next_dlsym(%rip), %r11
    testq %r11, %r11
    je .Lslow
    cmpq cupola_own_handle(%rip), %rdi
    je .Lslow
    testq %rsi, %rsi
    je .Lon
    cmpb $'n', (%rsi)
    je .Lslow
    cmpb $'_', (%rsi)
    je .Lslow
.Lon:
    jmp *%r11
.Lslow:
    KEEP_ARGUMENTS
    call cupola_dlsym_answer            // (handle, name) -> rax: handle to search, rdx: the answer itself, or null
    testq %rdx, %rdx
    jne .Lanswered
    movq %rax, 16(%rsp)
    TAKE_ARGUMENTS_BACK
    jmp *cupola_next_dlsym(%rip)
.Lanswered:
    .cfi_adjust_cfa_offset 24
    movq %rdx, %rax
    addq $24, %rsp
    .cfi_adjust_cfa_offset -24
    ret
END dlsym

    .section .note.GNU-stack,"",@progbits
