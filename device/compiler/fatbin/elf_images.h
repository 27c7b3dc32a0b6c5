// Finds every device image of a file: of an ELF program, shared object or relocatable object (in
// any allocated section), of a bare fatbin, a bare cubin or PTX text. Pure; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "device/compiler/fatbin/container.h"
#include "device/compiler/fatbin/mapped_file.h"

namespace cupola::fatbin {

/// The form of a file.
enum class FileForm : uint8_t { kElf, kContainer, kCubin, kPtxText };

/// The words for a form ("ELF file", "fatbin", "cubin", "PTX text").
const char* ToString(FileForm form);

/// Where a container lies.
struct ContainerPlace {
  uint64_t offset = 0;       ///< of its header, in bytes from the start of the file
  uint64_t size = 0;         ///< bytes, including its header
  uint64_t address = 0;      ///< virtual address in the ELF: its address at run time - load bias
  std::string section;       ///< ".nv_fatbin", "__nv_relfatbin" ...; empty outside an ELF
  bool is_unit = false;      ///< a -rdc unit: all units of the file must be linked together
  uint32_t first_image = 0;  ///< its images are [first_image, first_image + image_count)
  uint32_t image_count = 0;
};

/// The result of reading one file. Borrows from the file's bytes.
struct FileImages {
  FileForm form = FileForm::kElf;
  std::vector<ContainerPlace> containers;  ///< in the order of the file; none for bare images
  std::vector<Image> images;               ///< Image::container indexes `containers`
  std::vector<Error> damages;              ///< each with file and offset; earlier images stay good
  std::string build_id;                    ///< lower-case hex; empty where the ELF has none
};

/// Reads the images of `file`; `name` serves error locations. Decompresses nothing. Reads every
/// allocated section once, skipping from container to container. An ELF without device code gives
/// no images and no damages. Errors: kUnsupported for a file of another kind.
Result<FileImages> ReadImages(Bytes file, std::string_view name);

/// A file together with its images.
struct ImageFile {
  MappedFile file;
  FileImages images;
};

/// Maps the file and reads its images. Errors: as MappedFile::Open and ReadImages.
Result<ImageFile> OpenImageFile(const std::string& path);

}  // namespace cupola::fatbin
