"""Looks at the actions of a cuda_library without running them."""

load("@bazel_skylib//lib:unittest.bzl", "analysistest", "asserts")
load("@rules_cc//cc/common:cc_info.bzl", "CcInfo")

def _actions_impl(ctx):
    env = analysistest.begin(ctx)
    actions = [a for a in analysistest.target_actions(env) if a.mnemonic == "CudaCompile"]
    asserts.equals(env, 1, len(actions), "one action for one .cu")
    for action in actions:
        nvcc = action.argv[0]
        asserts.true(env, nvcc.endswith("/site/nvidia/cu13/bin/nvcc"), nvcc + " is not the wheel's")
        asserts.equals(env, "/usr/bin:/bin", action.env["PATH"])
        for architecture in ["sm_90a", "sm_100f", "sm_120f"]:
            compute = architecture.replace("sm_", "compute_")
            asserts.true(
                env,
                "arch={},code={}".format(compute, architecture) in action.argv,
                "no machine code for " + architecture,
            )
        asserts.true(env, "arch=compute_90,code=compute_90" in action.argv, "no portable PTX")
    return analysistest.end(env)

cuda_library_actions_test = analysistest.make(_actions_impl)

def _archives_impl(ctx):
    env = analysistest.begin(ctx)
    target = analysistest.target_under_test(env)
    libraries = [
        library
        for linker_input in target[CcInfo].linking_context.linker_inputs.to_list()
        if linker_input.owner == target.label
        for library in linker_input.libraries
    ]
    asserts.equals(env, 1, len(libraries))
    for library in libraries:
        asserts.equals(env, 1, len(library.objects), "objects for a program")
        asserts.equals(env, 1, len(library.pic_objects), "objects for a shared library")
    return analysistest.end(env)

# In opt mode, where programs and shared libraries link different objects.
cuda_library_archives_test = analysistest.make(
    _archives_impl,
    config_settings = {"//command_line_option:compilation_mode": "opt"},
)
