// A library that uses CUDA where the program has it.
#include <stdio.h>
extern int cudaMalloc(void**, unsigned long) __attribute__((weak));
extern int cuInit(unsigned) __attribute__((weak));
extern int cuLaunchKernel(void) __attribute__((weak));
void Look(void) {
  printf("library, weak cudaMalloc: %s\n", cudaMalloc ? "there" : "not there");
  printf("library, weak cuInit: %s\n", cuInit ? "there" : "not there");
  printf("library, weak cuLaunchKernel: %s\n", cuLaunchKernel ? "there" : "not there");
}
