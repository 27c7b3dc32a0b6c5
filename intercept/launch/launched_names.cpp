#include "intercept/launch/launched_names.h"

#include <pthread.h>

#include <string>
#include <unordered_set>

#include "intercept/images/images.h"
#include "intercept/images/variant.h"
#include "intercept/process/handle_map.h"
#include "intercept/process/mutex_lock.h"
#include "intercept/record/kernel_names.h"

namespace cupola::intercept {
namespace {

pthread_mutex_t launched_names_mutex = PTHREAD_MUTEX_INITIALIZER;
// Has each name once, however often its module is loaded. Never destroyed, because the agent may
// read it while the process exits.
std::unordered_set<std::string>* texts = nullptr;
HandleMap names;  // function -> its name, in `texts`

}  // namespace

void RecordKernelName(const void* function) noexcept {
  const char* const name = DriversNameOf(function);
  if (name == nullptr || *name == '\0') return;
  const MutexLock lock(launched_names_mutex);
  if (texts == nullptr) texts = new std::unordered_set<std::string>;
  names.Set(function, reinterpret_cast<uint64_t>(texts->insert(name).first->c_str()));
}

// A variant has its name in its bundle; RecordKernelName is not called for it.
const char* LaunchedName(const void* function) noexcept {
  if (function == &kGraphLaunch) return "(graph)";
  if (const Variant* const variant = FindVariant(function)) return variant->name;
  return reinterpret_cast<const char*>(names.Find(function, 0));
}

void ForgetNamesAfterFork() noexcept {
  launched_names_mutex = PTHREAD_MUTEX_INITIALIZER;
  texts = nullptr;  // not freed: another thread of the parent may have been changing it
  names.ResetAfterFork();
}

}  // namespace cupola::intercept
