#include "services/inference/inference_service.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/rpc/status_mapping.h"
#include "services/inference/completion_stream.h"
#include "services/inference/model_load.h"

namespace tandem::inference {
namespace {

// How often a waiting call looks whether its caller is still there.
constexpr absl::Duration kPoll = absl::Milliseconds(50);
// How long a rollout waits for its version to be seen here: the commit was answered to the trainer a moment earlier.
constexpr absl::Duration kVersionWait = absl::Seconds(5);
constexpr absl::Duration kLoadTimeout = absl::Minutes(10);
constexpr absl::Duration kReleaseTimeout = absl::Seconds(30);

grpc::Status Invalid(const std::vector<FieldError>& errors) {
  std::vector<rpc::FieldViolation> violations;
  violations.reserve(errors.size());
  for (const FieldError& error : errors) violations.push_back({error.field, error.description});
  return rpc::InvalidFields(violations);
}

uint64_t DrawSeed() {
  std::random_device device;
  return (static_cast<uint64_t>(device()) << 32) | device();
}

SamplingFields Fields(const v1::SamplingParams& params) {
  SamplingFields fields;
  if (params.has_temperature()) fields.temperature = params.temperature();
  if (params.has_top_p()) fields.top_p = params.top_p();
  if (params.has_top_k()) fields.top_k = params.top_k();
  if (params.has_max_tokens()) fields.max_tokens = params.max_tokens();
  if (params.has_n()) fields.n = params.n();
  if (params.has_seed()) fields.seed = params.seed();
  fields.ignore_eos = params.ignore_eos();
  return fields;
}

v1::FinishReason ToProto(FinishReason reason) {
  if (reason == FinishReason::kStop) return v1::FINISH_REASON_STOP;
  return reason == FinishReason::kLength ? v1::FINISH_REASON_LENGTH : v1::FINISH_REASON_UNSPECIFIED;
}

// The prompt's ids and the field they came from.
absl::StatusOr<std::vector<int>> PromptIds(const v1::GenerateRequest& request, const ServedModel& model,
                                           std::string& field) {
  if (request.prompt_case() == v1::GenerateRequest::kTokenIds) {
    field = "token_ids.ids";
    return std::vector<int>(request.token_ids().ids().begin(), request.token_ids().ids().end());
  }
  if (model.tokenizer == nullptr) return model.tokenizer_error;
  if (request.prompt_case() == v1::GenerateRequest::kText) {
    field = "text";
    return model.tokenizer->Encode(request.text(), /*add_special_tokens=*/true);
  }
  field = "messages";
  std::vector<text::ChatMessage> messages;
  for (const v1::Message& message : request.messages().messages()) {
    messages.push_back({message.role(), message.content()});
  }
  if (messages.empty()) return std::vector<int>();
  TANDEM_ASSIGN_OR_RETURN(const std::string rendered, model.tokenizer->RenderChat(messages, true));
  return model.tokenizer->Encode(rendered, /*add_special_tokens=*/false);
}

// Turns chunks into messages: one for each completion that got tokens, with the text that they complete.
class GenerateWriter {
 public:
  GenerateWriter(const v1::GenerateRequest& request, const ServedModel& model, const std::vector<int>& prompt,
                 grpc::ServerWriter<v1::GenerateResponse>& writer)
      : request_(request), model_(model), prompt_(prompt), writer_(writer) {}

  // False when the caller is gone.
  bool Write(const CompletionStream::Chunk& chunk) {
    if (chunk.prompt_logprobs) {
      prompt_logprobs_ = *chunk.prompt_logprobs;
      prompt_version_ = chunk.prompt_version;
    }
    std::vector<v1::GenerateResponse> messages;
    std::vector<int> message_of(streams_.size(), -1);
    for (const TokenEvent& event : chunk.tokens) {
      const auto index = static_cast<size_t>(event.index);
      if (message_of.size() <= index) message_of.resize(index + 1, -1);
      if (message_of[index] < 0) {
        message_of[index] = static_cast<int>(messages.size());
        messages.emplace_back().set_index(event.index);
      }
      Append(event, messages[static_cast<size_t>(message_of[index])]);
    }
    for (v1::GenerateResponse& message : messages) {
      if (!std::exchange(first_sent_, true)) AddPrompt(message);
      if (!writer_.Write(message)) return false;
    }
    return true;
  }

