"""The rules for users of this module."""

load("//tools/bazel/private:kernel_package.bzl", _cutedsl_kernel_package = "cutedsl_kernel_package")

cutedsl_kernel_package = _cutedsl_kernel_package
