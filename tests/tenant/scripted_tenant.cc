// A tenant that does what its standard input says, one command a line, and answers each with one line:
// "ok ..." or "error CODE text". Events come as lines of `events`. See Commands below.

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iostream>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "common/base/log.h"
#include "common/base/mutex.h"
#include "common/base/philox.h"
#include "common/base/status.h"
#include "services/tenant/session.h"

namespace tandem::tenant {
namespace {

using Words = std::vector<std::string>;

std::string Answer(const absl::Status& status) {
  if (status.ok()) return "ok";
  return absl::StrCat("error ", absl::StatusCodeToString(status.code()), " ", status.message());
}

uint64_t Number(const std::string& text) {
  uint64_t value = 0;
  TANDEM_CHECK(absl::SimpleAtoi(text, &value), text);
  return value;
}

class ScriptedTenant {
 public:
  ScriptedTenant(std::string run_dir, std::string name, int longest_unit_ms)
      : run_dir_(std::move(run_dir)), name_(std::move(name)), longest_unit_ms_(longest_unit_ms) {}

  std::string Do(const Words& words) {
    static const std::map<std::string, std::string (ScriptedTenant::*)(const Words&)> kCommands = {
        {"connect", &ScriptedTenant::Connect},           // [timeout_ms]
        {"private", &ScriptedTenant::Private},           // name bytes kept|evictable|plain
        {"shared", &ScriptedTenant::Shared},             // name bytes
        {"release", &ScriptedTenant::Release},           // name
        {"set", &ScriptedTenant::Set},                   // set_name shared_name manifest
        {"retire", &ScriptedTenant::Retire},             // set_name
        {"map", &ScriptedTenant::Map},                   // set_name: its segment is then known by the set's name
        {"unmap", &ScriptedTenant::Unmap},               // set_name
        {"sets", &ScriptedTenant::Sets},                 //
        {"turn", &ScriptedTenant::TakeTurn},             // timeout_ms: answers token and lost segment names
        {"yield", &ScriptedTenant::Yield},               // names to keep
        {"drop_turn", &ScriptedTenant::DropTurn},        // lets the Turn go out of scope
        {"await_revoke", &ScriptedTenant::AwaitRevoke},  // timeout_ms
        {"begin", &ScriptedTenant::Begin},               // set_name
        {"commit", &ScriptedTenant::Commit},             // set_name note
        {"fill", &ScriptedTenant::Fill},                 // name seed
        {"check", &ScriptedTenant::Check},               // name seed
        {"peek", &ScriptedTenant::Peek},                 // name: first byte
        {"place", &ScriptedTenant::Place},               // name: offset from the lowest mapped address
        {"attack", &ScriptedTenant::Attack},             // name: what the kernel refuses on a reader's map
        {"break", &ScriptedTenant::Break},               //
        {"fork", &ScriptedTenant::Fork},                 // a child that holds the lifeline and sleeps; answers its pid
        {"events", &ScriptedTenant::Events},             // what the callbacks saw since the last time
        {"gone", &ScriptedTenant::AwaitGone},            // timeout_ms
        {"disconnect", &ScriptedTenant::Disconnect},
        {"pingpong", &ScriptedTenant::PingPong},  // n: takes and yields n turns; answers mean wait in us
    };
    const auto command = kCommands.find(words[0]);
    if (command == kCommands.end()) return "error unknown command " + words[0];
    return (this->*command->second)(words);
  }

 private:
  std::string Connect(const Words& words) {
    SessionOptions options;
    options.run_dir = run_dir_;
    options.tenant = name_;
    options.longest_unit = absl::Milliseconds(longest_unit_ms_);
    if (words.size() > 1) options.connect_timeout = absl::Milliseconds(Number(words[1]));
    options.on_set_changed = [this](const SetView& set) {
      static const char* const kStates[] = {"empty", "committed", "writing", "torn", "absent"};
      Record(absl::StrCat("set:", set.name, ":", kStates[static_cast<int>(set.state)], ":", set.version));
    };
    options.on_unmap = [this](uint64_t segment_id) { Record(absl::StrCat("unmap:", segment_id)); };
    auto session = Session::Connect(std::move(options));
    if (!session.ok()) return Answer(session.status());
    session_ = *std::move(session);
    return "ok";
  }

