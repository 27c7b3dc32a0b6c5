// The MasterKernel without bodies, as PTX (master_image.cu, compiled when Cupola is built). Pure.
#pragma once

#include <string_view>

namespace cupola::runtime {

/// The text of the module; as long as the program lives.
std::string_view MasterImage();

}  // namespace cupola::runtime
