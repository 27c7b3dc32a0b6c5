// Reads the traces of `cupola run --trace` and `cupola serve --trace` into a Report. Both are Chrome JSON traces whose
// events stand one in a line, which is how this reader takes them; a trace that another program has written anew is
// refused. One thread.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "cli/report/report_data.h"

namespace cupola::report {

/// Reads all files. What lies on the same clock is put together: processes of the same pid become one. A trace that is
/// cut off (its writer was killed, or still runs) is read as far as it goes, and Report::notes says so. Errors name the
/// file. kIo: it cannot be read. kNotFound: there is no such file. kDamaged: it is no trace of Cupola's, or breaks off
/// before its first event, or a line of it is damaged. kUnsupported: it is of another version's format.
/// kInvalidArgument: the traces hold no launch and nothing of the arbiter.
Result<Report> ReadTraces(const std::vector<std::string>& files);

}  // namespace cupola::report
