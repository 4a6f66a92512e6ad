// tandem chat: a conversation with the served model. From a terminal it prompts; otherwise each line of standard input
// is one turn of the user, and the answers go to standard output.

#include <unistd.h>

#include <iostream>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "services/client/commands.h"
#include "services/client/generation.h"

namespace tandem::client {
namespace {

struct ChatOptions {
  std::string system;
  bool plain = false;
  SamplingOptions sampling;
};

class Conversation {
 public:
  Conversation(const RunDir& run_dir, const ChatOptions& options)
      : run_dir_(run_dir), options_(options), stub_(InferenceStub(run_dir)), plain_(options.plain) {
    Clear();
  }

  // Sends one turn, streams the answer, keeps both. An answer that failed or was aborted leaves no turn behind.
  int Say(const std::string& text) {
    Generation generation;
    grpc::Status status = Send(text, generation);
    if (status.error_code() == grpc::StatusCode::INVALID_ARGUMENT && !plain_ &&
        absl::StrContains(status.error_message(), "chat template")) {
      std::cerr << "note: the model has no chat template; each line is sent as plain text, without history\n";
      plain_ = true;
      status = Send(text, generation);
    }
    if (!generation.model.empty()) std::cout << std::endl;
    if (status.error_code() == grpc::StatusCode::CANCELLED) {
      std::cerr << "aborted\n";
      return kOk;
    }
    if (!status.ok()) return ReportError(status, "inference", run_dir_);
    Add("user", text);
    Add("assistant", generation.completions[0].text);
    if (generation.completions[0].finish_reason == v1::FINISH_REASON_LENGTH) {
      std::cerr << "note: the answer was cut at --max_tokens " << options_.sampling.max_tokens
                << " or the end of the model's context\n";
    }
    return kOk;
  }

  void Clear() {
    history_.Clear();
    if (!options_.system.empty()) Add("system", options_.system);
  }

 private:
  void Add(const char* role, const std::string& content) {
    v1::Message& message = *history_.add_messages();
    message.set_role(role);
    message.set_content(content);
  }

  grpc::Status Send(const std::string& text, Generation& generation) {
    v1::GenerateRequest request;
    Fill(options_.sampling, request);
    if (plain_) {
      request.set_text(text);
    } else {
      *request.mutable_messages() = history_;
      v1::Message& message = *request.mutable_messages()->add_messages();
      message.set_role("user");
      message.set_content(text);
    }
    return RunGeneration(*stub_, request, generation,
                         [](int /*index*/, const std::string& piece) { std::cout << piece << std::flush; });
  }

  const RunDir run_dir_;
  const ChatOptions options_;
  std::unique_ptr<v1::Inference::Stub> stub_;
  bool plain_;
  v1::Messages history_;
};

int Chat(const RunDir& run_dir, const ChatOptions& options) {
  const bool terminal = isatty(STDIN_FILENO) == 1;
  Conversation conversation(run_dir, options);
  if (terminal) std::cerr << "/clear forgets the conversation, /exit or Ctrl-D ends; Ctrl-C aborts an answer\n";
  std::string line;
  while (true) {
    if (terminal) std::cerr << "> " << std::flush;
    if (!std::getline(std::cin, line)) break;
    const std::string text(absl::StripAsciiWhitespace(line));
    if (text.empty()) continue;
    if (text == "/exit") break;
    if (text == "/clear") {
      conversation.Clear();
      continue;
    }
    // From a terminal one can try again; a script must learn of the failure.
    if (const int code = conversation.Say(text); code != kOk && !terminal) return code;
  }
  if (terminal) std::cerr << "\n";
  return kOk;
}

}  // namespace

void AddChatCommand(CLI::App& app, Cli& cli) {
  auto options = std::make_shared<ChatOptions>();
  options->sampling.max_tokens = 512;
  CLI::App* chat = app.add_subcommand("chat", "Talk to the served model; each line of standard input is one turn");
  chat->add_option("--system", options->system, "System message");
  chat->add_flag("--plain", options->plain, "Send each line as plain text: no chat template, no history");
  AddSamplingOptions(*chat, options->sampling);
  chat->callback([&cli, options] { cli.exit_code = Chat(cli.Dir(), *options); });
}

}  // namespace tandem::client
