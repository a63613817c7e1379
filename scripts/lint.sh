#!/usr/bin/env bash
# Checks the format and the habits of C++, CUDA and Python; with --fix, formats first.
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
cd "$haloconv_root"

mapfile -t sources < <(
  find op registration cpp_tests examples benchmarks -name '*.h' -o -name '*.cpp' -o -name '*.cuh' -o -name '*.cu'
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

# What is private to torch, and its version, is named in one folder of each language:
# docs/adding_a_torch_version.md. In Python aten's operators are not private, since captured graphs hold
# them, and a class may use what it has of torch's class. _library.py finds the library for the torch
# that is there, __main__.py prints its version.
if grep -rnP '(?<!\bself|_aten|haloconv)\._[a-zA-Z]|\bfrom torch\b.* import .*\b_|torch\.__version__' \
  registration/python --include=*.py --include=*.pyi |
  grep -vE '/haloconv/_torch_compat/|/haloconv/(_library|__main__)\.py:.*torch\.__version__'; then
  say "a private part of torch, or its version, is named outside haloconv/_torch_compat"
  status=1
fi
# In C++, c10's guard is the one of torch's tutorials.
if grep -rnE '#include <(ATen/(native|functorch|detail)|torch/csrc|caffe2)/|TORCH_VERSION_M|\b(detail|impl|native|functorch)::' \
  registration --include=*.h --include=*.cpp |
  grep -v '^registration/torch_compat/' |
  grep -v 'c10::impl::ExcludeDispatchKeyGuard'; then
  say "a private part of torch, or its version, is named outside registration/torch_compat"
  status=1
fi

# A family is named in its own folder, in the list, in CMake and in documentation alone. If its folder
# is in another family's, they share tests.
for file in $(find op/conv2d/families -name family.cpp | sort); do
  folder=$(dirname "$file")
  family=$(basename "$folder")
  path=${folder#op/conv2d/families/}
  if grep -rn "conv2d/families/$path/" op registration cpp_tests --include=*.h --include=*.cpp \
    --include=*.cu --include=*.cuh | grep -vE "^($folder|cpp_tests/families/${path%%/*})/"; then
    say "$family is included from outside its folder: what others need belongs in geometry/ or device/"
    status=1
  fi
  if ! grep -q "$family::kFamily" op/conv2d/families.cpp; then
    say "$family is missing in op/conv2d/families.cpp"
    status=1
  fi
  # A group may bear a family's name; these two are words of PyTorch's and of the field too.
  if [[ $family != wgrad && $family != channels_last ]] && ! grep -qF ".group = \"$family\"" "$folder/family.cpp" &&
    grep -rnF "\"$family\"" op registration benchmarks --include=*.h --include=*.cpp --include=*.py |
      grep -vE "^($folder/|benchmarks/test_)"; then
    say "the family $family is named outside its folder"
    status=1
  fi
done
exit "$status"
