"""`kernel_package_link_recipe`: what a program needs to know to compile and link for the target outside of Bazel's
own C++ rules. Packages are linked by one program, in Bazel actions as well as under gen_kernels on a user's machine."""

load("@rules_cc//cc:action_names.bzl", "CPP_LINK_DYNAMIC_LIBRARY_ACTION_NAME", "C_COMPILE_ACTION_NAME")
load("@rules_cc//cc:find_cc_toolchain.bzl", "find_cc_toolchain", "use_cc_toolchain")
load("@rules_cc//cc/common:cc_common.bzl", "cc_common")
load("@rules_cc//cc/common:cc_info.bzl", "CcInfo")

LinkRecipeInfo = provider(
    doc = "How to compile and link kernel packages.",
    fields = {
        "inputs": "depset of all files that the recipe mentions, itself included",
        "recipe": "the JSON file (read by tools/gen_kernels/package.py); paths are relative to the execution root",
    },
)

# What instruments code needs a runtime that packages do not link, or writes profiles that nobody reads.
_UNWANTED_FEATURES = [
    "asan",
    "coverage",
    "fdo_instrument",
    "gcc_coverage_map_format",
    "llvm_coverage_map_format",
    "thin_lto",
    "tsan",
    "ubsan",
]

def _include_flags(context):
    flags = []
    for flag, folders in [
        ("-iquote", context.quote_includes),
        ("-I", context.includes),
        ("-isystem", depset(transitive = [context.system_includes, context.external_includes])),
    ]:
        for folder in folders.to_list():
            flags += [flag, folder]
    return flags

def _file_of(library):
    """The file of a LibraryToLink that goes into a shared library: static where there is a choice."""
    return library.pic_static_library or library.static_library or library.resolved_symlink_dynamic_library or library.dynamic_library

def _link_recipe_impl(ctx):
    cc_toolchain = find_cc_toolchain(ctx)
    features = cc_common.configure_features(
        cc_toolchain = cc_toolchain,
        ctx = ctx,
        requested_features = ctx.features,
        unsupported_features = ctx.disabled_features + _UNWANTED_FEATURES,
    )
    compile_variables = cc_common.create_compile_variables(
        cc_toolchain = cc_toolchain,
        feature_configuration = features,
        use_pic = True,
    )
    link_variables = cc_common.create_link_variables(
        cc_toolchain = cc_toolchain,
        feature_configuration = features,
        is_linking_dynamic_library = True,
        is_static_linking_mode = True,
    )
    info = cc_common.merge_cc_infos(cc_infos = [dep[CcInfo] for dep in ctx.attr.deps])
    inputs = info.linking_context.linker_inputs.to_list()
    libraries = [_file_of(library) for linker_input in inputs for library in linker_input.libraries]

    recipe = ctx.actions.declare_file(ctx.label.name + ".json")
    ctx.actions.write(recipe, json.encode_indent({
        "abi_header": ctx.file.abi_header.path,
        "compile_flags": cc_common.get_memory_inefficient_command_line(
            action_name = C_COMPILE_ACTION_NAME,
            feature_configuration = features,
            variables = compile_variables,
        ),
        "compiler": cc_common.get_tool_for_action(
            action_name = C_COMPILE_ACTION_NAME,
            feature_configuration = features,
        ),
        "environment": cc_common.get_environment_variables(
            action_name = CPP_LINK_DYNAMIC_LIBRARY_ACTION_NAME,
            feature_configuration = features,
            variables = link_variables,
        ),
        "include_flags": _include_flags(info.compilation_context),
        "libraries": [library.path for library in libraries],
        "library_flags": [flag for linker_input in inputs for flag in linker_input.user_link_flags],
        "link_flags": [
            flag
            for flag in cc_common.get_memory_inefficient_command_line(
                action_name = CPP_LINK_DYNAMIC_LIBRARY_ACTION_NAME,
                feature_configuration = features,
                variables = link_variables,
            )
            # Kernels are compiled for the large code model; gold crashes on its sections.
            if flag != "-fuse-ld=gold"
        ],
        "source": ctx.file.source.path,
    }) + "\n")
    files = depset(
        [recipe, ctx.file.abi_header, ctx.file.source] + libraries,
        transitive = [info.compilation_context.headers, cc_toolchain.all_files],
    )
    return [
        DefaultInfo(files = depset([recipe]), runfiles = ctx.runfiles(transitive_files = files)),
        LinkRecipeInfo(inputs = files, recipe = recipe),
    ]

kernel_package_link_recipe = rule(
    implementation = _link_recipe_impl,
    attrs = {
        "abi_header": attr.label(
            allow_single_file = True,
            doc = "ffi_bridge/kernel_package_abi.h.",
            mandatory = True,
        ),
        "deps": attr.label_list(
            doc = "What every package includes and links.",
            providers = [CcInfo],
        ),
        "source": attr.label(
            allow_single_file = [".c"],
            doc = "A C source compiled into every package.",
            mandatory = True,
        ),
    },
    doc = "Writes how to compile and link kernel packages as JSON; its runfiles hold everything that it mentions.",
    fragments = ["cpp"],
    provides = [LinkRecipeInfo],
    toolchains = use_cc_toolchain(),
)
