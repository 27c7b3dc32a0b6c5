#include "device/compiler/fatbin/cubin.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "device/compiler/fatbin/elf_file.h"

namespace cupola::fatbin {
namespace {

constexpr uint16_t kMachineCuda = 190;     // EM_CUDA
constexpr uint8_t kOsAbiCuda12 = 0x33;     // EI_OSABI up to CUDA 12; 0x41 since CUDA 13
constexpr uint8_t kSymbolIsKernel = 0x10;  // in st_other of a function symbol
// From sm_90 on, a linked kernel's shared memory starts with a part that the system reserves. The
// section .nv.shared.reserved.0 exists when sizes include it.
constexpr uint64_t kReservedSharedBytes = 1024;

// Attributes of .nv.info records. They were checked against ptxas -v (docs/formats.md).
enum Attribute : uint8_t {
  kMaxThreads = 0x05,
  kRequiredThreads = 0x10,
  kFrameSize = 0x11,
  kMinStackSize = 0x12,
  kParamInfo = 0x17,
  kParamBytes = 0x19,
  kRegisterCount = 0x2f,
  kMbarrierCount = 0x38,
  kClusterExtents = 0x3d,
  kWideParamInfo = 0x45,  // replaces kParamInfo where a parameter has 16 KiB or more
  kExplicitCluster = 0x3e,
  kBarrierCount = 0x4c,
};

struct Record {
  uint8_t attribute;
  uint16_t value;  // formats 1 to 3: stands in place of the size
  Bytes payload;   // format 4
};

class Reader {
 public:
  explicit Reader(const ElfFile& elf) : elf_(elf), info_budget_(elf.bytes().size()) {
    for (const ElfSection& section : elf.sections()) sections_.emplace(section.name, &section);
  }

  Cubin Read() {
    const GElf_Ehdr& header = elf_.header();
    const bool old_style = header.e_ident[EI_OSABI] == kOsAbiCuda12;
    cubin_.style = old_style ? 12 : 13;
    cubin_.arch = old_style ? header.e_flags & 0xff : (header.e_flags >> 8) & 0xff;
    cubin_.relocatable = header.e_type == ET_REL;
    for (const ElfSection& section : elf_.sections()) {
      if (section.cut && IsRead(section.name)) {
        Damage(section.header.sh_offset, "section " + std::string(section.name) + " is cut off");
      }
    }
    const uint64_t segments = uint64_t{header.e_phnum} * sizeof(Elf64_Phdr);
    if (!SliceAt(elf_.bytes(), header.e_phoff, segments)) {
      Damage(header.e_phoff, "the program headers lie beyond the end of the cubin");
    }
    ReadSymbols();
    ReadModuleInfo();
    for (CubinKernel& kernel : cubin_.kernels) ReadKernel(kernel);
    return std::move(cubin_);
  }

 private:
  void Damage(uint64_t offset, std::string message) {
    Location where;
    where.offset = offset;
    cubin_.damages.push_back(MakeError(ErrorCode::kDamaged, std::move(message), std::move(where)));
  }

  // Only these sections matter: some debug sections have no contents although their type does not
  // say so.
  static bool IsRead(std::string_view name) {
    return name.starts_with(".nv.info") || name.starts_with(".text.") || name == ".symtab" ||
           name == ".strtab";
  }

  const ElfSection* Find(const std::string& name) const {
    const auto at = sections_.find(name);
    return at == sections_.end() ? nullptr : at->second;
  }

  void ReadSymbols() {
    const ElfSection* table = Find(".symtab");
    if (table == nullptr) return;
    const uint64_t count = table->contents.size() / sizeof(Elf64_Sym);
    for (uint64_t i = 1; i < count; ++i) {
      const auto symbol = ReadAt<Elf64_Sym>(table->contents, i * sizeof(Elf64_Sym));
      if (symbol->st_shndx == SHN_UNDEF || symbol->st_shndx >= elf_.sections().size()) continue;
      const int type = ELF64_ST_TYPE(symbol->st_info);
      const std::string_view name = elf_.String(table->header.sh_link, symbol->st_name);
      if (name.empty()) continue;
      if (type == STT_FUNC && (symbol->st_other & kSymbolIsKernel) != 0) {
        if (!kernel_names_.insert(name).second) continue;
        kernel_of_symbol_.emplace(static_cast<uint32_t>(i), cubin_.kernels.size());
        cubin_.kernels.push_back(
            CubinKernel{.name = std::string(name), .code_bytes = symbol->st_size});
      }
    }
  }

  // Calls visit(record) for each record of an info section.
  template <typename Visit>
  void ForEachRecord(const ElfSection& section, const Visit& visit) {
    if (section.contents.size() > info_budget_) {
      if (info_budget_ != 0) Damage(section.header.sh_offset, "sections of information overlap");
      info_budget_ = 0;
      return;
    }
    info_budget_ -= section.contents.size();
    uint64_t at = 0;
    while (at < section.contents.size()) {
      const auto format = ReadAt<uint8_t>(section.contents, at);
      const auto attribute = ReadAt<uint8_t>(section.contents, at + 1);
      const auto value = ReadAt<uint16_t>(section.contents, at + 2);
      if (!value || *format < 1 || *format > 4) {
        Damage(section.header.sh_offset + at,
               "a record of " + std::string(section.name) + " is damaged");
        return;
      }
      at += 4;
      Record record{*attribute, *value, {}};
      if (*format == 4) {
        const auto payload = SliceAt(section.contents, at, *value);
        if (!payload) {
          Damage(section.header.sh_offset + at - 4,
                 "a record of " + std::string(section.name) + " goes beyond its section");
          return;
        }
        record.payload = *payload;
        at += *value;
      }
      visit(record);
    }
  }

