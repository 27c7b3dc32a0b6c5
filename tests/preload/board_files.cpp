#include "tests/preload/board_files.h"

#include <filesystem>
#include <fstream>
#include <vector>

#include <gtest/gtest.h>

#include "device/compiler/store/bundle_writer.h"
#include "sched/board/board.h"

namespace cupola::preload_test {
namespace {

std::vector<char> Board() {
  std::vector<char> bytes(sched::kBoardBytes);
  auto* const header = reinterpret_cast<sched::BoardHeader*>(bytes.data());
  header->magic = sched::kBoardMagic;
  header->version = sched::kBoardVersion;
  header->slots = sched::kBoardSlots;
  auto* const slot = reinterpret_cast<sched::BoardSlot*>(bytes.data() + sched::kSlotsOffset);
  slot->state = static_cast<uint32_t>(sched::SlotState::kLive);
  slot->weight = 1;
  slot->gate = 1;
  return bytes;
}

std::vector<std::byte> Bundle(const std::string& kernel) {
  store::BundleWriter writer(90);
  store::BundleKernel with_variant;
  with_variant.name = kernel;
  with_variant.entry.flags = store::kPreemptible;
  writer.AddKernel(with_variant);
  writer.SetCode(store::ImageKind::kSide, {}, "// nothing that a null driver would read");
  auto bytes = writer.Finish();
  EXPECT_TRUE(bytes) << bytes.error().ToString();
  return *std::move(bytes);
}

template <typename Bytes>
void Write(const std::string& path, const Bytes& bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<long>(bytes.size()));
  EXPECT_TRUE(file.good()) << path;
}

}  // namespace

BoardFiles::BoardFiles(const std::string& kernel) {
  char pattern[] = "/tmp/cupola-board-files-XXXXXX";
  folder_ = mkdtemp(pattern);
  Write(folder_ + "/board", Board());
  Write(folder_ + "/bundle", Bundle(kernel));
}

BoardFiles::~BoardFiles() { std::filesystem::remove_all(folder_); }

bool BoardFiles::SawDemand() const {
  std::vector<char> bytes(sched::kBoardBytes);
  std::ifstream(folder_ + "/board", std::ios::binary)
      .read(bytes.data(), static_cast<long>(bytes.size()));
  return reinterpret_cast<const sched::BoardSlot*>(bytes.data() + sched::kSlotsOffset)->demand != 0;
}

std::map<std::string, std::string> BoardFiles::Environment(
    std::map<std::string, std::string> more) const {
  more["CUPOLA_BOARD"] = folder_ + "/board";
  more["CUPOLA_BUNDLE"] = folder_ + "/bundle";
  return more;
}

}  // namespace cupola::preload_test
