#!/usr/bin/env bash
# Installs the Debian 12 packages that Tandem is built with. Does nothing, and asks for no rights, when all are there.
#   install_packages.sh            what building the product and the tests needs
#   install_packages.sh --checks   also the tools of the checks (clang-format, clang-tidy)
# Exit codes: 0 all installed, 2 cannot install (the text says what to do).
set -euo pipefail

packages=(
  g++ cmake ninja-build ccache pkg-config
  libgrpc++-dev protobuf-compiler protobuf-compiler-grpc libprotobuf-dev libabsl-dev
  prometheus-cpp-dev libspdlog-dev libyaml-cpp-dev nlohmann-json3-dev libre2-dev libicu-dev
  libdnnl-dev libcli11-dev libsqlite3-dev
  libgtest-dev libgmock-dev
)
[[ "${1:-}" == "--checks" ]] && packages+=(clang-format clang-tidy)

missing=()
for package in "${packages[@]}"; do
  status=$(dpkg-query -W -f '${db:Status-Abbrev}' "$package" 2>/dev/null || true)
  [[ "$status" == ii* ]] || missing+=("$package")
done
if ((${#missing[@]} == 0)); then
  echo "packages: all ${#packages[@]} installed"
  exit 0
fi

if ! command -v apt-get >/dev/null; then
  echo "install_packages.sh: apt-get not found; install by hand: ${missing[*]}" >&2
  exit 2
fi
as_root=()
if ((EUID != 0)); then
  if ! command -v sudo >/dev/null; then
    echo "install_packages.sh: needs root to install packages; run as root: apt-get install -y ${missing[*]}" >&2
    exit 2
  fi
  as_root=(sudo)
fi

echo "packages: installing ${#missing[@]} of ${#packages[@]}: ${missing[*]}"
log=$(mktemp "${TMPDIR:-/tmp}/tandem-packages-XXXXXX.log")
export DEBIAN_FRONTEND=noninteractive
install() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
    -o Dpkg::Use-Pty=0 "${missing[@]}"
}
if ! { "${as_root[@]}" apt-get update && install; } >"$log" 2>&1; then
  tail -n 15 "$log" >&2
  echo "install_packages.sh: apt-get failed (whole output: $log)." >&2
  echo "Check the network and /etc/apt/sources.list, then run again; Debian 12 (bookworm) main has every package." >&2
  exit 2
fi
rm -f "$log"
echo "packages: installed"
