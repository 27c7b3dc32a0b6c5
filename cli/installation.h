// Finds Cupola's own files, and the CUDA driver on which a program is to run. It only reads files and never loads
// a driver, because cuInit alone costs hundreds of milliseconds. The commands that start programs call it; any
// thread.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace cupola {

/// Cupola's libraries, as absolute paths.
struct Installation {
  std::string preload;       ///< libcupola.so
  std::string front_folder;  ///< the folder of Cupola's own libcuda.so.1, which takes the driver's place
  std::string sim_folder;  ///< that of the simulated libcuda.so.1 and libcudart.so.13; "": there is none
};

/// Looks below `home` (the value of CUPOLA_HOME) when it is not empty, else around the running executable, for
/// lib/libcupola.so or lib/cupola/libcupola.so of the same prefix, and for libcupola/libcuda.so.1 beside it.
/// Error: kNotFound.
Result<Installation> FindInstallation(const std::string& home);

/// The places in which FindDriver looks, in this order, as the dynamic loader does.
struct DriverPlaces {
  std::string named;                 ///< value of CUPOLA_DRIVER; when set, the only place
  std::string library_path;          ///< value of LD_LIBRARY_PATH
  std::string cache_file;            ///< /etc/ld.so.cache
  std::vector<std::string> folders;  ///< folders that container runtimes and distributions use
};

/// The places of this machine, with CUPOLA_DRIVER and LD_LIBRARY_PATH as this process has them.
DriverPlaces DefaultDriverPlaces();

/// The absolute path of the real driver, libcuda.so.1. Ignores files for other machines, the toolkit's link stubs
/// and files that belong to `installation`. Error: kNotFound, which says where it looked.
Result<std::string> FindDriver(const DriverPlaces& places, const Installation& installation);

/// The entries for `soname` in the text of an ld.so.cache (glibc's format 1.1, glibc
/// sysdeps/generic/dl-cache.h). Empty for a text that is damaged or of another format.
std::vector<std::string> LoaderCacheEntries(const std::string& cache, const std::string& soname);

/// Whether the file is an ELF object for x86-64 that has everything that its headers name. A file that is cut
/// short would end the program that loads it by a signal.
bool IsWholeObject(const std::string& path);

/// The driver that a program gets.
struct DeviceChoice {
  std::string driver;  ///< absolute path of a libcuda.so.1
  bool simulated = false;
};

/// Chooses the driver for `device`: "gpu", "sim" or "auto". "auto" takes a GPU where a driver and a device file are
/// found or CUPOLA_DRIVER names a driver, else the simulated device. Error: kNotFound, with a sentence that says
/// what to do.
Result<DeviceChoice> ChooseDevice(const std::string& device, const DriverPlaces& places,
                                  const Installation& installation);

}  // namespace cupola
