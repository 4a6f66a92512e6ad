#!/usr/bin/env bash
# Every C++ file of the repository is as clang-format writes it. Exit code 1 names those that are not.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

mapfile -t files < <(git ls-files --cached --others --exclude-standard '*.cc' '*.h')
bad=()
for file in "${files[@]}"; do
  [[ -f $file ]] || continue
  clang-format --style=file "$file" | cmp -s - "$file" || bad+=("$file")
done
if ((${#bad[@]} > 0)); then
  printf 'not formatted: %s\n' "${bad[@]}"
  echo "remedy: clang-format -i ${bad[*]}"
  exit 1
fi
echo "format: ${#files[@]} files"
