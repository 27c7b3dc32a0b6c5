#include <array>
#include <type_traits>

#include "device/sim/driver/driver.h"

namespace cupola::sim {
namespace {

/// A thread's stack of contexts. The top is current; cuCtxSetCurrent replaces it.
struct ContextStack {
  std::array<Context*, 256> entries;
  size_t depth;
};
// exit() ends a thread's variables before it runs handlers, which may well call the driver.
static_assert(std::is_trivially_destructible_v<ContextStack>);
thread_local constinit ContextStack stack{};

}  // namespace

Driver::Driver(std::unique_ptr<Device> device)
    : device_(std::move(device)), engine_(device_.get()), memory_(device_.get()) {}

Context* Driver::Current() const {
  return stack.depth == 0 ? nullptr : stack.entries[stack.depth - 1];
}

void Driver::SetCurrent(Context* context) {
  if (stack.depth == 0) {
    if (context != nullptr) (void)Push(context);
  } else if (context == nullptr) {
    --stack.depth;
  } else {
    stack.entries[stack.depth - 1] = context;
  }
}

bool Driver::Push(Context* context) {
  if (stack.depth == stack.entries.size()) return false;
  stack.entries[stack.depth++] = context;
  return true;
}

Context* Driver::Pop() { return stack.depth == 0 ? nullptr : stack.entries[--stack.depth]; }

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
    // The retains stay: the next use makes a fresh context, under the same count.
    if (old) {
      primary_ = std::make_shared<Context>(primary_flags_, true);
      contexts.Add(primary_);
    }
  }
  if (!old) return;
  for (size_t i = 0; i < stack.depth; ++i) {
    if (stack.entries[i] == old.get()) stack.entries[i] = primary_.get();
  }
  DestroyContext(old.get());
}

void Driver::CloseContext(Context& context) {
  context.destroyed.store(true);
  engine_.WaitContext(context);
  std::vector<std::shared_ptr<Stream>> closing;
  {
    std::lock_guard lock(engine_.mutex());
    closing = context.streams;
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
  std::lock_guard lock(mutex_);
  retired_.push_back(std::move(taken));
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
