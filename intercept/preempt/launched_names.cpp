#include "intercept/preempt/launched_names.h"

#include <pthread.h>

#include <string>
#include <unordered_set>

#include "intercept/images/images.h"
#include "intercept/preempt/variants.h"
#include "intercept/process/handle_map.h"
#include "intercept/process/mutex_lock.h"
#include "intercept/record/kernel_names.h"

namespace cupola::intercept::preempt {
namespace {

pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
// Each name once, however often its module is loaded; never destroyed: the agent may read while the
// process exits.
std::unordered_set<std::string>* texts = nullptr;
HandleMap names;  // function -> its name, in `texts`

}  // namespace

void NoteName(const void* function) noexcept {
  const char* const name = DriversNameOf(function);
  if (name == nullptr || *name == '\0') return;
  const MutexLock lock(mutex);
  if (texts == nullptr) texts = new std::unordered_set<std::string>;
  names.Set(function, reinterpret_cast<uint64_t>(texts->insert(name).first->c_str()));
}

// Variants are left behind when their image goes; launches by a variant are never noted here.
const char* LaunchedName(const void* function) noexcept {
  if (function == &kGraphLaunch) return "(graph)";
  if (const Variant* const variant = FindVariant(function)) return variant->name;
  return reinterpret_cast<const char*>(names.Find(function, 0));
}

void ForgetNamesAfterFork() noexcept {
  mutex = PTHREAD_MUTEX_INITIALIZER;
  texts = nullptr;  // left behind: another thread of the parent may have been changing it
  names.ResetAfterFork();
}

}  // namespace cupola::intercept::preempt
