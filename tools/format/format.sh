#!/bin/bash
# Formats every tracked file: C++ and CUDA (clang-format), Python (ruff), Bazel (buildifier).
#
# Usage: tools/format/format.sh [--check]
#   --check   change nothing; fail if something would change or a linter complains
#
# The formatters are locked beside this file; they are installed once for each state of the locks.
set -euo pipefail

check=
case ${1:-} in
  --check) check=1 ;;
  "") ;;
  *)
    echo "usage: $0 [--check]" >&2
    exit 2
    ;;
esac

here=$(dirname "$(realpath "${BASH_SOURCE[0]}")")
locks=("$here/requirements_lock.txt" "$here/package-lock.json")
tools=${XDG_CACHE_HOME:-$HOME/.cache}/cutedsl_quant/format-$(cat "${locks[@]}" | sha256sum | cut -c1-16)

if [[ ! -e $tools/complete ]]; then
  for program in python3 npm; do
    command -v "$program" >/dev/null || {
      echo "format.sh: $program is missing; the formatters are installed with it" >&2
      exit 1
    }
  done
  echo "format.sh: installing the formatters into $tools" >&2
  rm -rf "$tools"
  mkdir -p "$tools"
  python3 -m venv "$tools/venv"
  "$tools/venv/bin/pip" install --quiet --require-hashes --only-binary :all: \
    -r "$here/requirements_lock.txt"
  cp "$here/package.json" "$here/package-lock.json" "$tools"
  npm --prefix "$tools" ci --silent --ignore-scripts --no-audit --no-fund
  touch "$tools/complete"
fi
export PATH=$tools/venv/bin:$tools/node_modules/.bin:$PATH

cd "$here/../.."
failed=()

# run NAME COMMAND... -- PATTERN...: the command over the tracked files that match.
run() {
  local name=$1 command=() files
  shift
  while [[ $1 != -- ]]; do
    command+=("$1")
    shift
  done
  shift
  # A file can be tracked and yet be gone from the working tree.
  mapfile -d '' -t files < <(git ls-files -z --deduplicate -- "$@" | while IFS= read -r -d '' file; do
    [[ ! -f $file ]] || printf '%s\0' "$file"
  done)
  ((${#files[@]})) || return 0
  if "${command[@]}" "${files[@]}"; then
    echo "$name: ${#files[@]} files"
  else
    failed+=("$name")
  fi
}

cxx=('*.c' '*.cc' '*.cu' '*.cuh' '*.h')
python=('*.py' '*.pyi')
bazel=('*.bazel' '*.bzl' '*.BUILD')

if [[ $check ]]; then
  run clang-format clang-format --dry-run -Werror -- "${cxx[@]}"
  run "ruff format" ruff format --quiet --diff -- "${python[@]}"
  run "ruff check" ruff check --quiet -- "${python[@]}"
  run buildifier buildifier -mode=check -lint=warn -- "${bazel[@]}"
else
  run clang-format clang-format -i -- "${cxx[@]}"
  run "ruff check" ruff check --quiet --fix -- "${python[@]}"
  run "ruff format" ruff format --quiet -- "${python[@]}"
  run buildifier buildifier -mode=fix -lint=fix -- "${bazel[@]}"
fi

if ((${#failed[@]})); then
  echo "format.sh: ${failed[*]} found something${check:+; tools/format/format.sh repairs what it can}" >&2
  exit 1
fi
