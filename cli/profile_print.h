// Profiles, and the results of training on them, as text for people and as JSON. Pure functions;
// any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/train/train_profile.h"
#include "profiles/profile.h"

namespace cupola {

/// A line for the GPU, then a line for each kernel: launches, sizes, durations, tuned batch.
std::string ProfileTable(const profiles::Profile& profile);

/// A line for each kernel: samples, the chosen model, its mean error and its worst, batch, block.
/// With `terms`, the formula of the regression stands below each line.
std::string TrainTable(const std::vector<models::KernelReport>& kernels, bool terms);

/// The same for programs: {"kernels": [...], "mean_error_percent": ...}.
std::string TrainJson(const std::vector<models::KernelReport>& kernels);

/// A claim word (profiles/claim_word.h), which says how workers claim, as text: "16", or "16g" for
/// claims in the order of the grid.
std::string ClaimText(uint32_t word);

/// A duration as text: 950 gives "950 ns", 12345 gives "12.3 us".
std::string DurationText(uint64_t ns);

}  // namespace cupola
