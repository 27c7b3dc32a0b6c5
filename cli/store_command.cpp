#include <fmt/format.h>
#include <unistd.h>

#include <ctime>
#include <memory>
#include <string>

#include "cli/build_command.h"
#include "cli/commands.h"
#include "device/compiler/store/store_writer.h"

namespace cupola {
namespace {

constexpr char kStoreFooter[] =
    "\nExamples:\n"
    "  cupola store list                    bundles, least recently used first\n"
    "  cupola store evict --limit 500MiB    remove the least recently used beyond that size\n"
    "  cupola store clear                   remove all\n"
    "  cupola store path                    where it is: CUPOLA_STORE, else ~/.cache\n"
    "\nExit codes: 0 done, 1 the store cannot be read or written.\n";

store::StoreWriter Open() {
  RequireAbsolute("CUPOLA_STORE");
  Result<store::StoreWriter> writer =
      store::StoreWriter::Open(store::VariantStore::DefaultFolder());
  if (!writer) Fail(writer.error());
  return *std::move(writer);
}

std::string TimeText(int64_t seconds) {
  const std::time_t time = seconds;
  std::tm parts{};
  localtime_r(&time, &parts);
  char text[32];
  std::strftime(text, sizeof(text), "%F %H:%M", &parts);
  return text;
}

void List() {
  const store::StoreWriter writer = Open();
  const Result<std::vector<store::StoredBundle>> bundles = writer.List();
  if (!bundles) Fail(bundles.error());
  uint64_t total = 0;
  bool damaged = false;
  fmt::print("{:<16} {:>5} {:>8} {:>10}  {}\n", "USED", "ARCH", "KERNELS", "BYTES", "KEY");
  for (const store::StoredBundle& bundle : *bundles) {
    total += bundle.bytes;
    const Result<store::MappedBundle> mapped = writer.store().FindByKey(bundle.key);
    const std::string used = TimeText(bundle.used_s);
    if (!mapped) {
      PrintError(mapped.error());
      damaged = true;
      continue;
    }
    fmt::print("{:<16} {:>5} {:>8} {:>10}  {}\n", used,
               fmt::format("sm_{}", mapped->view().header().arch), mapped->view().kernels().size(),
               bundle.bytes, bundle.key);
  }
  fmt::print("{} bundles, {} bytes, in {}\n", bundles->size(), total,
             Printable(writer.store().folder()));
  if (damaged) throw CLI::RuntimeError(kExitBadInput);
}

void Evict(uint64_t limit) {
  const Result<store::Eviction> done = Open().Evict(limit);
  if (!done) Fail(done.error());
  fmt::print("{} bundles, {} bytes removed\n", done->bundles, done->bytes);
}

}  // namespace

void AddStoreCommand(CLI::App& app) {
  CLI::App* command = app.add_subcommand("store", "Show and trim the store of variants");
  command->require_subcommand(1);
  command->footer(kStoreFooter);
  command->add_subcommand("list", "List the bundles")->callback(List);
  command->add_subcommand("path", "Print the store's folder")->callback([] {
    RequireAbsolute("CUPOLA_STORE");
    const std::string folder = store::VariantStore::DefaultFolder();
    if (folder.empty()) {
      Fail(MakeError(ErrorCode::kNotFound, "no folder for variants: set CUPOLA_STORE or HOME"));
    }
    fmt::print("{}\n", isatty(STDOUT_FILENO) == 1 ? Printable(folder) : folder);
  });
  auto limit = std::make_shared<uint64_t>(store::kDefaultStoreLimit);
  CLI::App* evict = command->add_subcommand("evict", "Remove the least recently used bundles");
  evict->add_option("--limit", *limit, "Bytes that may stay (default: 4GiB)")
      ->transform(CLI::AsSizeValue(false));
  evict->callback([limit] { Evict(*limit); });
  command->add_subcommand("clear", "Remove all bundles")->callback([] { Evict(0); });
}

}  // namespace cupola
