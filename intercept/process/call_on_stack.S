// void cupola_call_on_stack(void* top, void (*work)(void*), void* data): calls work(data) with the stack pointer
// at `top`, which is a multiple of 16. x86-64 System V ABI. For own_stack.cpp.
    .text
    .globl cupola_call_on_stack
    .hidden cupola_call_on_stack
    .type cupola_call_on_stack,@function
    .p2align 4
cupola_call_on_stack:
    .cfi_startproc
    endbr64
    pushq %rbp
    .cfi_adjust_cfa_offset 8
    .cfi_offset %rbp, -16
    movq %rsp, %rbp
    .cfi_def_cfa_register %rbp
    movq %rdi, %rsp
    movq %rdx, %rdi
    call *%rsi
    movq %rbp, %rsp
    popq %rbp
    .cfi_def_cfa %rsp, 8
    ret
    .cfi_endproc
    .size cupola_call_on_stack,.-cupola_call_on_stack
    .section .note.GNU-stack,"",@progbits
