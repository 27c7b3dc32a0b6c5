// FillHelp: how help texts are filled to lines of a width.
#include "cli/help_formatter.h"

#include <gtest/gtest.h>

namespace cupola {
namespace {

TEST(FillHelp, LinesOfAParagraphAreFilled) {
  EXPECT_EQ(FillHelp("one two\nthree four five\n\nsix\n", 14), "one two three\nfour five\n\nsix\n");
}

TEST(FillHelp, HeadingsBeginParagraphs) {
  EXPECT_EQ(FillHelp("Says it\nUsage: x [OPTIONS]\nOptions:\n  -h\n", 40), "Says it\nUsage: x [OPTIONS]\nOptions:\n  -h\n");
  EXPECT_EQ(FillHelp("done\nExit codes: 0\ngood\n", 40), "done\nExit codes: 0 good\n");
}

TEST(FillHelp, ColumnsGoOnBelowTheSecond) {
  EXPECT_EQ(FillHelp("  --flag    what it does for whom\n", 24), "  --flag    what it does\n            for whom\n");
}

TEST(FillHelp, OtherIndentedLinesGoOnFurtherRight) {
  EXPECT_EQ(FillHelp("  one two three four\n  five\n", 12), "  one two\n    three\n    four\n  five\n");
}

TEST(FillHelp, ADescriptionByItselfGoesOnBelowItself) {
  EXPECT_EQ(FillHelp("        one two three\n", 16), "        one two\n        three\n");
}

TEST(FillHelp, ALongWordStaysWhole) {
  EXPECT_EQ(FillHelp("a verylongword b\n", 6), "a\nverylongword\nb\n");
  EXPECT_EQ(FillHelp("verylongword\n", 6), "verylongword\n");
}

TEST(FillHelp, OfNothingIsNothing) { EXPECT_EQ(FillHelp("", 80), ""); }

}  // namespace
}  // namespace cupola
