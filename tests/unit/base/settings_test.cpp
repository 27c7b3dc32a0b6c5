// The table of settings, how values are read, and what is said of wrong ones.
#include <gtest/gtest.h>

#include <cstdlib>
#include <set>
#include <string>
#include <vector>

#include "base/settings/problems.h"
#include "base/settings/table.h"
#include "base/settings/values.h"
#include "base/settings/variables.h"

namespace cupola::settings {
namespace {

/// Sets a variable while it exists.
class SetVariable {
 public:
  SetVariable(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  SetVariable(const SetVariable&) = delete;
  SetVariable& operator=(const SetVariable&) = delete;
  ~SetVariable() { unsetenv(name_); }

 private:
  const char* name_;
};

/// What is said of an environment.
std::vector<std::string> Said(std::vector<const char*> entries, uint8_t parts = UINT8_MAX) {
  entries.push_back(nullptr);
  std::vector<std::string> said;
  ForEachProblem(const_cast<char* const*>(entries.data()), parts,
                 [&said](Problem, const char* line) { said.emplace_back(line); });
  return said;
}

TEST(SettingsTable, NamesAreUniqueAndEachRowIsWhole) {
  std::set<std::string_view> names;
  for (const Setting& row : kTable) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_EQ(Find(row.name), &row);
    const std::string meaning = row.meaning;
    EXPECT_EQ(meaning.find(". "), std::string::npos) << row.name << ": more than one sentence";
    EXPECT_EQ(meaning.find('|'), std::string::npos) << row.name << ": would break the page's table";
    EXPECT_EQ(row.IsVariable(), std::string_view(row.name).find('.') == std::string_view::npos) << row.name;
    EXPECT_EQ(row.IsFor(kArbiter), !row.IsVariable()) << row.name;
    EXPECT_EQ(row.IsFor(kTree), row.use == Use::kTests) << row.name;
  }
  EXPECT_EQ(Find("CUPOLA_NOTHING"), nullptr);
}

TEST(SettingsTable, NamesSayTheUnit) {
  for (const Setting& row : kTable) {
    const std::string_view name = row.name;
    for (const auto& [end, unit] : {std::pair{"_US", "us"}, {"_us", "us"}, {"_MS", "ms"}, {"_NS", "ns"}, {"_MB", "MiB"}}) {
      if (row.type != Type::kNumber || !name.ends_with(end)) continue;
      EXPECT_STREQ(row.unit, unit) << name;
    }
  }
}

TEST(SettingsValues, NumbersAreDigitsOnly) {
  EXPECT_EQ(ParseNumber("0"), 0);
  EXPECT_EQ(ParseNumber("-12"), -12);
  EXPECT_EQ(ParseNumber("9223372036854775807"), INT64_MAX);
  for (const char* text : {"", "-", "+1", " 1", "1 ", "10ms", "10us", "1e3", "0x10", "1.5", "9223372036854775808",
                           "99999999999999999999"}) {
    EXPECT_EQ(ParseNumber(text), std::nullopt) << '"' << text << '"';
  }
}

TEST(SettingsValues, NumbersHaveBounds) {
  EXPECT_EQ(ParseNumber("1", 1, 4), 1);
  EXPECT_EQ(ParseNumber("4", 1, 4), 4);
  EXPECT_EQ(ParseNumber("0", 1, 4), std::nullopt);
  EXPECT_EQ(ParseNumber("5", 1, 4), std::nullopt);
}

TEST(SettingsValues, FlagsAndWords) {
  EXPECT_EQ(ParseFlag("1"), true);
  EXPECT_EQ(ParseFlag("0"), false);
  EXPECT_EQ(ParseFlag("yes"), std::nullopt);
  EXPECT_TRUE(IsWordOf("auto, always, off", "always"));
  for (const char* word : {"", "Auto", "al", "auto,", "auto, always", " off"}) {
    EXPECT_FALSE(IsWordOf("auto, always, off", word)) << word;
  }
}

TEST(SettingsVariables, GiveTheirDefaultWhereNothingElseIsAllowed) {
  EXPECT_EQ(Number("CUPOLA_SIM_SMS"), 4);
  EXPECT_EQ(NumberIfSet("CUPOLA_SIM_SMS"), std::nullopt);
  for (const char* value : {"", "0", "1025", "8 SMs"}) {
    const SetVariable variable("CUPOLA_SIM_SMS", value);
    EXPECT_EQ(Number("CUPOLA_SIM_SMS"), 4) << value;
    EXPECT_EQ(NumberIfSet("CUPOLA_SIM_SMS"), std::nullopt) << value;
  }
  const SetVariable word("CUPOLA_TASKS", "maybe"), flag("CUPOLA_TASK_TRIALS", "no");
  EXPECT_EQ(Word("CUPOLA_TASKS"), "auto");
  EXPECT_TRUE(Flag("CUPOLA_TASK_TRIALS"));
}

TEST(SettingsVariables, GiveWhatIsSet) {
  const SetVariable number("CUPOLA_SIM_SMS", "1024"), word("CUPOLA_TASKS", "off"), flag("CUPOLA_TASK_TRIALS", "0"),
      text("CUPOLA_PLAN", "");
  EXPECT_EQ(Number("CUPOLA_SIM_SMS"), 1024);
  EXPECT_EQ(Word("CUPOLA_TASKS"), "off");
  EXPECT_FALSE(Flag("CUPOLA_TASK_TRIALS"));
  EXPECT_STREQ(Text("CUPOLA_PLAN"), "");
  EXPECT_EQ(TextIfAny("CUPOLA_PLAN"), nullptr);
  EXPECT_EQ(Text("CUPOLA_LABEL"), nullptr);
}

TEST(SettingsProblems, DistanceCountsLetters) {
  EXPECT_EQ(Distance("", ""), 0);
  EXPECT_EQ(Distance("", "abc"), 3);
  EXPECT_EQ(Distance("TASKS", "TASKS"), 0);
  EXPECT_EQ(Distance("TASK", "TASKS"), 1);   // put in
  EXPECT_EQ(Distance("TASKSS", "TASKS"), 1); // left out
  EXPECT_EQ(Distance("TASXS", "TASKS"), 1);  // replaced
  EXPECT_EQ(Distance("TAKSS", "TASKS"), 1);  // swapped
  EXPECT_EQ(Distance("kitten", "sitting"), 3);
  EXPECT_EQ(Distance(std::string(500, 'a'), std::string(500, 'b')), 63);
}

TEST(SettingsProblems, TheNearestIsOfTheSameKind) {
  const auto nearest = [](const char* name) {
    const Setting* const row = Nearest(name);
    return std::string(row != nullptr ? row->name : "");
  };
  EXPECT_EQ(nearest("CUPOLA_TASK_WARP"), "CUPOLA_TASK_WARPS");
  EXPECT_EQ(nearest("CUPOLA_PREMPT"), "CUPOLA_PREEMPT");
  EXPECT_EQ(nearest("CUPOLA_SIM_SM"), "CUPOLA_SIM_SMS");
  EXPECT_EQ(nearest("policy.quantum_ms"), "policy.quantum_us");
  EXPECT_EQ(nearest("rule.prioritty"), "rule.priority");
  EXPECT_EQ(nearest("quantum_us"), "policy.quantum_us");
  EXPECT_EQ(nearest("server.quantum_us"), "") << "a key of another section";
  EXPECT_EQ(nearest("CUPOLA_SOMETHING_ELSE"), "");
  EXPECT_EQ(nearest("CUPOLA_FEATURE"), "") << "an internal variable is suggested to nobody";
}

TEST(SettingsProblems, AreSaidInOneLine) {
  EXPECT_EQ(Said({"CUPOLA_TASK_WARP=3"}),
            std::vector<std::string>{"CUPOLA_TASK_WARP in the environment is no setting; did you mean CUPOLA_TASK_WARPS?"});
  EXPECT_EQ(Said({"CUPOLA_QQQ=3"}),
            std::vector<std::string>{"CUPOLA_QQQ in the environment is no setting; `cupola settings` lists them"});
  EXPECT_EQ(Said({"CUPOLA_SIM_SMS=2k"}),
            std::vector<std::string>{"CUPOLA_SIM_SMS=2k is not a whole number from 1 to 1024: using 4"});
  EXPECT_EQ(Said({"CUPOLA_TASKS=maybe"}),
            std::vector<std::string>{"CUPOLA_TASKS=maybe is not auto, always or off: using auto"});
  EXPECT_EQ(Said({"CUPOLA_INEXACT=yes"}), std::vector<std::string>{"CUPOLA_INEXACT=yes is not 1 or 0: using 0"});
  EXPECT_EQ(Said({"CUPOLA_STORE=here"}),
            std::vector<std::string>{"CUPOLA_STORE=here is not an absolute path: it is not used"});
  EXPECT_EQ(Said({"CUPOLA_TASK_US=x"}),
            std::vector<std::string>{"CUPOLA_TASK_US=x is not a whole number from 0 to 4294967295: it is not used"});
}

TEST(SettingsProblems, NothingIsSaidOfWhatIsWellOrOfOthers) {
  EXPECT_EQ(Said({"PATH=/bin", "CUPOLA=x", "CUPOLA_TASKS=off", "CUPOLA_TASKS=", "CUPOLA_LABEL=anything", "CUPOLA_X"}),
            std::vector<std::string>{});
  EXPECT_EQ(Said({"CUPOLA_SIM_SMS=x"}, kLibrary | kCommand), std::vector<std::string>{});
}

TEST(SettingsProblems, LongNamesAndValuesAreCut) {
  const std::string name = "CUPOLA_" + std::string(3000, 'X') + "=1", value = "CUPOLA_TASKS=" + std::string(3000, 'x');
  for (const std::string& line : Said({name.c_str(), value.c_str()})) {
    EXPECT_LT(line.size(), 300);
    EXPECT_GT(line.size(), 120);
  }
}

}  // namespace
}  // namespace cupola::settings
