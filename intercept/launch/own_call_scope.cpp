#include "intercept/launch/own_call_scope.h"

#include "intercept/facts/streams.h"
#include "intercept/launch/launch_context.h"
#include "intercept/launch/resident.h"
#include "intercept/process/participation.h"

namespace cupola::intercept {

std::atomic<uint32_t> scopes_elsewhere{0};

OwnCallScope::OwnCallScope() noexcept {
  if (!PreemptionOn()) return;
  context_ = FindContext(CurrentContext());
  elsewhere_ = context_ == nullptr;
  if (elsewhere_) {
    scopes_elsewhere.fetch_add(1);
  } else {
    is_kept_ = resident.guarded.open_scope(*context_);
    may_ask_ = !is_kept_ && !resident.guarded.is_held(context_->context);
  }
}
OwnCallScope::~OwnCallScope() {
  if (context_ != nullptr) resident.guarded.close_scope(*context_, is_kept_);
  if (elsewhere_) scopes_elsewhere.fetch_sub(1);
}

}  // namespace cupola::intercept