 private:
  void Append(const TokenEvent& event, v1::GenerateResponse& message) {
    message.add_token_ids(event.token);
    if (request_.logprobs()) message.add_logprobs(event.logprob);
    message.add_versions(event.version);
    if (model_.tokenizer != nullptr) {
      const auto index = static_cast<size_t>(event.index);
      if (streams_.size() <= index) streams_.resize(index + 1);
      if (streams_[index] == nullptr) streams_[index] = std::make_unique<text::DecodeStream>(*model_.tokenizer, true);
      if (const std::optional<std::string> piece = streams_[index]->Step(event.token))
        message.mutable_text()->append(*piece);
      if (event.finish != FinishReason::kNone) message.mutable_text()->append(streams_[index]->Flush());
    }
    message.set_finish_reason(ToProto(event.finish));
  }

  void AddPrompt(v1::GenerateResponse& message) {
    message.mutable_prompt_token_ids()->Add(prompt_.begin(), prompt_.end());
    message.mutable_prompt_logprobs()->Add(prompt_logprobs_.begin(), prompt_logprobs_.end());
    message.set_prompt_version(prompt_version_);
    message.set_model(model_.name);
  }

  const v1::GenerateRequest& request_;
  const ServedModel& model_;
  const std::vector<int>& prompt_;
  grpc::ServerWriter<v1::GenerateResponse>& writer_;
  std::vector<std::unique_ptr<text::DecodeStream>> streams_;  // one for each completion
  std::vector<float> prompt_logprobs_;
  uint64_t prompt_version_ = 0;
  bool first_sent_ = false;
};

}  // namespace

grpc::Status InferenceService::Generate(grpc::ServerContext* context, const v1::GenerateRequest* request,
                                        grpc::ServerWriter<v1::GenerateResponse>* writer) {
  const ServedState served = engine_.served();
  if (served.model == nullptr) return rpc::ToGrpc(served.status);
  const std::shared_ptr<const ServedModel> model = served.model;
  if (!request->model().empty() && request->model() != model->name) {
    return {grpc::StatusCode::NOT_FOUND,
            absl::StrCat("model '", request->model(), "' is not served; served is '", model->name, "'")};
  }
  std::vector<FieldError> errors;
  const SamplingFields fields = Fields(request->sampling());
  SamplingParams params = CheckSampling(fields, &model->config, DrawSeed(), errors);
  if (request->prompt_case() == v1::GenerateRequest::PROMPT_NOT_SET) {
    errors.push_back({"prompt", "none given: set text, messages or token_ids"});
    return Invalid(errors);
  }
  std::string field;
  absl::StatusOr<std::vector<int>> prompt = PromptIds(*request, *model, field);
  if (!prompt.ok()) return rpc::ToGrpc(prompt.status());
  CheckPrompt(field, *prompt, model->config, fields, params, errors);
  if (!errors.empty()) return Invalid(errors);
  auto stream = std::make_shared<CompletionStream>();
  const absl::StatusOr<uint64_t> id = engine_.Submit(
      {.set_id = model->set_id,
       .prompts = {*prompt},
       .sampling = params,
       .end_tokens = params.ignore_eos ? std::vector<int>() : model->end_tokens,
       .prompt_logprobs = request->prompt_logprobs(),
       .pinned_version = std::nullopt,
       .timeout = request->timeout_ms() == 0 ? request_timeout_ : absl::Milliseconds(request->timeout_ms()),
       .sink = stream});
  if (!id.ok()) return rpc::ToGrpc(id.status());
  GenerateWriter out(*request, *model, *prompt, *writer);
  while (true) {
    const CompletionStream::Chunk chunk = stream->Read(kPoll);
    if (context->IsCancelled() || !out.Write(chunk)) {
      stream->Cancel();
      engine_.Abort(*id);
      return {grpc::StatusCode::CANCELLED, "the caller is gone"};
    }
    if (chunk.done) return rpc::ToGrpc(*chunk.done);
  }
}

grpc::Status InferenceService::Rollout(grpc::ServerContext* context, const v1::RolloutRequest* request,
                                       v1::RolloutResponse* response) {
  const absl::StatusOr<std::shared_ptr<const ServedModel>> model =
      engine_.WaitServed({.set_id = request->set_id(), .version = request->version()}, kVersionWait);
  if (!model.ok()) return rpc::ToGrpc(model.status());
  std::vector<FieldError> errors;
  const SamplingFields fields = Fields(request->sampling());
  SamplingParams params = CheckSampling(fields, nullptr, DrawSeed(), errors);
  std::vector<std::vector<int>> prompts;
  for (int i = 0; i < request->prompts_size(); ++i) {
    const auto& ids = request->prompts(i).ids();
    prompts.emplace_back(ids.begin(), ids.end());
    CheckPrompt(absl::StrCat("prompts[", i, "].ids"), prompts.back(), (*model)->config, fields, params, errors);
  }
  if (prompts.empty()) errors.push_back({"prompts", "none given"});
  if (!errors.empty()) return Invalid(errors);
  std::vector<int> end_tokens(request->stop_token_ids().begin(), request->stop_token_ids().end());
  if (!params.ignore_eos) {
    end_tokens.insert(end_tokens.end(), (*model)->end_tokens.begin(), (*model)->end_tokens.end());
  }
  std::sort(end_tokens.begin(), end_tokens.end());
  auto batch = std::make_shared<CompletionBatch>(request->prompts_size() * params.n);
  const absl::StatusOr<uint64_t> id = engine_.Submit({.set_id = request->set_id(),
                                                      .prompts = std::move(prompts),
                                                      .sampling = params,
                                                      .end_tokens = std::move(end_tokens),
                                                      .prompt_logprobs = false,
                                                      .pinned_version = request->version(),
                                                      .timeout = request_timeout_,
                                                      .sink = batch});
  if (!id.ok()) return rpc::ToGrpc(id.status());
  std::optional<absl::Status> done;
  while (!(done = batch->Wait(kPoll))) {
    if (!context->IsCancelled()) continue;
    batch->Cancel();
    engine_.Abort(*id);
    return {grpc::StatusCode::CANCELLED, "the caller is gone"};
  }
  if (!done->ok()) return rpc::ToGrpc(*done);
  for (const CompletionBatch::Completion& completion : batch->completions()) {
    v1::Completion& out = *response->add_completions();
    out.mutable_token_ids()->Add(completion.tokens.begin(), completion.tokens.end());
    out.mutable_logprobs()->Add(completion.logprobs.begin(), completion.logprobs.end());
    out.set_finish_reason(ToProto(completion.finish));
    out.set_version(completion.version);
  }
  response->set_busy_seconds(absl::ToDoubleSeconds(batch->busy()));
  return grpc::Status::OK;
}

grpc::Status InferenceService::LoadModel(grpc::ServerContext* /*context*/, const v1::LoadModelRequest* request,
                                         v1::LoadModelResponse* response) {
  if (request->path().empty()) return Invalid({{"path", "empty: name a Hugging Face directory"}});
  absl::StatusOr<PreparedLoad> load = PrepareLoad(request->path());
  if (!load.ok()) return rpc::ToGrpc(load.status());
  response->set_model(load->dir);
  response->set_bytes(load->manifest.bytes());
  return rpc::ToGrpc(engine_.Load(*std::move(load), kLoadTimeout));
}

grpc::Status InferenceService::ReleaseModel(grpc::ServerContext* /*context*/,
                                            const v1::ReleaseModelRequest* /*request*/,
                                            v1::ReleaseModelResponse* /*response*/) {
  return rpc::ToGrpc(engine_.Release(kReleaseTimeout));
}

grpc::Status InferenceService::GetInferenceState(grpc::ServerContext* /*context*/,
                                                 const v1::GetInferenceStateRequest* /*request*/,
                                                 v1::GetInferenceStateResponse* response) {
  const ServedState served = engine_.served();
  const Occupancy occupancy = engine_.occupancy();
  response->set_version(TANDEM_VERSION);
  if (served.model != nullptr) {
    response->set_model(served.model->name);
    response->set_weights_version(served.version);
    response->set_dtype("float32");
    response->set_weights_bytes(served.model->manifest.bytes());
  }
  response->set_running(static_cast<uint32_t>(occupancy.running));
  response->set_waiting(static_cast<uint32_t>(occupancy.waiting));
  response->set_kv_blocks(static_cast<uint32_t>(occupancy.kv_blocks));
  response->set_kv_blocks_used(static_cast<uint32_t>(occupancy.kv_blocks_used));
  response->set_prompt_tokens_total(metrics_.prompt_tokens());
  response->set_generated_tokens_total(metrics_.generated_tokens());
  return grpc::Status::OK;
}

}  // namespace tandem::inference
