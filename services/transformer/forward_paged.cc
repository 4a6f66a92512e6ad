// The forward of inference: rows of many sequences, keys and values in blocks.

#include <vector>

#include "common/base/status.h"
#include "services/transformer/transformer.h"
#include "services/transformer/workspace.h"

namespace tandem {
namespace {

struct PagedBuffers {
  PagedBuffers(const ModelConfig& config, int rows, std::byte* base) {
    Workspace workspace(base);
    const int64_t r = rows;
    hidden = workspace.Floats(r * config.hidden_size);
    norm = workspace.Floats(r * config.hidden_size);
    qkv = workspace.Floats(r * config.qkv_size());
    attention = workspace.Floats(r * config.q_size());
    middle = workspace.Floats(r * config.hidden_size);
    gate_up = workspace.Floats(r * 2 * config.intermediate_size);
    activation = workspace.Floats(r * config.intermediate_size);
    angles = workspace.Floats(r * config.head_dim);
    bytes = workspace.bytes();
  }

  float *hidden, *norm, *qkv, *attention, *middle, *gate_up, *activation, *angles;
  uint64_t bytes;
};

}  // namespace

uint64_t Transformer::KvBytes(int64_t blocks) const {
  return static_cast<uint64_t>(blocks) * config_.num_hidden_layers * attention_shape().kv_block_elements() *
         sizeof(float);
}

uint64_t Transformer::PagedWorkspaceBytes(int max_rows) const {
  return PagedBuffers(config_, max_rows, nullptr).bytes;
}

void Transformer::ForwardPaged(const float* weights, const PagedBatch& batch, float* kv, std::byte* workspace,
                               float* hidden) const {
  const int rows = static_cast<int>(batch.tokens.size());
  TANDEM_CHECK(batch.positions.size() == batch.tokens.size() && batch.sequence.size() == batch.tokens.size(), rows);
  if (rows == 0) return;
  const PagedBuffers b(config_, rows, workspace);
  const AttentionShape shape = attention_shape();
  std::vector<const int*> tables;
  tables.reserve(batch.block_tables.size());
  for (const auto& table : batch.block_tables) tables.push_back(table.data());
  const PagedRows paged{.rows = rows,
                        .positions = batch.positions.data(),
                        .sequence = batch.sequence.data(),
                        .block_tables = tables.data(),
                        .block_stride = config_.num_hidden_layers * shape.kv_block_elements()};
  kernels_.Embedding(weights + embed_, batch.tokens.data(), rows, config_.hidden_size, config_.vocab_size, b.hidden);
  kernels_.RopeAngles(batch.positions.data(), rows, config_.head_dim, config_.rope_theta, b.angles);
  for (int layer = 0; layer < config_.num_hidden_layers; ++layer) {
    float* layer_kv = kv + layer * shape.kv_block_elements();
    LayerHead(weights, layer, rows, b.hidden, b.angles, b.norm, b.qkv);
    kernels_.StoreKv(shape, b.qkv, paged, layer_kv);
    kernels_.AttentionPaged(shape, b.qkv, paged, layer_kv, b.attention);
    LayerTail(weights, layer, rows,
              {.input = b.hidden,
               .attention = b.attention,
               .middle = b.middle,
               .norm = b.norm,
               .gate_up = b.gate_up,
               .activation = b.activation,
               .output = b.hidden});
  }
  const int wanted = static_cast<int>(batch.output_rows.size());
  kernels_.GatherRows(b.hidden, batch.output_rows.data(), wanted, config_.hidden_size, b.norm);
  kernels_.RmsNorm(b.norm, weights + norm_, wanted, config_.hidden_size, config_.rms_norm_eps, hidden);
}

}  // namespace tandem
