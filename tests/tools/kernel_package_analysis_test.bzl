"""Looks at cutedsl_kernel_package without running its actions."""

load("@bazel_skylib//lib:unittest.bzl", "analysistest", "asserts")
load("@rules_cc//cc/common:cc_info.bzl", "CcInfo")
load("//tools/bazel:defs.bzl", "cutedsl_kernel_package")

def _package_impl(ctx):
    env = analysistest.begin(ctx)
    target = analysistest.target_under_test(env)
    actions = analysistest.target_actions(env)

    # An action's environment would be part of every kernel's cache key.
    compiles = [action for action in actions if action.mnemonic == "CutedslCompile"]
    asserts.equals(env, ctx.attr.shards, len(compiles), "one action for each shard")
    for action in compiles:
        asserts.equals(env, {}, action.env)
        asserts.equals(env, 1, len(action.outputs.to_list()))
    asserts.equals(env, 1, len([action for action in actions if action.mnemonic == "CutedslLink"]))

    files = sorted([file.basename for file in target[DefaultInfo].files.to_list()])
    asserts.equals(env, ctx.attr.files, files)
    asserts.equals(env, files, sorted([file.basename for file in target[DefaultInfo].default_runfiles.files.to_list()]))

    # A program gets the library, and the object that registers it whether it is referred to or not.
    libraries = [
        library
        for linker_input in target[CcInfo].linking_context.linker_inputs.to_list()
        for library in linker_input.libraries
    ]
    dynamic = [library.dynamic_library.basename for library in libraries if library.dynamic_library]
    asserts.true(env, ctx.attr.files[1] in dynamic, "the library is not linked")
    asserts.equals(env, 1, len([library for library in libraries if library.alwayslink]))
    return analysistest.end(env)

_package_test = analysistest.make(
    _package_impl,
    attrs = {
        "files": attr.string_list(),
        "shards": attr.int(),
    },
)

def _refused_impl(ctx):
    env = analysistest.begin(ctx)
    asserts.expect_failure(env, "shards is 0")
    return analysistest.end(env)

_refused_test = analysistest.make(_refused_impl, expect_failure = True)

def kernel_package_analysis_test(name, package, shards, files):
    """A suite of tests of the rule.

    Args:
      name: of the suite.
      package: a cutedsl_kernel_package.
      shards: how many it has.
      files: the names of its two files, sorted.
    """
    cutedsl_kernel_package(
        name = name + "_no_shards",
        arch = "sm_90a",
        configs = ["cast"],
        shards = 0,
        tags = ["manual"],
    )
    _package_test(
        name = name + "_package",
        files = files,
        shards = shards,
        target_under_test = package,
    )
    _refused_test(
        name = name + "_refused",
        target_under_test = name + "_no_shards",
    )
    native.test_suite(
        name = name,
        tests = [
            name + "_package",
            name + "_refused",
        ],
    )
