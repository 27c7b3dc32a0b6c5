// The worker of nvJitLink: a process that loads the library, compiles one PTX file and ends. The
// compiler in compiler.cpp starts the `cupola` program again with the hidden command
// `build-worker`, which calls RunJitLinkWorker, and reads what the worker prints. So a library that
// hangs or crashes does not take the build with it. nvJitLink API, CUDA 13.0.
#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdio>
#include <fstream>
#include <sstream>
#include <type_traits>

#include "device/compiler/build/compiler.h"

namespace cupola::build {
namespace {

using Handle = void*;
constexpr int kSuccess = 0;   // NVJITLINK_SUCCESS
constexpr int kInputPtx = 2;  // NVJITLINK_INPUT_PTX

// The entry points of one version of the library. Their names carry the version:
// __nvJitLinkCreate_13_0.
struct Library {
  int (*create)(Handle*, uint32_t, const char* const*) = nullptr;
  int (*add_data)(Handle, int, const void*, size_t, const char*) = nullptr;
  int (*complete)(Handle) = nullptr;
  int (*cubin_size)(Handle, size_t*) = nullptr;
  int (*cubin)(Handle, void*) = nullptr;
  int (*log_size)(Handle, size_t*) = nullptr;
  int (*log)(Handle, char*) = nullptr;
  int (*destroy)(Handle*) = nullptr;
  std::string version;  // of the names that were found: "13.0"

  // Finds the entry points of the newest version, 13.9 to 12.0, of which the library has all.
  // Returns false if there is none.
  bool Load(void* object) {
    for (int major = 13; major >= 12; --major) {
      for (int minor = 9; minor >= 0; --minor) {
        const std::string suffix = fmt::format("_{}_{}", major, minor);
        const auto find = [&](const char* name, auto& function) {
          function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(
              dlsym(object, (name + suffix).c_str()));
          return function != nullptr;
        };
        if (find("__nvJitLinkCreate", create) && find("__nvJitLinkAddData", add_data) &&
            find("__nvJitLinkComplete", complete) &&
            find("__nvJitLinkGetLinkedCubinSize", cubin_size) &&
            find("__nvJitLinkGetLinkedCubin", cubin) &&
            find("__nvJitLinkGetErrorLogSize", log_size) && find("__nvJitLinkGetErrorLog", log) &&
            find("__nvJitLinkDestroy", destroy)) {
          version = fmt::format("{}.{}", major, minor);
          return true;
        }
      }
    }
    return false;
  }

  std::string ErrorLog(Handle handle) const {
    size_t size = 0;
    if (log_size(handle, &size) != kSuccess || size == 0) return {};
    std::string text(size, '\0');
    if (log(handle, text.data()) != kSuccess) return {};
    text.resize(text.find('\0') == std::string::npos ? size : text.find('\0'));
    return text;
  }
};

// One use of the library for one PTX file. The destructor frees the library's handle.
class Linking {
 public:
  explicit Linking(const Library& library) : library_(library) {}
  ~Linking() {
    if (handle_ != nullptr) library_.destroy(&handle_);
  }
  Linking(const Linking&) = delete;
  Linking& operator=(const Linking&) = delete;

  // Links. Returns what is wrong; "": nothing is, and `cubin` has the code.
  std::string Run(const std::string& ptx, const std::vector<const char*>& options,
                  std::string& cubin) {
    const auto count = static_cast<uint32_t>(options.size());
    if (library_.create(&handle_, count, options.data()) != kSuccess) {
      return "error: nvJitLink does not know an option";
    }
    size_t size = 0;
    // The NUL at the end belongs to the input.
    if (library_.add_data(handle_, kInputPtx, ptx.c_str(), ptx.size() + 1, "module") != kSuccess ||
        library_.complete(handle_) != kSuccess || library_.cubin_size(handle_, &size) != kSuccess) {
      return library_.ErrorLog(handle_) + "\nerror: nvJitLink failed";
    }
    cubin.resize(size);
    return library_.cubin(handle_, cubin.data()) == kSuccess ? "" : "error: no cubin";
  }

 private:
  const Library& library_;
  Handle handle_ = nullptr;
};

// Prints a line for the process that started the worker. Returns `code`, the worker's exit code.
int Say(const std::string& text, int code) {
  std::fprintf(stdout, "%s\n", text.c_str());
  return code;
}

}  // namespace

int RunJitLinkWorker(const std::vector<std::string>& arguments) {
  if (arguments.empty()) return Say("error: no library", kWorkerFailed);
  void* object = dlopen(arguments[0].c_str(), RTLD_NOW | RTLD_LOCAL);
  if (object == nullptr) return Say(fmt::format("error: {}", dlerror()), kWorkerFailed);
  Library library;
  if (!library.Load(object)) return Say("error: not a known version of nvJitLink", kWorkerFailed);
  if (arguments.size() < 3) return Say(library.version, 0);
  std::ifstream in(arguments[1], std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();  // fails also where nothing could be read
  if (!in || !text) return Say("error: cannot read " + arguments[1], kWorkerFailed);
  const std::string ptx = text.str();
  std::vector<const char*> options;
  for (size_t i = 3; i < arguments.size(); ++i) options.push_back(arguments[i].c_str());
  std::string cubin;
  const std::string complaint = Linking(library).Run(ptx, options, cubin);
  if (!complaint.empty()) return Say(complaint, 1);
  std::ofstream out(arguments[2], std::ios::binary);
  out.write(cubin.data(), static_cast<std::streamsize>(cubin.size()));
  out.close();
  return out ? 0 : Say("error: cannot write " + arguments[2], kWorkerFailed);
}

}  // namespace cupola::build
