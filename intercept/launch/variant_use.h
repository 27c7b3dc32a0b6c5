// Which form of a kernel is used. That depends on the configuration's rules, on the forms that its bundle has, and on
// what was measured of the kernel. It is decided once for each kernel. Any thread.
#pragma once

namespace cupola::intercept {

struct LaunchContext;

struct Variant;

/// Fills the members of Variant that Variant marks as filled by SettleVariant. The first call for a variant takes the
/// mutex of images (images/images.h); later calls cost one load.
void SettleVariant(Variant& variant, const LaunchContext& context) noexcept;
/// The same for a caller that holds that mutex.
void SettleVariantLocked(Variant& variant, const LaunchContext& context) noexcept;

}  // namespace cupola::intercept
