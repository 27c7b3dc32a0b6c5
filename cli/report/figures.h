// The figures of `cupola report`: shares of the GPU over time, who waited for whom, and by which way launches went.
// Pure functions of a Report; one thread.
#pragma once

#include "cli/report/report_data.h"

namespace cupola::report {

/// In Wait::holder: nobody had the GPU, because it changed over from one process to the next.
inline constexpr uint32_t kNobody = ~uint32_t{0};

/// Adds, for each process that the arbiter's traces do not have, when its kernels ran and when launches of it waited
/// while kernels of other processes ran. Only launches with device times tell that.
void AddPhasesOfLaunches(Report* report);

/// After AddPhasesOfLaunches. A process has the GPU while it runs, or while it leaves. While one leaves, those that are
/// to run wait for it, except those whose kernels run all the same, by their device times. Processes that have the GPU
/// at once count equal parts of that time. Shares have `bins` bins.
Figures MakeFigures(const Report& report, size_t bins);

}  // namespace cupola::report
