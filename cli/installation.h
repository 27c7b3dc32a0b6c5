// Where Cupola's own files lie, and which CUDA driver a program is to run on. Looks at files only:
// never loads a driver (cuInit alone costs hundreds of ms). Any thread.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace cupola {

/// Cupola's libraries, as absolute paths.
struct Installation {
  std::string preload;     ///< libcupola.so
  std::string front_folder;  ///< holds Cupola's own libcuda.so.1, which takes the driver's place
  std::string sim_folder;  ///< holds the simulated libcuda.so.1 and libcudart.so.13; "" = none
};

/// Looks below `home` (the value of CUPOLA_HOME) when it is not empty, else around the running
/// executable: lib/libcupola.so or lib/cupola/libcupola.so of the same prefix, and libcupola/libcuda.so.1 beside
/// it. kNotFound.
Result<Installation> FindInstallation(const std::string& home);

/// Where FindDriver looks, in this order, as the dynamic loader does.
struct DriverPlaces {
  std::string named;                 ///< value of CUPOLA_DRIVER; when set, the only place
  std::string library_path;          ///< value of LD_LIBRARY_PATH
  std::string cache_file;            ///< /etc/ld.so.cache
  std::vector<std::string> folders;  ///< that container runtimes and distributions use
};

/// The places of this machine, with CUPOLA_DRIVER and LD_LIBRARY_PATH as this process has them.
DriverPlaces DefaultDriverPlaces();

/// The absolute path of the real driver, libcuda.so.1. Passes over files for other machines, the
/// toolkit's link stubs and whatever belongs to `installation`. kNotFound says where it looked.
Result<std::string> FindDriver(const DriverPlaces& places, const Installation& installation);

/// The entries for `soname` in the text of an ld.so.cache (glibc's format 1.1, glibc
/// sysdeps/generic/dl-cache.h). Empty for anything that is damaged or of another format.
std::vector<std::string> LoaderCacheEntries(const std::string& cache, const std::string& soname);

/// Whether the file is an ELF object for x86-64 that has all that its headers speak of: what is cut short ends the
/// program that loads it by a signal.
bool IsWholeObject(const std::string& path);

/// The driver that a program gets.
struct DeviceChoice {
  std::string driver;  ///< absolute path of a libcuda.so.1
  bool simulated = false;
};

/// Chooses for `device`: "gpu", "sim", or "auto" = a GPU where a driver and a device file are
/// found, or CUPOLA_DRIVER names a driver, else the simulated device. kNotFound: one sentence with
/// what to do.
Result<DeviceChoice> ChooseDevice(const std::string& device, const DriverPlaces& places,
                                  const Installation& installation);

}  // namespace cupola
