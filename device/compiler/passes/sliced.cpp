#include "device/compiler/passes/sliced.h"

#include <cstddef>
#include <string>

#include "device/compiler/passes/snippet.h"
#include "device/runtime/preempt_control.h"

namespace cupola::passes {
namespace {

// Grids of one row need no division. The branch is uniform, since the grid is the same for all
// threads.
constexpr std::string_view kSlice = R"(
  .reg .pred %cupola_p0;
  .reg .b32 %cupola_x, %cupola_y, %cupola_z, %cupola_t<6>;
  mov.u32 %cupola_x, %ctaid.x;
  ld.param.u32 %cupola_t0, [cupola_launch+<first_block>];
  add.u32 %cupola_x, %cupola_x, %cupola_t0;
  mov.u32 %cupola_y, 0;
  mov.u32 %cupola_z, 0;
  ld.param.u32 %cupola_t1, [cupola_launch+<grid_x>];
  ld.param.u32 %cupola_t2, [cupola_launch+<grid_y>];
  ld.param.u32 %cupola_t3, [cupola_launch+<grid_z>];
  mul.lo.u32 %cupola_t4, %cupola_t2, %cupola_t3;
  setp.eq.u32 %cupola_p0, %cupola_t4, 1;
  @%cupola_p0 bra.uni $cupola_sliced;
  div.u32 %cupola_t4, %cupola_x, %cupola_t1;
  mul.lo.u32 %cupola_t5, %cupola_t4, %cupola_t1;
  sub.u32 %cupola_x, %cupola_x, %cupola_t5;
  div.u32 %cupola_z, %cupola_t4, %cupola_t2;
  mul.lo.u32 %cupola_t5, %cupola_z, %cupola_t2;
  sub.u32 %cupola_y, %cupola_t4, %cupola_t5;
$cupola_sliced:
)";

constexpr std::string_view kTell = R"(
  mov.u32 %cupola_t0, %tid.x;
  mov.u32 %cupola_t4, %tid.y;
  mov.u32 %cupola_t5, %tid.z;
  or.b32 %cupola_t0, %cupola_t0, %cupola_t4;
  or.b32 %cupola_t0, %cupola_t0, %cupola_t5;
  setp.ne.u32 %cupola_p0, %cupola_t0, 0;
  @%cupola_p0 bra $cupola_told;
  st.shared.v4.u32 [cupola_block], {%cupola_x, %cupola_y, %cupola_z, %cupola_x};
  st.shared.v4.u32 [cupola_block+16], {%cupola_t1, %cupola_t2, %cupola_t3, %cupola_t3};
$cupola_told:
  bar.warp.sync -1;
  bar.sync 0;
)";

}  // namespace

std::vector<ptx::Statement> MakeSliceCode(bool tells_functions) {
  using runtime::SliceParams;
  const Words words = {{"first_block", std::to_string(offsetof(SliceParams, first_block))},
                       {"grid_x", std::to_string(offsetof(SliceParams, grid))},
                       {"grid_y", std::to_string(offsetof(SliceParams, grid) + 4)},
                       {"grid_z", std::to_string(offsetof(SliceParams, grid) + 8)}};
  std::vector<ptx::Statement> code = Snippet(kSlice, words);
  if (tells_functions) Append(code, kTell);
  return code;
}

}  // namespace cupola::passes
