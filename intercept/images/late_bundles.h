// A thread of Cupola's that looks twice a second whether the bundles of unbuilt images (unbuilt_images.h) were built
// meanwhile. It makes no driver call, and costs one stat(2) each time while nothing was added to the store.
#pragma once

namespace cupola::intercept {

/// Starts the thread, once. Any thread, also under ImagesMutex.
void StartLookingForBundles() noexcept;

/// In the child after a fork, which does not have the thread.
void ForgetLookingAfterFork() noexcept;

}  // namespace cupola::intercept
