#include <cstdlib>
#include <vector>

#include "base/per_thread.h"
#include "base/settings/variables.h"
#include "device/sim/driver/driver.h"
#include "device/sim/driver/say.h"

namespace cupola::sim {
namespace {

constexpr size_t kDeepestStack = 256;

/// The calling thread's stack of contexts. The last one is current; cuCtxSetCurrent replaces it. The stack keeps a
/// context that another thread has destroyed, so that calls in it can return CUDA_ERROR_CONTEXT_IS_DESTROYED.
std::vector<std::shared_ptr<Context>>& Stack() {
  static auto* const stacks = new PerThread<std::vector<std::shared_ptr<Context>>>;
  return stacks->Get();
}

}  // namespace

Driver::Driver(std::unique_ptr<Device> device)
    : device_(std::move(device)), engine_(device_.get()), memory_(device_.get()) {}

Context* Driver::Current() const {
  const auto& stack = Stack();
  return stack.empty() ? nullptr : stack.back().get();
}

void Driver::SetCurrent(Context* context) {
  auto& stack = Stack();
  if (!stack.empty()) stack.pop_back();
  if (context != nullptr) (void)Push(context);
}

// Two threads that push and pop a green context corrupt the heap in NVIDIA's driver 580 when contexts end meanwhile: the
// program ends with "double free", now and then. With CUPOLA_SIM_GREEN_THREADS=1 it always does.
bool Driver::Push(Context* context) {
  static const bool is_for_one_thread = settings::Flag("CUPOLA_SIM_GREEN_THREADS");
  if (is_for_one_thread && context->is_green) {
    std::thread::id first{};
    const std::thread::id own = std::this_thread::get_id();
    if (!context->first_thread.compare_exchange_strong(first, own) && first != own) {
      Say("double free: a green context is made current on a second thread");
      std::abort();
    }
  }
  auto& stack = Stack();
  if (stack.size() == kDeepestStack) return false;
  stack.push_back(context->shared_from_this());
  return true;
}

CUcontext Driver::Pop() {
  auto& stack = Stack();
  if (stack.empty()) return nullptr;
  const auto handle = reinterpret_cast<CUcontext>(stack.back().get());
  stack.pop_back();
  return handle;
}

Context* Driver::CreateContext(uint32_t flags, int device) {
  return contexts.Add(std::make_shared<Context>(flags, false, device));
}

Context* Driver::RetainPrimary() {
  std::lock_guard lock(mutex_);
  if (!primary_) {
    primary_ = std::make_shared<Context>(primary_flags_, true);
    contexts.Add(primary_);
  }
  ++primary_uses_;
  return primary_.get();
}

CUresult Driver::ReleasePrimary() {
  std::shared_ptr<Context> last;
  {
    std::lock_guard lock(mutex_);
    if (primary_uses_ == 0) return CUDA_ERROR_INVALID_CONTEXT;
    if (--primary_uses_ == 0) last = std::move(primary_);
  }
  if (last) return DestroyContext(last.get());
  return CUDA_SUCCESS;
}

void Driver::ResetPrimary() {
  std::shared_ptr<Context> old;
  {
    std::lock_guard lock(mutex_);
    old = std::move(primary_);
    // The count of retains stays, and counts for the fresh context.
    if (old) {
      primary_ = std::make_shared<Context>(primary_flags_, true);
      contexts.Add(primary_);
    }
  }
  if (!old) return;
  for (std::shared_ptr<Context>& entry : Stack()) {
    if (entry == old) entry = primary_;
  }
  DestroyContext(old.get());
}

void Driver::CloseContext(Context& context) {
  context.destroyed.store(true);
  WaitAndHoldLaunches(context);
  std::vector<std::shared_ptr<Stream>> closing;
  {
    std::lock_guard lock(engine_.mutex());
    closing.swap(context.streams);  // the listed streams would keep the context alive
  }
  closing.push_back(context.legacy);
  for (const auto& stream : closing) {
    streams.Take(stream.get());
    engine_.Close(*stream);
  }
  for (const auto& event : events.All()) {
    if (event->context == &context) events.Take(event.get());
  }
  for (const auto& module : modules.All()) {
    if (module->context == &context) DropModule(module);
  }
  for (const auto& library : libraries.All()) {
    std::lock_guard lock(library->mutex);
    library->modules.erase(&context);
  }
  memory_.FreeAll(&context);
}

CUresult Driver::DestroyContext(Context* context) {
  std::shared_ptr<Context> taken = contexts.Take(context);
  if (!taken) return CUDA_ERROR_INVALID_CONTEXT;
  CloseContext(*taken);
  if (Current() == context) Pop();
  return CUDA_SUCCESS;
}

Driver::PrimaryState Driver::primary_state() const {
  std::lock_guard lock(mutex_);
  return {primary_ ? primary_->flags.load() : primary_flags_, primary_ != nullptr};
}

void Driver::SetPrimaryFlags(uint32_t flags) {
  std::lock_guard lock(mutex_);
  primary_flags_ = flags;
  if (primary_) primary_->flags = flags;
}

CUresult Driver::Synchronize(Context& context) {
  engine_.WaitContext(context);
  device_->FlushPrintf();
  return context.sticky();
}

}  // namespace cupola::sim
