"""Looks at the actions of a cuda_library without running them."""

load("@bazel_skylib//lib:unittest.bzl", "analysistest", "asserts")

def _impl(ctx):
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

cuda_library_analysis_test = analysistest.make(_impl)
