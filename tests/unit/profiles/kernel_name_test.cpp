#include "profiles/kernel_name.h"

#include <gtest/gtest.h>

#include "profiles/launch_record.h"

namespace cupola {
namespace {

TEST(KernelNameTest, DemanglesOnlyCppNames) {
  EXPECT_EQ(KernelDisplayName("_Z6reducePKfi"), "reduce(float const*, int)");
  EXPECT_EQ(KernelDisplayName("vector_add"), "vector_add");
  EXPECT_EQ(KernelDisplayName("_Zbroken"), "_Zbroken");
  EXPECT_EQ(KernelDisplayName(""), "(unknown kernel)");
  EXPECT_EQ(KernelDisplayName("i"), "i") << "not the type int";
}

TEST(KernelNameTest, NamesEveryDoor) {
  EXPECT_STREQ(DoorName(static_cast<uint8_t>(LaunchDoor::kLaunchKernelEx)), "cuLaunchKernelEx");
  EXPECT_STREQ(DoorName(static_cast<uint8_t>(LaunchDoor::kLaunchGraph)), "cuGraphLaunch");
  EXPECT_STREQ(DoorName(200), "launch");
}

}  // namespace
}  // namespace cupola
