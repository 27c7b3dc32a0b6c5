// Tells whether a file is a CUDA driver, by what it exports, since programs may have plug-ins of the driver's
// name. Called by door.cpp on the program's threads, when the program asks dlopen for a file of that name.
#pragma once

namespace cupola::intercept {

enum class ImageKind {
  kNone,    ///< no file, or not one that a program of this machine can load
  kOther,   ///< a shared object, but no driver
  kDriver,  ///< exports cuInit and cuDriverGetVersion
};

/// Looks at the file without loading it. Any thread; reads the file, so not for the launch path.
ImageKind KindOfImage(const char* path) noexcept;

}  // namespace cupola::intercept
