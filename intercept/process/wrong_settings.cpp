#include "intercept/process/wrong_settings.h"

#include <unistd.h>

#include "base/settings/problems.h"
#include "intercept/process/notice.h"

namespace cupola::intercept {

void SayWrongSettings() noexcept {
  settings::ForEachProblem(environ, settings::kLibrary, [](settings::Problem problem, const char* line) {
    Say(problem == settings::Problem::kUnknown ? Level::kInfo : Level::kWarn, {line});
  });
}

}  // namespace cupola::intercept