  // .nv.info: records about a function, which is named by the index of its symbol.
  void ReadModuleInfo() {
    const ElfSection* section = Find(".nv.info");
    if (section == nullptr) return;
    ForEachRecord(*section, [this](const Record& record) {
      const auto symbol = ReadAt<uint32_t>(record.payload, 0);
      const auto value = ReadAt<uint32_t>(record.payload, 4);
      if (!value) return;
      const auto at = kernel_of_symbol_.find(*symbol);
      if (at == kernel_of_symbol_.end()) return;
      CubinKernel& kernel = cubin_.kernels[at->second];
      if (record.attribute == kRegisterCount) kernel.registers = *value;
      if (record.attribute == kFrameSize) kernel.frame_bytes = *value;
      if (record.attribute == kMinStackSize) kernel.stack_bytes = *value;
    });
  }

  static std::optional<Extents> ExtentsOf(const Record& record) {
    const auto x = ReadAt<uint32_t>(record.payload, 0);
    const auto y = ReadAt<uint32_t>(record.payload, 4);
    const auto z = ReadAt<uint32_t>(record.payload, 8);
    if (!z) return std::nullopt;
    return Extents{*x, *y, *z};
  }

  static void AddParam(const Record& record, CubinKernel& kernel) {
    const auto ordinal = ReadAt<uint16_t>(record.payload, 4);
    const auto offset = ReadAt<uint16_t>(record.payload, 6);
    const auto word = ReadAt<uint32_t>(record.payload, 8);
    if (word) kernel.params.push_back({*ordinal, *offset, *word >> 18});
  }

  static void AddWideParam(const Record& record, CubinKernel& kernel) {
    const auto ordinal = ReadAt<uint16_t>(record.payload, 4);
    const auto offset = ReadAt<uint16_t>(record.payload, 6);
    const auto size = ReadAt<uint16_t>(record.payload, 8);
    if (size) kernel.params.push_back({*ordinal, *offset, *size});
  }

  void ReadKernelRecord(const Record& record, CubinKernel& kernel) {
    switch (record.attribute) {
      case kMaxThreads:
        kernel.max_threads = ExtentsOf(record);
        break;
      case kRequiredThreads:
        kernel.required_threads = ExtentsOf(record);
        break;
      case kClusterExtents:
        kernel.cluster = ExtentsOf(record);
        break;
      case kExplicitCluster:
        kernel.explicit_cluster = true;
        break;
      case kParamInfo:
        AddParam(record, kernel);
        break;
      case kWideParamInfo:
        AddWideParam(record, kernel);
        break;
      case kParamBytes:
        kernel.param_bytes = record.value;
        break;
      case kBarrierCount:
        kernel.barriers = record.value & 0xff;
        break;
      case kMbarrierCount:
        kernel.mbarriers = record.value;
        break;
      default:
        break;
    }
  }

  void ReadKernel(CubinKernel& kernel) {
    const ElfSection* text = Find(".text." + kernel.name);
    if (text != nullptr) {
      const uint32_t in_header = static_cast<uint32_t>(text->header.sh_info) >> 24;
      if (kernel.registers == 0) kernel.registers = in_header;
      kernel.code_bytes = text->header.sh_size;
      // CUDA 11 and before: bits 20 to 26 of the section's flags hold the barriers.
      kernel.barriers = static_cast<uint32_t>(text->header.sh_flags >> 20) & 0x7f;
    }
    if (const ElfSection* shared = Find(".nv.shared." + kernel.name)) {
      kernel.shared_bytes = shared->header.sh_size;
      const bool reserved = Find(".nv.shared.reserved.0") != nullptr && !cubin_.relocatable;
      if (reserved && kernel.shared_bytes >= kReservedSharedBytes) {
        kernel.shared_bytes -= kReservedSharedBytes;
      }
    }
    if (const ElfSection* info = Find(".nv.info." + kernel.name)) {
      ForEachRecord(*info, [&](const Record& record) { ReadKernelRecord(record, kernel); });
    }
    std::sort(kernel.params.begin(), kernel.params.end(),
              [](const CubinParam& a, const CubinParam& b) { return a.ordinal < b.ordinal; });
  }

  const ElfFile& elf_;
  uint64_t info_budget_;  // sections do not overlap, so all records together are no more than this
  std::unordered_map<std::string_view, const ElfSection*> sections_;
  std::unordered_map<uint32_t, size_t> kernel_of_symbol_;
  std::unordered_set<std::string_view> kernel_names_;
  Cubin cubin_;
};

}  // namespace

Result<Cubin> ReadCubin(Bytes bytes) {
  Result<ElfFile> elf = ElfFile::Open(bytes);
  if (!elf) return elf.error();
  if (elf->header().e_machine != kMachineCuda) {
    return MakeError(ErrorCode::kUnsupported, "an ELF, but not one of CUDA device code");
  }
  return Reader(*elf).Read();
}

}  // namespace cupola::fatbin
