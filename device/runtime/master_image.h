// The MasterKernel without bodies, as PTX. master_image.cu is compiled to it when Cupola is built,
// and the pass `task` puts bodies in. Pure; any thread may call it.
#pragma once

#include <string_view>

namespace cupola::runtime {

/// The text of the PTX module. It lives as long as the program.
std::string_view MasterImage();

}  // namespace cupola::runtime
