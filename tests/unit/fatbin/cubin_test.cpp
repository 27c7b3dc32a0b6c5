#include "device/compiler/fatbin/cubin.h"

#include <gtest/gtest.h>

#include <map>
#include <sstream>

#include "base/prng.h"
#include "device/compiler/fatbin/mapped_file.h"
#include "tests/unit/fatbin/nvcc_fixture.h"

namespace cupola::fatbin {
namespace {

using CubinOf = NvccTest;

// What ptxas -v says about one kernel.
struct Told {
  uint32_t registers = 0, barriers = 0, frame = 0;
  uint64_t shared = 0;
};

uint64_t NumberBefore(const std::string& line, const std::string& words) {
  const size_t at = line.find(words);
  if (at == std::string::npos) return 0;
  size_t start = at;
  while (start > 0 && std::isdigit(static_cast<unsigned char>(line[start - 1]))) --start;
  return std::stoull(line.substr(start, at - start));
}

std::map<std::string, Told> ParseVerbose(const std::string& text) {
  std::map<std::string, Told> all;
  std::istringstream lines(text);
  Told* kernel = nullptr;
  for (std::string line; std::getline(lines, line);) {
    if (const size_t at = line.find("Compiling entry function '"); at != std::string::npos) {
      const size_t start = at + 26;
      kernel = &all[line.substr(start, line.find('\'', start) - start)];
    }
    if (kernel == nullptr) continue;
    if (line.find(" bytes stack frame") != std::string::npos) {
      kernel->frame = static_cast<uint32_t>(NumberBefore(line, " bytes stack frame"));
    }
    if (line.find("Used ") != std::string::npos) {
      kernel->registers = static_cast<uint32_t>(NumberBefore(line, " registers"));
      kernel->barriers = static_cast<uint32_t>(NumberBefore(line, " barriers"));
      kernel->shared = NumberBefore(line, " bytes smem");
    }
  }
  return all;
}

TEST_F(CubinOf, EveryArchitectureAgreesWithPtxas) {
  for (const char* arch : {"75", "80", "90", "100", "120"}) {
    const std::string path = Path(std::string(arch) + ".cubin");
    const auto told =
        ParseVerbose(CompileSample("-cubin -Xptxas -v -arch=sm_" + std::string(arch), path));
    ASSERT_EQ(told.size(), 3u);
    const Result<MappedFile> file = MappedFile::Open(path);
    const Result<Cubin> cubin = ReadCubin(file->bytes());
    ASSERT_TRUE(cubin.ok()) << cubin.error().ToString();
    EXPECT_EQ(std::to_string(cubin->arch), arch);
    EXPECT_TRUE(cubin->damages.empty());
    ASSERT_EQ(cubin->kernels.size(), told.size());
    for (const CubinKernel& kernel : cubin->kernels) {
      const Told& expected = told.at(kernel.name);
      EXPECT_EQ(kernel.registers, expected.registers) << arch << " " << kernel.name;
      EXPECT_EQ(kernel.shared_bytes, expected.shared) << arch << " " << kernel.name;
      EXPECT_EQ(kernel.frame_bytes, expected.frame) << arch << " " << kernel.name;
      EXPECT_EQ(kernel.barriers, expected.barriers) << arch << " " << kernel.name;
    }
  }
}

TEST_F(CubinOf, ParametersAndBounds) {
  CompileSample("-cubin -arch=sm_90", Path("a.cubin"));
  const Result<MappedFile> file = MappedFile::Open(Path("a.cubin"));
  const Result<Cubin> cubin = ReadCubin(file->bytes());
  ASSERT_TRUE(cubin.ok());
  std::map<std::string, CubinKernel> kernels;
  for (const CubinKernel& kernel : cubin->kernels) kernels[kernel.name] = kernel;
  const CubinKernel& plain = kernels.at("plain");
  EXPECT_EQ(plain.max_threads, (Extents{128, 1, 1}));
  EXPECT_EQ(plain.param_bytes, 12u);
  const CubinKernel& sum = kernels.at("_Z10shared_sumPKfPf3Bigcd");
  EXPECT_EQ(sum.param_bytes, 192u);
  EXPECT_EQ(sum.barriers, 1u);
  ASSERT_EQ(sum.params.size(), 5u);
  const uint32_t offsets[] = {0, 8, 16, 176, 184};
  const uint32_t sizes[] = {8, 8, 160, 1, 8};
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(sum.params[i].ordinal, i);
    EXPECT_EQ(sum.params[i].offset, offsets[i]);
    EXPECT_EQ(sum.params[i].size, sizes[i]);
  }
}

TEST_F(CubinOf, RelocatableUnitsAndClusters) {
  const std::string source =
      WriteSource("unit.cu",
                  "extern __device__ int helper(int);\n"
                  "__global__ void __cluster_dims__(2, 1, 1) plain(int* p) {\n"
                  "  __shared__ int s[32];\n  s[threadIdx.x] = helper(*p);\n  __syncthreads();\n"
                  "  *p = s[31 - threadIdx.x];\n}\n");
  Nvcc("-rdc=true -cubin -arch=sm_90 '" + source + "' -o '" + Path("unit.cubin") + "'");
  const Result<MappedFile> file = MappedFile::Open(Path("unit.cubin"));
  const Result<Cubin> cubin = ReadCubin(file->bytes());
  ASSERT_TRUE(cubin.ok());
  EXPECT_TRUE(cubin->relocatable);
  ASSERT_EQ(cubin->kernels.size(), 1u);
  EXPECT_EQ(cubin->kernels[0].shared_bytes, 128u);
  EXPECT_TRUE(cubin->kernels[0].explicit_cluster);
  EXPECT_EQ(cubin->kernels[0].cluster, (Extents{2, 1, 1}));
}

TEST_F(CubinOf, DamagedInputIsNeverACrash) {
  CompileSample("-cubin -arch=sm_90", Path("a.cubin"));
  const Result<MappedFile> file = MappedFile::Open(Path("a.cubin"));
  const std::vector<uint8_t> whole(file->bytes().begin(), file->bytes().end());
  for (size_t size = 0; size < whole.size(); size += 61) {
    const std::vector<uint8_t> cut(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(size));
    EXPECT_FALSE(ReadCubin(cut).ok() && ReadCubin(cut)->damages.empty()) << "cut to " << size;
  }
  Prng prng(11);
  for (int round = 0; round < 1500; ++round) {
    std::vector<uint8_t> bytes = whole;
    for (int i = 0; i < 3; ++i)
      bytes[prng.Next() % bytes.size()] = static_cast<uint8_t>(prng.Next());
    // The headers are where a flip matters most.
    bytes[prng.Next() % 64] ^= static_cast<uint8_t>(1u << (prng.Next() % 8));
    (void)ReadCubin(bytes);
  }
}

TEST(CubinPlain, RefusesOtherFiles) {
  const Result<MappedFile> self = MappedFile::Open("/proc/self/exe");
  EXPECT_EQ(ReadCubin(self->bytes()).error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(ReadCubin({}).error().code, ErrorCode::kDamaged);
}

}  // namespace
}  // namespace cupola::fatbin
