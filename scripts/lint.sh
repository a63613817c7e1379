#!/usr/bin/env bash
# Checks the format and the habits of C++, CUDA and Python; with --fix, formats first.
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
cd "$haloconv_root"

mapfile -t sources < <(
  find op registration cpp_tests examples -name '*.h' -o -name '*.cpp' -o -name '*.cuh' -o -name '*.cu'
)
if [[ ${1:-} == --fix ]]; then
  clang-format -i "${sources[@]}"
  ruff check --fix -q || true  # what is left is reported below
  ruff format -q
fi

status=0
clang-format --dry-run -Werror "${sources[@]}" || status=1
ruff check || status=1
ruff format --check || status=1
if grep -rnE '#include *[<"](torch|ATen|c10)/' op; then
  say "op/ includes a torch header: op/ knows no torch"
  status=1
fi
exit "$status"
