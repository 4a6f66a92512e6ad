// tandem generate: completions of one prompt, streamed to standard output.

#include <unistd.h>

#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "services/client/commands.h"
#include "services/client/generation.h"

namespace tandem::client {
namespace {

struct GenerateOptions {
  std::string prompt;
  bool chat = false;
  std::string system;
  bool logprobs = false;
  std::string output = "text";
  SamplingOptions sampling;
};

nlohmann::json ToJson(const Generation& generation, bool logprobs) {
  nlohmann::json completions = nlohmann::json::array();
  for (const GeneratedText& completion : generation.completions) {
    nlohmann::json entry = {{"text", completion.text},
                            {"token_ids", completion.token_ids},
                            {"versions", completion.versions},
                            {"finish_reason", v1::FinishReason_Name(completion.finish_reason)}};
    if (logprobs) entry["logprobs"] = completion.logprobs;
    completions.push_back(std::move(entry));
  }
  return {{"model", generation.model}, {"prompt_token_ids", generation.prompt_token_ids}, {"completions", completions}};
}

v1::GenerateRequest MakeRequest(const GenerateOptions& options) {
  v1::GenerateRequest request;
  Fill(options.sampling, request);
  request.set_logprobs(options.logprobs);
  if (!options.chat && options.system.empty()) {
    request.set_text(options.prompt);
    return request;
  }
  const auto add = [&](const char* role, const std::string& content) {
    v1::Message& message = *request.mutable_messages()->add_messages();
    message.set_role(role);
    message.set_content(content);
  };
  if (!options.system.empty()) add("system", options.system);
  add("user", options.prompt);
  return request;
}

int Generate(const RunDir& run_dir, GenerateOptions options) {
  if (options.prompt.empty() || options.prompt == "-") {
    if (isatty(STDIN_FILENO) == 1) std::cerr << "type the prompt, end it with Ctrl-D\n";
    options.prompt.assign(std::istreambuf_iterator<char>(std::cin), {});
  }
  const bool stream = options.output == "text" && options.sampling.n == 1;
  Generation generation;
  const auto stub = InferenceStub(run_dir);
  const grpc::Status status =
      RunGeneration(*stub, MakeRequest(options), generation, [&](int /*index*/, const std::string& text) {
        if (stream) std::cout << text << std::flush;
      });
  if (stream && !generation.model.empty()) std::cout << std::endl;
  if (status.error_code() == grpc::StatusCode::CANCELLED) {
    std::cerr << "aborted\n";
    return kDetached;
  }
  if (!status.ok()) return ReportError(status, "inference", run_dir);
  if (options.output == "json") std::cout << ToJson(generation, options.logprobs).dump(2) << "\n";
  if (options.output == "text" && !stream) {
    for (size_t i = 0; i < generation.completions.size(); ++i) {
      std::cout << "--- completion " << i << "\n" << generation.completions[i].text << "\n";
    }
  }
  return kOk;
}

}  // namespace

void AddGenerateCommand(CLI::App& app, Cli& cli) {
  auto options = std::make_shared<GenerateOptions>();
  CLI::App* generate = app.add_subcommand("generate", "Complete a prompt with the served model");
  generate->add_option("prompt", options->prompt, "The prompt; without one, or with -, it is read from standard input");
  generate->add_flag("--chat", options->chat, "Send the prompt as a user's message, by the model's chat template");
  generate->add_option("--system", options->system, "System message; implies --chat");
  generate->add_option("-n,--n", options->sampling.n, "Completions")->check(CLI::Range(1, 256));
  generate->add_flag("--logprobs", options->logprobs, "With -o json: log-probabilities of the tokens");
  generate->add_option("--output,-o", options->output, "text or json")->check(CLI::IsMember({"text", "json"}));
  AddSamplingOptions(*generate, options->sampling);
  generate->callback([&cli, options] { cli.exit_code = Generate(cli.Dir(), *options); });
}

}  // namespace tandem::client
