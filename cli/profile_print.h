// Profiles and what training made of them, as text for people and as JSON. Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/train/train_profile.h"
#include "profiles/profile.h"

namespace cupola {

/// A line for the GPU, then a line for each kernel: launches, sizes, durations, tuned batch.
std::string ProfileTable(const profiles::Profile& profile);

/// A line for each kernel: samples, the model chosen, its error and the worst, batch, block. With
/// `terms` the regression's formula below it.
std::string TrainTable(const std::vector<models::KernelReport>& kernels, bool terms);

/// The same for programs: {"kernels": [...], "mean_error_percent": ...}.
std::string TrainJson(const std::vector<models::KernelReport>& kernels);

/// How claims are made (profiles/claim_word.h): "16", in the order of the grid "16g".
std::string ClaimText(uint32_t word);

/// 950 -> "950 ns", 12345 -> "12.3 us".
std::string DurationText(uint64_t ns);

}  // namespace cupola
