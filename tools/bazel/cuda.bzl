"""`cuda_library`: CUDA C++ in Bazel with the compiler that PyPI serves.

Nothing of a CUDA toolkit on the machine is used or looked at. The host compiler is the one of the
C++ toolchain. Each .cu becomes one object in an action of its own, and the same inputs give the
same bytes. The object holds machine code for every architecture plus the PTX of the lowest, from
which a driver can compile for any other.
"""

load("@bazel_skylib//rules:common_settings.bzl", "BuildSettingInfo")
load("@rules_cc//cc:action_names.bzl", "CPP_COMPILE_ACTION_NAME")
load("@rules_cc//cc:find_cc_toolchain.bzl", "find_cc_toolchain", "use_cc_toolchain")
load("@rules_cc//cc/common:cc_common.bzl", "cc_common")
load("@rules_cc//cc/common:cc_info.bzl", "CcInfo")

CUDA_ARCHITECTURES = ["sm_90a", "sm_100f", "sm_120f"]

_CC_SOURCES = ["cc", "cpp", "cxx", "c++", "C", "c"]
_HEADERS = ["h", "hh", "hpp", "inc", "inl"]
_CUDA_HEADERS = ["cuh"]  # not known to Bazel as headers

def _number(architecture):
    digits = architecture.removeprefix("sm_").rstrip("abcdefghijklmnopqrstuvwxyz")
    if not architecture.startswith("sm_") or not digits.isdigit():
        fail("{} is no architecture; they are written like sm_90a".format(repr(architecture)))
    return int(digits)

def _gencode(architectures):
    if not architectures:
        fail("architectures must not be empty")
    flags = [
        "arch={},code={}".format(arch.replace("sm_", "compute_"), arch)
        for arch in architectures
    ]

    # PTX with an architecture's own features would run nowhere else: leave its suffix out.
    lowest = "compute_{}".format(min([_number(arch) for arch in architectures]))
    return flags + ["arch={0},code={0}".format(lowest)]

def _host_flags(ctx, cc_toolchain, feature_configuration):
    """Splits the C++ toolchain's command line into nvcc's part and the host compiler's part."""
    variables = cc_common.create_compile_variables(
        cc_toolchain = cc_toolchain,
        feature_configuration = feature_configuration,
        use_pic = True,
        user_compile_flags = ctx.fragments.cpp.copts + ctx.fragments.cpp.cxxopts + ctx.attr.copts,
    )
    nvcc = []
    host = []
    standard = "-std=c++17"
    for flag in cc_common.get_memory_inefficient_command_line(
        action_name = CPP_COMPILE_ACTION_NAME,
        feature_configuration = feature_configuration,
        variables = variables,
    ):
        if flag.startswith("-std="):
            standard = flag
        elif flag.startswith("-W") or flag.startswith("-D__DATE__") or flag.startswith("-D__TIME"):
            # Warnings would be about the code that nvcc generates.
            continue
        elif flag[:2] in ["-D", "-U", "-I"]:
            nvcc.append(flag)
        else:
            host.append(flag)
    environment = cc_common.get_environment_variables(
        action_name = CPP_COMPILE_ACTION_NAME,
        feature_configuration = feature_configuration,
        variables = variables,
    )
    return nvcc + [standard], host, environment

def _compile_cuda(ctx, source, context, cc_toolchain, feature_configuration):
    base = source.short_path.removeprefix("../").replace("/", "_")
    output = ctx.actions.declare_file("_objs/{}/{}.o".format(ctx.label.name, base))
    nvcc = [f for f in ctx.files._nvcc if f.basename == "nvcc"][0]
    nvcc_flags, host_flags, environment = _host_flags(ctx, cc_toolchain, feature_configuration)

    args = ctx.actions.args()
    args.add(source)
    args.add("-c")
    args.add("-o", output)
    args.add("-ccbin", cc_toolchain.compiler_executable)

    # Intermediate files named by the output instead of by process: their names end up in the
    # object.
    args.add("-objtemp")
    args.add_all(_gencode(ctx.attr.architectures), before_each = "-gencode")
    args.add_all(nvcc_flags)
    args.add_all(host_flags, before_each = "-Xcompiler")
    args.add_all(context.defines, format_each = "-D%s")
    args.add_all(context.local_defines, format_each = "-D%s")
    args.add_all(context.includes, before_each = "-I")
    args.add_all(context.quote_includes, format_each = "-Xcompiler=-iquote,%s")
    args.add_all(context.system_includes, before_each = "-isystem")
    args.add_all(context.external_includes, before_each = "-isystem")
    if ctx.attr._lineinfo[BuildSettingInfo].value:
        args.add("-lineinfo")
    args.add_all(ctx.attr.nvcc_copts)

    ctx.actions.run(
        arguments = [args],
        env = {"PATH": "/usr/bin:/bin", "PWD": "/proc/self/cwd"} | environment,
        executable = nvcc,
        inputs = depset([source], transitive = [context.headers, cc_toolchain.all_files]),
        mnemonic = "CudaCompile",
        outputs = [output],
        progress_message = "Compiling CUDA " + source.short_path,
        tools = ctx.files._nvcc,
    )
    return output

