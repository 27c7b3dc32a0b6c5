#include "device/compiler/passes/preemptible.h"

#include <algorithm>
#include <set>

#include "device/compiler/passes/block_ids.h"
#include "device/compiler/passes/early_return.h"
#include "device/compiler/passes/parameters.h"
#include "device/compiler/passes/plan.h"
#include "device/compiler/passes/side_module.h"

namespace cupola::passes {

std::string VariantName(std::string_view kernel, Variant variant) {
  return std::string(kernel) +
         (variant == Variant::kPreemptible ? "__cupola_preemptible" : "__cupola_sliced");
}

Result<SideModule> MakeSideModule(const ptx::Module& original, const SideModuleOptions& options) {
  return SideModuleBuilder(original, options).Build();
}

}  // namespace cupola::passes
