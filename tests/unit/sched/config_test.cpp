// The configuration: what it says, and how errors are told.
#include <gtest/gtest.h>

#include <fstream>

#include "base/settings/problems.h"
#include "base/settings/table.h"
#include "base/settings/values.h"
#include "sched/daemon/config.h"
#include "sched/daemon/deciding_class.h"
#include "sched/policy.h"

namespace cupola::sched {
namespace {

ProcessIdentity Process(const std::string& executable, const std::string& user = "ann",
                        const std::string& label = "") {
  return {.pid = 7, .uid = 1000, .start = 1, .user = user, .executable = executable,
          .label = label};
}

TEST(Config, RulesApplyInOrderAndTheLastWordCounts) {
  const Result<Config> config = ParseConfig(R"(
[server]
socket = "/run/x.sock"
mps = true
scheduling = "nice"
[policy]
name = "ffs"
max_overhead = 0.05
quantum_us = 2000
epoch_us = 30000
[access]
users = ["bob", "1001"]
[[rule]]
executable = "*"
priority = 1
[[rule]]
executable = "/opt/*/serve"
priority = 10
weight = 3
latency_bound_us = 500
least_share_percent = 3
[[rule]]
label = "batch*"
priority = -5
variant = "preemptible"
[[rule]]
executable = "train"
kernel = "*gemm*"
priority = 4
variant = "original"
)", "c.toml");
  ASSERT_TRUE(config) << config.error().ToString();
  EXPECT_EQ(config->socket, "/run/x.sock");
  EXPECT_TRUE(config->mps);
  EXPECT_EQ(config->scheduling, ClassChoice::kNice);
  EXPECT_EQ(config->gpu.policy, "ffs");
  EXPECT_EQ(config->gpu.policy_options.quantum_ns, 2'000'000U);
  EXPECT_EQ(config->gpu.policy_options.epoch_ns, 30'000'000U);
  EXPECT_DOUBLE_EQ(config->gpu.policy_options.max_overhead, 0.05);
  EXPECT_EQ(config->SettingsFor(Process("/opt/a/serve"), ""),
            (ClientSettings{.priority = 10, .weight = 3, .latency_bound_ns = 500'000, .least_share_percent = 3}));
  EXPECT_EQ(config->SettingsFor(Process("/opt/a/serve", "ann", "batch-7"), "").priority, -5);
  EXPECT_EQ(config->SettingsFor(Process("/home/train"), "").priority, 1);
  EXPECT_EQ(config->SettingsFor(Process("/home/train"), "sm90_gemm_x").priority, 4);
  EXPECT_TRUE(config->Admits(Process("/x", "bob"), 0));
  EXPECT_FALSE(config->Admits(Process("/x", "eve"), 0));
  EXPECT_TRUE(config->Admits(Process("/x", "eve"), 1000));
  JoinAnswer answer;
  config->FillVariants(Process("/home/train", "ann", "batch"), answer);
  EXPECT_EQ(answer.variant, static_cast<uint32_t>(VariantChoice::kPreemptible));
  ASSERT_EQ(answer.kernel_rules, 1U);
  EXPECT_STREQ(answer.kernels[0].pattern, "*gemm*");
  EXPECT_EQ(answer.kernels[0].variant, static_cast<uint32_t>(VariantChoice::kOriginal));
}

TEST(Config, RulesForUsers) {
  const Result<Config> config = ParseConfig(R"(
[[rule]]
user = "ann"
priority = 7
variant = "sliced"
[[rule]]
user = "a*"
label = "batch"
weight = 3
[[rule]]
user = "bob"
executable = "serve"
priority = 2
)", "c.toml");
  ASSERT_TRUE(config) << config.error().ToString();
  const auto settings_of = [&](const char* executable, const char* user, const char* label) {
    return config->SettingsFor(Process(executable, user, label), "");
  };
  EXPECT_EQ(settings_of("/x", "ann", ""), (ClientSettings{.priority = 7}));
  EXPECT_EQ(settings_of("/x", "ann", "batch"), (ClientSettings{.priority = 7, .weight = 3}));
  EXPECT_EQ(settings_of("/x", "amy", "batch"), (ClientSettings{.weight = 3}));
  EXPECT_EQ(settings_of("/serve", "bob", ""), (ClientSettings{.priority = 2}));
  // Neither a user whose name begins so, nor bob's other programs, nor another's serve.
  for (const auto& [executable, user] :
       {std::pair{"/x", "annette"}, {"/x", "bob"}, {"/serve", "eve"}, {"/ann", "eve"}}) {
    EXPECT_EQ(settings_of(executable, user, "ann"), ClientSettings{}) << executable << user;
  }
  JoinAnswer answer;
  config->FillVariants(Process("/x", "bob"), answer);
  EXPECT_EQ(answer.variant, static_cast<uint32_t>(VariantChoice::kAuto));
  config->FillVariants(Process("/x", "ann"), answer);
  EXPECT_EQ(answer.variant, static_cast<uint32_t>(VariantChoice::kSliced));
}

TEST(Config, AnEmptyFileIsTheDefaults) {
  const Result<Config> config = ParseConfig("", "c.toml");
  ASSERT_TRUE(config);
  EXPECT_EQ(config->gpu.policy, "hpf");
  EXPECT_TRUE(config->rules.empty());
}

struct WrongConfig {
  const char* text;
  const char* error;
};

class WrongConfigs : public testing::TestWithParam<WrongConfig> {};

TEST_P(WrongConfigs, SaysWhereAndWhatWasExpected) {
  const Result<Config> config = ParseConfig(GetParam().text, "c.toml");
  ASSERT_FALSE(config);
  EXPECT_EQ(config.error().ToString(), GetParam().error);
}

INSTANTIATE_TEST_SUITE_P(
    Errors, WrongConfigs,
    testing::Values(
        WrongConfig{"[policy]\nname = \"hfp\"",
                    "c.toml:2:8: expected one of \"hpf\", \"ffs\", \"fifo\", \"reorder\", "
                    "\"corun\", not \"hfp\""},
        WrongConfig{"[policy]\nname = 3",
                    "c.toml:2:8: expected one of \"hpf\", \"ffs\", \"fifo\", \"reorder\", "
                    "\"corun\", not 3"},
        WrongConfig{"[policy]\nmax_overhead = 1.5",
                    "c.toml:2:16: expected a number above 0 and at most 1, not 1.5"},
        WrongConfig{"[policy]\n\nquantum_us = -1",
                    "c.toml:3:14: expected a whole number from 0 to 3600000000, not -1"},
        WrongConfig{"[polcy]\n",
                    "c.toml:1:2: unknown key \"polcy\" at the top; expected one of server, "
                    "policy, access, rule"},
        WrongConfig{"[[rule]]\nexecutable = \"a\"\npriorty = 3",
                    "c.toml:3:1: unknown key \"priorty\" in [[rule]]; expected one of "
                    "executable, user, label, cgroup, container, kernel, priority, weight, latency_bound_us, "
                    "least_share_percent, "
                    "variant; did you mean rule.priority?"},
        WrongConfig{"[policy]\nquantum_ms = 3",
                    "c.toml:2:1: unknown key \"quantum_ms\" in [policy]; expected one of name, max_overhead, "
                    "quantum_us, epoch_us, idle_grace_us, context_switch_us, preemption_overhead_us, spatial, "
                    "spatial_extra_sms; did you mean policy.quantum_us?"},
        WrongConfig{"[[rule]]\npriority = \"high\"",
                    "c.toml:2:12: expected a whole number from -1000000 to 1000000, not \"high\""},
        WrongConfig{"[[rule]]\nweight = 0",
                    "c.toml:2:10: expected a whole number from 1 to 1000000, not 0"},
        WrongConfig{"[[rule]]\nexecutable = \"a\"",
                    "c.toml:1:1: this rule sets nothing; expected priority, weight, "
                    "latency_bound_us, least_share_percent or variant"},
        WrongConfig{"[rule]\npriority = 1",
                    "c.toml:1:1: expected [[rule]] (with two brackets), not [rule]"},
        WrongConfig{"[[rule]]\nvariant = \"fast\"",
                    "c.toml:2:11: expected one of \"auto\", \"original\", \"preemptible\", "
                    "\"sliced\", not \"fast\""},
        WrongConfig{"[access]\nusers = \"bob\"",
                    "c.toml:2:9: expected a list of strings, not \"bob\""},
        WrongConfig{"[access]\nusers = [\"bob\",\n 3]", "c.toml:3:2: expected a string, not 3"},
        WrongConfig{"[server]\nscheduling = \"fast\"",
                    "c.toml:2:14: expected one of \"auto\", \"nice\", \"ordinary\", not \"fast\""},
        WrongConfig{"[server]\nscheduling = true",
                    "c.toml:2:14: expected one of \"auto\", \"nice\", \"ordinary\", not true"},
        WrongConfig{"[server]\nmps = 1", "c.toml:2:7: expected true or false, not 1"},
        WrongConfig{"policy = 1", "c.toml:1:10: expected a table, not 1"}));

// More do not fit into the answer to a client.
TEST(Config, SoManyRulesNameAKernelAndAVariant) {
  std::string text;
  for (int i = 0; i < 16; ++i) text += "[[rule]]\nkernel = \"a*\"\nvariant = \"sliced\"\n";
  text += "[[rule]]\nkernel = \"a*\"\nweight = 2\n[[rule]]\nvariant = \"original\"\n";
  const Result<Config> config = ParseConfig(text, "c.toml");
  ASSERT_TRUE(config) << config.error().ToString();
  const Result<Config> another =
      ParseConfig(text + "[[rule]]\nkernel = \"b\"\nvariant = \"sliced\"\n", "c.toml");
  ASSERT_FALSE(another);
  EXPECT_EQ(another.error().ToString(),
            "c.toml:54:1: expected at most 16 rules with both kernel and variant, not another");
}

TEST(Config, DamagedTextHasAPlace) {
  const Result<Config> config = ParseConfig("[policy]\nname = \n", "c.toml");
  ASSERT_FALSE(config);
  EXPECT_EQ(config.error().where.line, 2U);
  EXPECT_EQ(config.error().code, ErrorCode::kDamaged);
}

TEST(Config, AFileThatIsNotThere) {
  const Result<Config> config = ReadConfig("/nonexistent/c.toml");
  ASSERT_FALSE(config);
  EXPECT_EQ(config.error().code, ErrorCode::kNotFound);
}

TEST(Config, AFolder) {
  const Result<Config> config = ReadConfig("/");
  ASSERT_FALSE(config);
  EXPECT_EQ(config.error().code, ErrorCode::kIo);
  EXPECT_EQ(config.error().where.file, "/");
}

/// The configuration that gives each key of the table its default there.
std::string DefaultsOfTable() {
  std::string text;
  for (const std::string section : {"server", "policy"}) {
    text += "[" + section + "]\n";
    for (const settings::Setting& row : settings::kTable) {
      const std::string_view name = row.name;
      if (!name.starts_with(section + ".") || row.type == settings::Type::kAbsolutePath) continue;
      const bool is_word = row.type == settings::Type::kWord;
      const std::string value = row.fallback;
      text += std::string(name.substr(section.size() + 1)) + " = " + (is_word ? "\"" + value + "\"" : value) + "\n";
    }
  }
  return text;
}

TEST(Config, DefaultsAreThoseOfTheTable) {
  const Result<Config> config = ParseConfig(DefaultsOfTable(), "c.toml");
  ASSERT_TRUE(config) << config.error().ToString();
  const Config none;
  EXPECT_EQ(config->mps, none.mps);
  EXPECT_EQ(config->scheduling, none.scheduling);
  EXPECT_EQ(config->gpu.policy, none.gpu.policy);
  EXPECT_EQ(config->gpu.context_switch_ns, none.gpu.context_switch_ns);
  EXPECT_EQ(config->gpu.preemption_overhead_ns, none.gpu.preemption_overhead_ns);
  const PolicyOptions& read = config->gpu.policy_options, &plain = none.gpu.policy_options;
  EXPECT_EQ(read.max_overhead, plain.max_overhead);
  EXPECT_EQ(read.quantum_ns, plain.quantum_ns);
  EXPECT_EQ(read.epoch_ns, plain.epoch_ns);
  EXPECT_EQ(read.idle_grace_ns, plain.idle_grace_ns);
  EXPECT_EQ(read.spatial, plain.spatial);
  EXPECT_EQ(read.spatial_extra_sms, plain.spatial_extra_sms);
}

TEST(Config, WordsOfTheTableAreThoseThatTheDaemonKnows) {
  const auto words = [](const char* name) {
    std::vector<std::string> list;
    settings::ForEachWord(settings::Find(name)->allowed, [&list](std::string_view word) { list.emplace_back(word); });
    return list;
  };
  std::vector<std::string> policies, classes, variants;
  for (const std::string_view name : PolicyNames()) policies.emplace_back(name);
  for (const ClassChoice one : kClassChoices) classes.emplace_back(DecidingClass::NameOf(one));
  for (const VariantChoice one : {VariantChoice::kAuto, VariantChoice::kOriginal, VariantChoice::kPreemptible,
                                  VariantChoice::kSliced}) {
    variants.emplace_back(VariantName(one));
  }
  EXPECT_EQ(words("policy.name"), policies);
  EXPECT_EQ(words("server.scheduling"), classes);
  EXPECT_EQ(words("rule.variant"), variants);
}

TEST(Config, SaysWhichKeysAreGiven) {
  const Result<Config> config = ParseConfig(
      "[policy]\nspatial = true\n[access]\nusers = [\"root\", \"1001\"]\n[[rule]]\npriority = 3\n[[rule]]\npriority = 4\n",
      "c.toml");
  ASSERT_TRUE(config) << config.error().ToString();
  std::string given;
  for (const GivenKey& key : config->given) {
    given += std::string(key.name) + " = " + key.value + " in " + std::to_string(key.line) + "\n";
  }
  EXPECT_EQ(given,
            "policy.spatial = true in 2\naccess.users = root, 1001 in 4\nrule.priority = 3 in 6\nrule.priority = 4 in 8\n");
}

}  // namespace
}  // namespace cupola::sched
