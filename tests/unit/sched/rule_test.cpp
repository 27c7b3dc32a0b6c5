// Whom rules fit: the names of a process, the patterns, and what can fit nobody.
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sched/board/protocol.h"
#include "sched/daemon/answer_queue.h"
#include "sched/daemon/config.h"
#include "sched/daemon/process_facts.h"
#include "sched/daemon/process_names.h"
#include "sched/daemon/rule_pattern.h"

namespace cupola::sched {
namespace {

ProcessIdentity Named(const std::string& executable, const std::string& started_as = "",
                      const std::string& script = "") {
  ProcessIdentity process{.pid = 7, .uid = 1000, .start = 1, .user = "ann", .executable = executable};
  process.started_as = started_as;
  process.script = script;
  return process;
}

bool Fits(Rule rule, const ProcessIdentity& process) {
  EXPECT_EQ(rule.Matches(process), rule.WhyNot(process, "").empty());
  return rule.Matches(process);
}

TEST(Rules, NameTheFileTheLinkOrTheScript) {
  const ProcessIdentity process = Named("/usr/bin/python3.11", "/opt/bin/serve", "/opt/app/train.py");
  for (const char* pattern : {"python3*", "/usr/bin/*", "serve", "/opt/bin/serve", "train.py", "*/app/train.py"}) {
    EXPECT_TRUE(Fits({.executable = pattern}, process)) << pattern;
  }
  for (const char* pattern : {"opt", "/opt/bin/train.py", "python", "app"}) {
    EXPECT_FALSE(Fits({.executable = pattern}, process)) << pattern;
  }
  EXPECT_FALSE(Fits({.executable = "*"}, Named(""))) << "whose name is not known";
}

TEST(Rules, NameAUserByNameOrNumber) {
  const ProcessIdentity process = Named("/x");
  for (const char* pattern : {"ann", "1000", "a*", "10??"}) EXPECT_TRUE(Fits({.user = pattern}, process)) << pattern;
  for (const char* pattern : {"100", "bob", "an"}) EXPECT_FALSE(Fits({.user = pattern}, process)) << pattern;
}

TEST(Rules, NameAGroupOrAContainer) {
  const std::string number(60, 'a');
  ProcessIdentity process = Named("/x");
  process.cgroup = "/system.slice/docker-" + number + "0123.scope";
  process.container = ContainerIn(process.cgroup);
  EXPECT_EQ(process.container, number + "0123");
  EXPECT_TRUE(Fits({.cgroup = "system.slice"}, process));
  EXPECT_TRUE(Fits({.cgroup = "docker-*.scope"}, process));
  EXPECT_TRUE(Fits({.cgroup = "/system.slice/*"}, process));
  EXPECT_FALSE(Fits({.cgroup = "user.slice"}, process));
  EXPECT_TRUE(Fits({.container = "aaaaaaaaaaaa"}, process));
  EXPECT_TRUE(Fits({.container = "*0123"}, process));
  EXPECT_FALSE(Fits({.container = "bbbbbbbbbbbb"}, process));
  EXPECT_FALSE(Fits({.container = "*"}, Named("/x"))) << "in none";
}

TEST(Rules, SayWhyTheyDoNotFit) {
  const Rule rule{.executable = "serve", .user = "bob", .kernel = "*gemm*"};
  const std::vector<std::string> why = rule.WhyNot(Named("/bin/train", "/bin/link"), "");
  ASSERT_EQ(why.size(), 3U);
  EXPECT_EQ(why[0], "executable is \"/bin/train\", \"/bin/link\", not \"serve\"");
  EXPECT_EQ(why[1], "user is \"ann\" (1000), not \"bob\"");
  EXPECT_EQ(why[2], "kernel is none now, not \"*gemm*\"");
}

TEST(Names, ControlGroups) {
  EXPECT_EQ(ControlGroupIn("0::/user.slice/a:b\n"), "/user.slice/a:b");
  EXPECT_EQ(ControlGroupIn("12:cpu,cpuacct:/\n5:memory:/docker/x\n1:name=systemd:/y\n0::/\n"), "/docker/x");
  EXPECT_EQ(ControlGroupIn("0::/\n"), "/");
  EXPECT_EQ(ControlGroupIn(""), "");
  EXPECT_EQ(ContainerIn("/user.slice/user-1000.slice"), "");
  EXPECT_EQ(ContainerIn("/docker/" + std::string(63, '1')), "") << "a digit short";
  EXPECT_EQ(ContainerIn("/kubepods/x/" + std::string(64, 'b')), std::string(64, 'b'));
}

TEST(Names, Scripts) {
  const auto script = [](const char* executable, std::string words) {
    std::replace(words.begin(), words.end(), ' ', '\0');
    return ScriptIn(executable, words + '\0');
  };
  EXPECT_EQ(script("/usr/bin/python3.11", "python3 -u train.py --epochs 3"), "train.py");
  EXPECT_EQ(script("/usr/bin/python3.11", "python3 -W ignore -X dev /a/b.py"), "/a/b.py");
  EXPECT_EQ(script("/usr/bin/python3.11", "python3 -m vllm.entrypoints x"), "vllm.entrypoints");
  EXPECT_EQ(script("/usr/bin/python3.11", "python3 -c pass x.py"), "");
  EXPECT_EQ(script("/usr/bin/python3.11", "python3"), "");
  EXPECT_EQ(script("/bin/bash", "bash -- ./-x.sh"), "./-x.sh");
  EXPECT_EQ(script("/opt/serve", "serve model.py"), "") << "no interpreter";
  EXPECT_EQ(ScriptIn("/usr/bin/python3", ""), "");
  const std::string line("python3\0./t/../train.py\0", 24);
  const ProcessNames names = NamesOf(static_cast<uint32_t>(getpid()), {"./rel", "/a/b", line});
  EXPECT_EQ(names.started_as, "/a/b/rel");
  EXPECT_EQ(NamesOf(1, {"", "/a", std::string("bin/x\0y\0", 8)}).started_as, "/a/bin/x");
}

/// What a copy of a program that is removed, or not, while it runs is called.
std::string NameOfCopy(const std::string& path, bool remove) {
  std::ofstream(path, std::ios::binary) << std::ifstream("/bin/cat", std::ios::binary).rdbuf();
  chmod(path.c_str(), 0700);
  int to[2], from[2];
  EXPECT_EQ(pipe(to) | pipe(from), 0);
  const pid_t child = fork();
  if (child == 0) {
    dup2(to[0], 0);
    dup2(from[1], 1);
    close(to[1]);
    execl(path.c_str(), "cat", nullptr);
    _exit(1);
  }
  char byte = 'x';
  EXPECT_EQ(write(to[1], &byte, 1), 1);
  EXPECT_EQ(read(from[0], &byte, 1), 1);  // it runs
  if (remove) unlink(path.c_str());
  std::string name = ProcessExecutable(static_cast<uint32_t>(child));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  unlink(path.c_str());
  for (const int fd : {to[0], to[1], from[0], from[1]}) close(fd);
  return name;
}

TEST(Names, OfFilesThatAreRemoved) {
  char folder[] = "/tmp/cupola-names-XXXXXX";
  ASSERT_NE(mkdtemp(folder), nullptr);
  for (const char* name : {"/a", "/a (deleted)", "/ (deleted)", "/a (deleted) (deleted)"}) {
    const std::string path = std::string(folder) + name;
    EXPECT_EQ(NameOfCopy(path, true), path);
    EXPECT_EQ(NameOfCopy(path, false), path);
  }
  // Another file is called as the kernel calls the removed one.
  const std::string decoy = std::string(folder) + "/a (deleted)";
  std::ofstream(decoy) << "x";
  EXPECT_EQ(NameOfCopy(std::string(folder) + "/a", true), std::string(folder) + "/a");
  unlink(decoy.c_str());
  rmdir(folder);
}

TEST(Patterns, ThatAreBad) {
  for (const char* pattern : {"", "a[", "a[b", "a[]", "[!]", "[z-a]", "[[:letter:]]", "[[:alpha:]", "a\\"}) {
    EXPECT_NE(WhyBadPattern(pattern), "") << pattern;
  }
  for (const char* pattern : {"a", "[[]", "[]]", "[!]x]", "[a-z]*", "[[:alpha:]_]", "[a-]", "\\[", "a]", "[\\]]",
                              "a b"}) {
    EXPECT_EQ(WhyBadPattern(pattern), "") << pattern;
  }
}

TEST(Patterns, WhatTheyCanFit) {
  EXPECT_EQ(ShortestFit("a?[xyz]*\\*"), 4U);
  EXPECT_TRUE(IsPlainText("a\\*b"));
  EXPECT_FALSE(IsPlainText("a*b"));
  EXPECT_EQ(WhyFitsNoPath("/a/b"), "");
  EXPECT_EQ(WhyFitsNoPath("*/b"), "");
  EXPECT_EQ(WhyFitsNoPath("[/]b/c"), "");
  for (const char* pattern : {"a/b", "~/b", "/a/", "*/", "/a//b", "/a/../b", "./b"}) {
    EXPECT_NE(WhyFitsNoPath(pattern), "") << pattern;
  }
}

TEST(Patterns, ThatFitNobodyAreErrorsOfTheConfiguration) {
  const std::string long_label(1024, 'x'), long_kernel(40, 'k');
  const std::string wrong[] = {
      "executable = \"bin/serve\"", "executable = \"/bin/\"", "executable = \"\"", "executable = \"a[\"",
      "user = \"4294967295\"", "user = \"007\"", "user = \"a b\"", "label = \"\"",
      "label = \"" + long_label + "\"", "kernel = \"" + long_kernel + "\"", "cgroup = \"a/b\"",
      "container = \"abc\"", "container = \"my-container\""};
  for (const std::string& text : wrong) {
    const Result<Config> config = ParseConfig("[[rule]]\n" + text + "\npriority = 1\n", "c.toml");
    ASSERT_FALSE(config) << text;
    EXPECT_TRUE(config.error().ToString().starts_with("c.toml:")) << config.error().ToString();
  }
  const Result<Config> config =
      ParseConfig("[[rule]]\nkernel = \"" + long_kernel + "\"\nvariant = \"sliced\"\n", "c.toml");
  EXPECT_TRUE(config) << "the process itself sees the whole name";
}

TEST(Patterns, UsersThatAreNotThereAreTold) {
  const Result<Config> config = ParseConfig(
      "[access]\nusers = [\"no-such-user\", \"4000000001\"]\n[[rule]]\nuser = \"no-such-user\"\npriority = 1\n"
      "[[rule]]\nuser = \"4000000000\"\npriority = 1\n[[rule]]\nuser = \"4000000001\"\npriority = 1\n",
      "c.toml");
  ASSERT_TRUE(config);
  ASSERT_EQ(config->warnings.size(), 3U);
  EXPECT_EQ(config->warnings[0], "c.toml: [access] users: there is no user \"no-such-user\" now");
  EXPECT_EQ(config->warnings[1], "c.toml:3: this rule fits nobody: there is no user \"no-such-user\" now");
  EXPECT_EQ(config->warnings[2],
            "c.toml:6: this rule fits nobody: user \"4000000000\" may not join, since [access] users does not list "
            "them");
}

// More than a socket holds: a thousand processes in what `ctl show` asks for.
TEST(Answers, LongOnesArriveWhole) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
  std::string text(3'000'000, ' ');
  for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>('a' + i % 23);
  AnswerQueue queue;
  queue.Put(text);
  std::string read_text(kMaxMessage, '\0'), whole;
  MessageHead head;
  int waits = 0;
  do {
    ASSERT_TRUE(queue.Send(ends[0]));
    waits += queue.IsEmpty() ? 0 : 1;
    const ssize_t size = recv(ends[1], read_text.data(), read_text.size(), 0);
    ASSERT_GE(size, static_cast<ssize_t>(sizeof(head)));
    std::memcpy(&head, read_text.data(), sizeof(head));
    ASSERT_EQ(head.bytes, static_cast<size_t>(size));
    whole.append(read_text, sizeof(head), static_cast<size_t>(size) - sizeof(head));
  } while (head.more != 0);
  EXPECT_EQ(whole, text);
  EXPECT_TRUE(queue.IsEmpty());
  EXPECT_GT(waits, 0);
  queue.Put(text);
  close(ends[1]);
  EXPECT_FALSE(queue.Send(ends[0])) << "the peer is gone";
  close(ends[0]);
}

}  // namespace
}  // namespace cupola::sched
