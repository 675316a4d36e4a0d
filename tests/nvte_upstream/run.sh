#!/bin/bash
# Compiles TransformerEngine's own MXFP8 tests, unchanged, against //common/nvte and runs them.
#
# Usage: tests/nvte_upstream/run.sh CHECKOUT [BAZEL OPTION]...
#   CHECKOUT   a checkout of TransformerEngine; only its tests/cpp is read
#
# Needs a GPU. Left out are tests of grouped tensors, which this library does not have; what else is
# not TransformerEngine's own lies in stubs/.
set -euo pipefail

here=$(dirname "$(realpath "${BASH_SOURCE[0]}")")
tests=$(realpath -- "${1:?usage: $0 CHECKOUT [BAZEL OPTION]...}")/tests/cpp
shift
for source in test_common.{h,cu} operator/test_{cast_mxfp8,dequantize_mxfp8,swizzle}.cu; do
  [[ -e $tests/$source ]] || {
    echo "$0: $tests/$source is missing" >&2
    exit 2
  }
done

ln -sfn "$tests" "$here/checkout"
trap 'rm -f "$here/checkout"' EXIT
cd "$here/../.."
./bazelw test --test_output=errors "$@" //tests/nvte_upstream:upstream_test
