#!/usr/bin/env bash
# The arrows of the tree: which folder may include which, where gRPC and protobuf may appear, and a few calls that belong
# to one place. Exit code 1 lists each line that breaks a rule.  layering_check.sh [ROOT]
set -euo pipefail
cd "${1:-$(dirname "${BASH_SOURCE[0]}")/..}"

# "FOLDER: folders whose headers it may include" (its own always). The longest FOLDER that fits a file is its rule.
arrows='
common/base:
common/device: common/base
common/lifeline: common/base
common/rpc: common/base
common/collective: common/base
kernels:
arbiter: common
services/tenant: common
services/checkpoint: common/base
services/text: common/base
services/transformer: common/base kernels services/checkpoint
services/rewards: common/base
services/jobs: common/base services/rewards services/text services/checkpoint
services/inference: common kernels services/checkpoint services/text services/tenant services/transformer
services/trainer: common kernels services/checkpoint services/text services/tenant services/transformer services/jobs services/rewards
services/client: common services/checkpoint services/jobs
'
# Files that may include gRPC, protobuf and generated headers.
rpc_files='_service\.(cc|h)$|/main\.cc$|^services/tenant/|^services/client/|^common/rpc/|^proto/'

sources=$(find common kernels arbiter services proto -name '*.cc' -o -name '*.h' -o -name '*.cu' -o -name '*.cuh' | sort)
problems=$(
  grep -HnE '^[[:space:]]*#[[:space:]]*include' $sources | awk -v arrows="$arrows" -v rpc_files="$rpc_files" '
    BEGIN {
      count = split(arrows, lines, "\n")
      for (i = 1; i <= count; i++) {
        if (split(lines[i], halves, ":") < 1 || halves[1] == "") continue
        allowed[halves[1]] = halves[2]
      }
    }
    function under(path, folder) { return index(path, folder "/") == 1 }
    function rule_of(path,    folder, best) {
      best = ""
      for (folder in allowed) if (under(path, folder) && length(folder) > length(best)) best = folder
      return best
    }
    {
      split($0, place, ":")
      file = place[1]
      if (!match($0, /["<][^">]+[">]/)) next
      header = substr($0, RSTART + 1, RLENGTH - 2)
      if (header ~ /^(grpc|grpcpp|google\/protobuf|google\/rpc|tandem\/v1|proto)\// && file !~ rpc_files)
        print file ":" place[2] ": gRPC and protobuf belong to *_service, main.cc, tenant, client and common/rpc: " header
      if (header ~ /^(cuda|cublas|nccl|nvml)/ && file !~ /^kernels\/cuda\// && file !~ /^common\/(device\/cuda|collective\/)/)
        print file ":" place[2] ": CUDA belongs to kernels/cuda and common/device: " header
      if (header ~ /^(common|kernels|arbiter|services|tests)\//) {
        rule = rule_of(file)
        fine = under(header, rule)
        n = split(allowed[rule], folders, " ")
        for (i = 1; i <= n; i++) if (under(header, folders[i])) fine = 1
        if (rule == "") print file ":" place[2] ": this folder has no rule in tests/layering_check.sh"
        else if (!fine) print file ":" place[2] ": " rule " must not include " header
      }
    }'
  # The environment and flags are read in main.cc only; memory of the pool is made in common/device only.
  grep -HnE '\b(secure_)?getenv\(' $sources | grep -vE '^[^:]*/main\.cc:' | sed 's/:[^:]*$/: the environment is read in main.cc only/' || true
  grep -HnE '\bmemfd_create\(' $sources | grep -vE '^common/device/' | sed 's/:[^:]*$/: memory of the pool is made in common\/device only/' || true
  grep -HnE '\b(fork|vfork|system|popen)\(' $sources | grep -vE '//.*(fork|system|popen)\(' | sed 's/:[^:]*$/: children are started by posix_spawn only/' || true
)
if [[ -n "$problems" ]]; then
  echo "$problems"
  exit 1
fi
echo "layering: $(wc -w <<<"$sources") files"