  std::string Private(const Words& words) {
    PrivateOptions options{.name = words[1], .bytes = Number(words[2])};
    options.usually_kept = words[3] == "kept";
    options.may_evict = words[3] == "evictable";
    return Keep(words[1], session_->CreatePrivate(options));
  }
  std::string Shared(const Words& words) { return Keep(words[1], session_->CreateShared(words[1], Number(words[2]))); }
  std::string Keep(const std::string& name, const absl::StatusOr<Segment>& segment) {
    if (!segment.ok()) return Answer(segment.status());
    segments_[name] = *segment;
    return absl::StrCat("ok ", segment->id);
  }
  std::string Release(const Words& words) { return Answer(session_->Release(segments_[words[1]])); }

  std::string Set(const Words& words) {
    const auto set = session_->CreateSet(words[1], segments_[words[2]], {}, words[3]);
    return set.ok() ? absl::StrCat("ok ", set->id) : Answer(set.status());
  }
  std::optional<SetView> FindSet(const std::string& name) {
    for (const SetView& set : session_->Sets()) {
      if (set.name == name) return set;
    }
    return std::nullopt;
  }
  std::string Retire(const Words& words) { return Answer(session_->RetireSet(FindSet(words[1])->id)); }
  std::string Map(const Words& words) {
    const auto set = FindSet(words[1]);
    if (!set) return "error no such set";
    return Keep(words[1], session_->MapSet(*set));
  }
  std::string Unmap(const Words& words) { return Answer(session_->UnmapSegment(segments_[words[1]].id)); }
  std::string Sets(const Words&) {
    std::vector<std::string> sets;
    for (const SetView& set : session_->Sets()) {
      sets.push_back(absl::StrCat(set.name, ":", set.version, ":", set.manifest, ":", set.note));
    }
    return absl::StrCat("ok ", absl::StrJoin(sets, " "));
  }

  std::string TakeTurn(const Words& words) {
    auto turn = session_->RequestTurn(absl::Milliseconds(Number(words[1])));
    if (!turn.ok()) return Answer(turn.status());
    turn_.emplace(*std::move(turn));
    std::string lost;
    for (const auto& [name, segment] : segments_) {
      if (turn_->Lost(segment)) absl::StrAppend(&lost, " ", name);
    }
    return absl::StrCat("ok ", turn_->token(), lost);
  }
  std::string Yield(const Words& words) {
    std::vector<const Segment*> keep;
    for (size_t i = 1; i < words.size(); ++i) keep.push_back(&segments_[words[i]]);
    return Answer(turn_->Yield(keep));
  }
  std::string DropTurn(const Words&) {
    turn_.reset();
    return "ok";
  }
  std::string AwaitRevoke(const Words& words) {
    const absl::Time deadline = absl::Now() + absl::Milliseconds(Number(words[1]));
    while (!turn_->ShouldYield()) {
      if (absl::Now() > deadline) return "error not revoked";
      absl::SleepFor(absl::Milliseconds(1));
    }
    return "ok";
  }
  std::string Begin(const Words& words) { return Answer(turn_->BeginWrite(FindSet(words[1])->id)); }
  std::string Commit(const Words& words) {
    const auto version = turn_->Commit(FindSet(words[1])->id, words[2]);
    return version.ok() ? absl::StrCat("ok ", *version) : Answer(version.status());
  }