def _cuda_library_impl(ctx):
    cc_toolchain = find_cc_toolchain(ctx)
    feature_configuration = cc_common.configure_features(
        cc_toolchain = cc_toolchain,
        ctx = ctx,
        requested_features = ctx.features,
        unsupported_features = ctx.disabled_features,
    )
    deps = ctx.attr.deps + [ctx.attr._cudart]
    context, cc_outputs = cc_common.compile(
        name = ctx.label.name,
        actions = ctx.actions,
        cc_toolchain = cc_toolchain,
        compilation_contexts = [dep[CcInfo].compilation_context for dep in deps],
        defines = ctx.attr.defines,
        feature_configuration = feature_configuration,
        include_prefix = ctx.attr.include_prefix,
        includes = [_include_dir(ctx, include) for include in ctx.attr.includes],
        local_defines = ctx.attr.local_defines,
        private_hdrs = [f for f in ctx.files.srcs if f.extension in _HEADERS],
        public_hdrs = ctx.files.hdrs,
        srcs = [f for f in ctx.files.srcs if f.extension in _CC_SOURCES],
        strip_include_prefix = ctx.attr.strip_include_prefix,
        textual_hdrs = [f for f in ctx.files.srcs if f.extension in _CUDA_HEADERS],
        user_compile_flags = ctx.attr.copts,
    )
    cuda_objects = [
        _compile_cuda(ctx, source, context, cc_toolchain, feature_configuration)
        for source in ctx.files.srcs
        if source.extension == "cu"
    ]

    # CUDA objects are position-independent and serve as either kind; they join the kinds that the
    # C++ toolchain made of the other sources, as an archive must not hold half of the library.
    only_cuda = not cc_outputs.objects and not cc_outputs.pic_objects
    objects = cc_outputs.objects + cuda_objects if only_cuda or cc_outputs.objects else []
    pic_objects = cc_outputs.pic_objects + cuda_objects if only_cuda or cc_outputs.pic_objects else []
    outputs = cc_common.create_compilation_outputs(
        objects = depset(objects),
        pic_objects = depset(pic_objects),
    )
    linking_context, linking_outputs = cc_common.create_linking_context_from_compilation_outputs(
        name = ctx.label.name,
        actions = ctx.actions,
        alwayslink = ctx.attr.alwayslink,
        cc_toolchain = cc_toolchain,
        compilation_outputs = outputs,
        disallow_dynamic_library = True,
        feature_configuration = feature_configuration,
        linking_contexts = [dep[CcInfo].linking_context for dep in deps],
        user_link_flags = ctx.attr.linkopts,
    )
    library = linking_outputs.library_to_link
    archives = [f for f in [library.pic_static_library, library.static_library] if f] if library else []
    runfiles = ctx.runfiles(ctx.files.data).merge_all(
        [dep[DefaultInfo].default_runfiles for dep in ctx.attr.data + deps],
    )
    return [
        DefaultInfo(files = depset(archives), runfiles = runfiles),
        OutputGroupInfo(cuda_objects = depset(cuda_objects)),
        CcInfo(compilation_context = context, linking_context = linking_context),
    ]

def _include_dir(ctx, include):
    parts = [ctx.label.workspace_root, ctx.label.package, include]
    return "/".join([part for part in parts if part and part != "."]) or "."

cuda_library = rule(
    implementation = _cuda_library_impl,
    attrs = {
        "alwayslink": attr.bool(),
        "architectures": attr.string_list(
            default = CUDA_ARCHITECTURES,
            doc = "What to compile machine code for, such as sm_90a; PTX of the lowest is added.",
        ),
        "copts": attr.string_list(
            doc = "Options for the host compiler, also where it works for nvcc.",
        ),
        "data": attr.label_list(allow_files = True),
        "defines": attr.string_list(),
        "deps": attr.label_list(providers = [CcInfo]),
        "hdrs": attr.label_list(allow_files = True),
        "include_prefix": attr.string(),
        "includes": attr.string_list(),
        "linkopts": attr.string_list(),
        "local_defines": attr.string_list(),
        "nvcc_copts": attr.string_list(
            doc = "Options for nvcc, such as --expt-relaxed-constexpr.",
        ),
        "srcs": attr.label_list(
            allow_files = ["." + extension for extension in ["cu"] + _CC_SOURCES + _HEADERS + _CUDA_HEADERS],
        ),
        "strip_include_prefix": attr.string(),
        "_cudart": attr.label(
            default = Label("//tools/bazel:cudart"),
            providers = [CcInfo],
        ),
        "_lineinfo": attr.label(default = Label("//tools/bazel:cuda_lineinfo")),
        "_nvcc": attr.label(
            cfg = "exec",
            default = Label("//tools/bazel:nvcc_files"),
        ),
    },
    doc = "A cc_library that also takes .cu files. It brings the static CUDA runtime along.",
    fragments = ["cpp"],
    provides = [CcInfo],
    toolchains = use_cc_toolchain(),
)
