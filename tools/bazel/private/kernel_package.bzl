"""`cutedsl_kernel_package`; see //tools/bazel:defs.bzl."""

load("@rules_cc//cc:find_cc_toolchain.bzl", "find_cc_toolchain", "use_cc_toolchain")
load("@rules_cc//cc/common:cc_common.bzl", "cc_common")
load("@rules_cc//cc/common:cc_info.bzl", "CcInfo")
load("//tools/bazel:link_recipe.bzl", "LinkRecipeInfo")

_REGISTRATION = """\
#include "ffi_bridge/kernel_package_registry.h"

extern "C" const CutedslQuantKernelPackage* cutedsl_quant_kernel_package_{alias}();

namespace {{
[[maybe_unused]] const bool registered =
    (cutedsl_quant::RegisterKernelPackage(cutedsl_quant_kernel_package_{alias}()), true);
}}  // namespace
"""

def _identifier(label):
    """Names a package in the process: its file, and the symbol by which programs refer to it."""
    path = "/".join([part for part in [label.workspace_name, label.package, label.name] if part])
    parts = "".join([c if c.isalnum() else "_" for c in path.elems()]).split("_")
    return "_".join([part for part in parts if part])

def _compile_shard(ctx, index):
    output = ctx.actions.declare_file("_kernels/{}/{}.tar".format(ctx.label.name, index))
    args = ctx.actions.args()
    args.use_param_file("@%s", use_always = True)
    args.set_param_file_format("multiline")
    args.add("--arch", ctx.attr.arch)
    args.add_all(ctx.attr.configs, before_each = "--config")
    args.add("--shard", index)
    args.add("--shards", ctx.attr.shards)
    args.add("--output", output)
    ctx.actions.run(
        arguments = [args],
        executable = ctx.executable._compile_worker,
        execution_requirements = {
            "requires-worker-protocol": "json",
            "supports-workers": "1",
        },
        mnemonic = "CutedslCompile",
        outputs = [output],
        progress_message = "Compiling CuTeDSL kernels %{{label}} ({}/{})".format(index + 1, ctx.attr.shards),
    )
    return output

def _link(ctx, identifier, shards):
    library = ctx.actions.declare_file("lib{}.so".format(identifier))
    manifest = ctx.actions.declare_file("lib{}.json".format(identifier))
    recipe = ctx.attr._link_recipe[LinkRecipeInfo]
    args = ctx.actions.args()
    args.add("--recipe", recipe.recipe)
    args.add("--name", identifier)
    args.add("--arch", ctx.attr.arch)
    args.add_all(ctx.attr.configs, before_each = "--config")
    args.add("--library", library)
    args.add("--manifest", manifest)
    args.add("--getter-alias", identifier)
    args.add_all(shards)
    ctx.actions.run(
        arguments = [args],
        executable = ctx.executable._package,
        inputs = depset(shards, transitive = [recipe.inputs]),
        mnemonic = "CutedslLink",
        outputs = [library, manifest],
        progress_message = "Linking kernel package %{label}",
    )
    return library, manifest

def _register(ctx, identifier, library):
    """CcInfo of the library and of an object that announces it when the program starts."""
    cc_toolchain = find_cc_toolchain(ctx)
    features = cc_common.configure_features(
        cc_toolchain = cc_toolchain,
        ctx = ctx,
        requested_features = ctx.features,
        unsupported_features = ctx.disabled_features,
    )
    source = ctx.actions.declare_file("_kernels/{}/register.cc".format(ctx.label.name))
    ctx.actions.write(source, _REGISTRATION.format(alias = identifier))
    deps = [dep[CcInfo] for dep in [ctx.attr._registry, ctx.attr._tvm_ffi]]
    _, objects = cc_common.compile(
        name = ctx.label.name,
        actions = ctx.actions,
        cc_toolchain = cc_toolchain,
        compilation_contexts = [dep.compilation_context for dep in deps],
        feature_configuration = features,
        srcs = [source],
    )
    registration, _ = cc_common.create_linking_context_from_compilation_outputs(
        name = ctx.label.name + "_register",
        actions = ctx.actions,
        alwayslink = True,
        cc_toolchain = cc_toolchain,
        compilation_outputs = objects,
        disallow_dynamic_library = True,
        feature_configuration = features,
        linking_contexts = [dep.linking_context for dep in deps],
    )
    package = cc_common.create_linking_context(linker_inputs = depset([
        cc_common.create_linker_input(
            libraries = depset([cc_common.create_library_to_link(
                actions = ctx.actions,
                cc_toolchain = cc_toolchain,
                dynamic_library = library,
                feature_configuration = features,
            )]),
            owner = ctx.label,
        ),
    ]))
    return cc_common.merge_cc_infos(cc_infos = [
        CcInfo(linking_context = registration),
        CcInfo(linking_context = package),
    ])

def _kernel_package_impl(ctx):
    if ctx.attr.shards < 1:
        fail("shards is {}, must be at least 1".format(ctx.attr.shards))
    identifier = _identifier(ctx.label)
    shards = [_compile_shard(ctx, index) for index in range(ctx.attr.shards)]
    library, manifest = _link(ctx, identifier, shards)
    files = [library, manifest]
    return [
        DefaultInfo(files = depset(files), runfiles = ctx.runfiles(files)),
        _register(ctx, identifier, library),
    ]

cutedsl_kernel_package = rule(
    implementation = _kernel_package_impl,
    attrs = {
        "arch": attr.string(
            doc = "The GPU architecture: sm_90a, sm_100f, sm_120f (cutedsl/architectures.py).",
            mandatory = True,
        ),
        "configs": attr.string_list(
            doc = "What to compile: names of sets (cast, training, full), names of kernels, globs over names.",
            mandatory = True,
        ),
        "shards": attr.int(
            default = 4,
            doc = "How many actions the kernels are dealt out to; they run in parallel and are cached apart.",
        ),
        "_compile_worker": attr.label(
            cfg = "exec",
            default = Label("//tools/gen_kernels:compile_worker"),
            executable = True,
        ),
        "_link_recipe": attr.label(
            default = Label("//tools/gen_kernels:link_recipe"),
            providers = [LinkRecipeInfo],
        ),
        "_package": attr.label(
            cfg = "exec",
            default = Label("//tools/gen_kernels:package"),
            executable = True,
        ),
        "_registry": attr.label(
            default = Label("//ffi_bridge:kernel_package_registry"),
            providers = [CcInfo],
        ),
        "_tvm_ffi": attr.label(
            default = Label("//tools/bazel:tvm_ffi"),
            providers = [CcInfo],
        ),
    },
    doc = """Kernels compiled ahead of time for one architecture, in one shared library.

Gives lib<label>.so and lib<label>.json. As a dependency of a C++ program it is linked and found without further ado;
as `data`, or copied elsewhere, it is found through CUTEDSL_QUANT_KERNEL_PATH.""",
    fragments = ["cpp"],
    provides = [CcInfo],
    toolchains = use_cc_toolchain(),
)
