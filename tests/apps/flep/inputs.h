// The inputs of the eight programs, calibrated so that each kernel alone takes about `target_us`: the
// times of table 1 of FLEP (ASPLOS 2017, section 6.1), a K40 there. Sizes are of an H200; what is
// bound by memory has others on an H100, which has as many SMs and two thirds of the bandwidth. To
// calibrate for another GPU: tests/bench/flep_calibrate.py --write.
#pragma once

struct Input {
  const char* program;
  const char* input;
  double target_us;
  long size;           // in the program's own unit: elements, records, columns, particles, ...
  long h100_size = 0;  // 0: the same
};

// One row a line.
// clang-format off
constexpr Input kInputs[] = {
    {"cfd", "large", 11106, 41247994},
    {"cfd", "small", 521, 1859782},
    {"cfd", "trivial", 81, 130508},
    {"nn", "large", 15775, 2298885142},
    {"nn", "small", 728, 104520812},
    {"nn", "trivial", 55, 5237774, 4988875},
    {"pf", "large", 7364, 181073840, 173411699},
    {"pf", "small", 811, 19786165, 18925710},
    {"pf", "trivial", 57, 914721, 887948},
    {"pl", "large", 5419, 93854216},
    {"pl", "small", 952, 16421688},
    {"pl", "trivial", 83, 894159, 886224},
    {"md", "large", 15905, 9581},
    {"md", "small", 938, 567},
    {"md", "trivial", 90, 23},
    {"spmv", "large", 5840, 1382374, 995446},
    {"spmv", "small", 484, 113084, 81104},
    {"spmv", "trivial", 68, 13866, 10299},
    {"mm", "large", 2579, 622},
    {"mm", "small", 1499, 360},
    {"mm", "trivial", 73, 11},
    {"va", "large", 30634, 8761700000, 7153544388},
    {"va", "small", 720, 205000000, 167143789},
    {"va", "trivial", 49, 7294051, 6504960},
};
// clang-format on
