// Makes the text of the page of `cupola report`: one HTML file that needs no other file and no network.
// report_command.cpp calls MakePage and writes the file. Pure functions; any thread. The template, its style and
// its scripts are files in cli/report/page/, which the build puts together (embed.py). The data is JSON in a script
// element that browsers do not run.
#pragma once

#include <string>
#include <string_view>

#include "cli/report/report_data.h"

namespace cupola::report {

/// The template of the page, in which `@TITLE@` and `@DATA@` stand for what MakePage puts there.
std::string_view PageTemplate();

/// The data of the page, as JSON without "<", so that it cannot end the element in which it stands. The layout is
/// described in cli/report/page/data.js, which reads it.
std::string PageData(const Report& report, const Figures& figures);

/// The whole page. `title`: plain text.
std::string MakePage(const std::string& title, const Report& report, const Figures& figures);

}  // namespace cupola::report