  static uint64_t Word(uint64_t seed, uint64_t index) {
    return (seed + 1) * 0x9E3779B97F4A7C15ULL ^ index * 0xD1B54A32D192ED03ULL;
  }
  std::string Fill(const Words& words) {
    const Segment& segment = segments_[words[1]];
    auto* data = reinterpret_cast<uint64_t*>(segment.data);
    for (uint64_t i = 0; i < segment.bytes / 8; ++i) data[i] = Word(Number(words[2]), i);
    return "ok";
  }
  std::string Check(const Words& words) {
    const Segment& segment = segments_[words[1]];
    const auto* data = reinterpret_cast<const uint64_t*>(segment.data);
    for (uint64_t i = 0; i < segment.bytes / 8; ++i) {
      if (data[i] != Word(Number(words[2]), i)) return absl::StrCat("error differs at byte ", i * 8);
    }
    return "ok";
  }
  std::string Peek(const Words& words) { return absl::StrCat("ok ", static_cast<int>(*segments_[words[1]].data)); }
  std::string Place(const Words& words) {
    return absl::StrCat("ok ", reinterpret_cast<uintptr_t>(segments_[words[1]].data));
  }

  std::string Attack(const Words& words) {
    const Segment& segment = segments_[words[1]];
    if (mprotect(segment.data, 4096, PROT_READ | PROT_WRITE) == 0) return "error mprotect made the map writable";
    return absl::StrCat("ok mprotect ", strerrorname_np(errno));
  }

  std::string Break(const Words&) {
    session_->BreakStreamForTest();
    return "ok";
  }
  std::string Fork(const Words&) {
    const pid_t child = fork();  // what a tenant must not do: the child inherits the lifeline
    if (child == 0) {
      close(STDIN_FILENO);
      close(STDOUT_FILENO);
      while (true) pause();
    }
    return absl::StrCat("ok ", child);
  }
  std::string Events(const Words&) {
    MutexLock lock(mutex_);
    const std::string events = absl::StrJoin(events_, " ");
    events_.clear();
    return absl::StrCat("ok ", events);
  }
  std::string AwaitGone(const Words& words) {
    const absl::Time started = absl::Now();
    while (!session_->arbiter_gone()) {
      if (absl::Now() - started > absl::Milliseconds(Number(words[1]))) return "error the arbiter is still there";
      absl::SleepFor(absl::Milliseconds(1));
    }
    return absl::StrCat("ok ", absl::ToInt64Milliseconds(absl::Now() - started));
  }
  std::string Disconnect(const Words&) {
    session_.reset();
    return "ok";
  }
  std::string PingPong(const Words& words) {
    absl::Duration waited;
    for (uint64_t i = 0; i < Number(words[1]); ++i) {
      const absl::Time asked = absl::Now();
      auto turn = session_->RequestTurn(absl::Seconds(10));
      if (!turn.ok()) return Answer(turn.status());
      waited += absl::Now() - asked;
      const absl::Status yielded = turn->Yield({});
      if (!yielded.ok()) return Answer(yielded);
    }
    return absl::StrCat("ok ", absl::ToInt64Microseconds(waited) / static_cast<int64_t>(Number(words[1])));
  }

  void Record(const std::string& event) {
    MutexLock lock(mutex_);
    events_.push_back(event);
  }

  const std::string run_dir_, name_;
  const int longest_unit_ms_;
  Mutex mutex_;
  std::vector<std::string> events_;
  std::map<std::string, Segment> segments_;
  std::unique_ptr<Session> session_;
  std::optional<Turn> turn_;
};

}  // namespace
}  // namespace tandem::tenant

int main(int argc, char** argv) {
  TANDEM_CHECK(argc == 4, "scripted_tenant RUN_DIR NAME LONGEST_UNIT_MS");
  tandem::InitLog(argv[2], "debug");
  tandem::tenant::ScriptedTenant tenant(argv[1], argv[2], std::atoi(argv[3]));
  std::string line;
  while (std::getline(std::cin, line)) {
    std::cout << tenant.Do(absl::StrSplit(line, ' ', absl::SkipEmpty())) << std::endl;
  }
  return 0;
}
