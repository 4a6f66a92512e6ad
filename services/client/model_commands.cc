// tandem load: serve a model. tandem model init: make a new one with random weights.

#include <filesystem>
#include <iostream>

#include "common/base/file.h"
#include "services/checkpoint/model_init.h"
#include "services/client/commands.h"
#include "services/client/daemon_call.h"
#include "services/client/progress_line.h"

namespace tandem::client {
namespace {

constexpr absl::Duration kLoadTimeout = absl::Minutes(10);

int Load(const RunDir& run_dir, const std::string& dir) {
  v1::LoadModelRequest request;
  request.set_path(std::filesystem::absolute(dir).lexically_normal().string());
  grpc::ClientContext context;
  SetTimeout(context, kLoadTimeout);
  v1::LoadModelResponse response;
  const grpc::Status status = InferenceStub(run_dir)->LoadModel(&context, request, &response);
  if (!status.ok()) return ReportError(status, "inference", run_dir);
  std::cerr << "serving " << response.model() << ", " << HumanBytes(response.bytes()) << ". Talk to it: tandem chat\n";
  return kOk;
}

struct InitOptions {
  std::string out;
  std::string config_file;
  ModelInit init;
};

int InitNewModel(InitOptions options) {
  if (!options.config_file.empty()) {
    const auto text = ReadFile(options.config_file, size_t{1} << 20);
    if (!text.ok()) {
      std::cerr << "error: " << text.status().message() << "\n";
      return kUsage;
    }
    options.init.config_json = *text;
  }
  if (const absl::Status status = InitModel(options.out, options.init); !status.ok()) {
    std::cerr << "error: " << status.message() << "\n";
    return kUsage;
  }
  std::cout << options.out << "\n";
  return kOk;
}

void AddInitCommand(CLI::App& model, Cli& cli) {
  auto options = std::make_shared<InitOptions>();
  ModelConfig& config = options->init.config;
  config.hidden_size = 128;
  config.intermediate_size = 512;
  config.num_hidden_layers = 3;
  config.num_attention_heads = 4;
  CLI::App* init = model.add_subcommand("init", "Make a Hugging Face directory with random weights");
  init->add_option("--out", options->out, "Directory to make; must not exist")->required();
  init->add_option("--config", options->config_file, "A config.json with the dimensions, instead of those below");
  init->add_option("--hidden_size", config.hidden_size)->capture_default_str();
  init->add_option("--intermediate_size", config.intermediate_size)->capture_default_str();
  init->add_option("--num_hidden_layers,--layers", config.num_hidden_layers)->capture_default_str();
  init->add_option("--num_attention_heads,--heads", config.num_attention_heads)->capture_default_str();
  init->add_option("--num_key_value_heads,--kv_heads", config.num_key_value_heads, "Default: as attention heads");
  init->add_option("--head_dim", config.head_dim, "Default: hidden_size / num_attention_heads");
  init->add_option("--vocab_size", config.vocab_size, "Default: the tokenizer's");
  init->add_option("--max_position_embeddings", config.max_position_embeddings, "Default: 2048");
  init->add_option("--rope_theta", config.rope_theta)->capture_default_str();
  init->add_option("--tie_word_embeddings", config.tie_word_embeddings, "true or false")->capture_default_str();
  init->add_option("--tokenizer", options->init.tokenizer_dir, "Copy the tokenizer of this directory (default: bytes)");
  init->add_flag("--chat", options->init.chat, "Give the byte tokenizer a chat template");
  init->add_option("--initializer_range", options->init.initializer_range)->capture_default_str();
  init->add_option("--seed", options->init.seed)->capture_default_str();
  init->callback([&cli, options] { cli.exit_code = InitNewModel(*options); });
}

}  // namespace

void AddModelCommands(CLI::App& app, Cli& cli) {
  auto dir = std::make_shared<std::string>();
  CLI::App* load = app.add_subcommand("load", "Serve a Hugging Face directory");
  load->add_option("dir", *dir, "The directory, on this machine")->required();
  load->callback([&cli, dir] { cli.exit_code = Load(cli.Dir(), *dir); });

  CLI::App* model = app.add_subcommand("model", "Make models");
  model->require_subcommand(1);
  AddInitCommand(*model, cli);
}

}  // namespace tandem::client
