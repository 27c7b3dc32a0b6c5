// The inputs of the eight programs, calibrated so that each kernel alone on an H200 takes about
// `target_us`: the times of table 1 of FLEP (ASPLOS 2017, section 6.1), a K40 there. To calibrate
// for another GPU: tests/bench/flep_calibrate.py --write.
#pragma once

struct Input {
  const char* program;
  const char* input;
  double target_us;
  long size;  // in the program's own unit: elements, records, columns, particles, ...
};

// clang-format off: one row a line
constexpr Input kInputs[] = {
    {"cfd", "large", 11106, 55000000},
    {"cfd", "small", 521, 2500000},
    {"cfd", "trivial", 81, 150000},
    {"nn", "large", 15775, 1100000000},
    {"nn", "small", 728, 50000000},
    {"nn", "trivial", 55, 1500000},
    {"pf", "large", 7364, 310000000},
    {"pf", "small", 811, 34000000},
    {"pf", "trivial", 57, 900000},
    {"pl", "large", 5419, 200000000},
    {"pl", "small", 952, 35000000},
    {"pl", "trivial", 83, 1200000},
    {"md", "large", 15905, 13000},
    {"md", "small", 938, 770},
    {"md", "trivial", 90, 30},
    {"spmv", "large", 5840, 2000000},
    {"spmv", "small", 484, 160000},
    {"spmv", "trivial", 68, 10000},
    {"mm", "large", 2579, 540},
    {"mm", "small", 1499, 310},
    {"mm", "trivial", 73, 9},
    {"va", "large", 30634, 8000000000},
    {"va", "small", 720, 190000000},
    {"va", "trivial", 49, 6000000},
};
// clang-format on
