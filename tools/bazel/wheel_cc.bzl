"""C++ targets from what lies inside wheels: headers, static libraries and shared libraries."""

load("@rules_cc//cc:find_cc_toolchain.bzl", "find_cc_toolchain", "use_cc_toolchain")
load("@rules_cc//cc/common:cc_common.bzl", "cc_common")
load("@rules_cc//cc/common:cc_info.bzl", "CcInfo")

_SITE = "/site/"

def _path_in_site(file):
    return file.path.partition(_SITE)[2]

def _site_root(file):
    return file.path.partition(_SITE)[0] + _SITE

def _compilation_context(ctx, files):
    headers = []
    include_dirs = []
    for include in ctx.attr.includes:
        found = [f for f in files if _path_in_site(f).startswith(include + "/")]
        if not found:
            fail("there is no file below {} in {}".format(include, ctx.attr.wheels))
        headers += found
        include_dirs.append(_site_root(found[0]) + include)
    return cc_common.create_compilation_context(
        headers = depset(headers),
        system_includes = depset(include_dirs),
    )

def _library(ctx, files, path):
    """Returns the file of a library attribute, or None if the attribute is not set."""
    found = [f for f in files if _path_in_site(f) == path]
    if path and not found:
        fail("there is no {} in {}".format(path, ctx.attr.wheels))
    return found[0] if path else None

def _linking_context(ctx, static, shared):
    cc_toolchain = find_cc_toolchain(ctx)
    library = cc_common.create_library_to_link(
        actions = ctx.actions,
        cc_toolchain = cc_toolchain,
        dynamic_library = shared,
        feature_configuration = cc_common.configure_features(ctx = ctx, cc_toolchain = cc_toolchain),
        # Archives in wheels are position-independent.
        pic_static_library = static,
    ) if static or shared else None
    return cc_common.create_linking_context(linker_inputs = depset([
        cc_common.create_linker_input(
            libraries = depset([library] if library else []),
            owner = ctx.label,
            user_link_flags = ctx.attr.linkopts,
        ),
    ]))

def _wheel_cc_library_impl(ctx):
    static = _library(ctx, ctx.files.wheels, ctx.attr.static_library)
    shared = _library(ctx, ctx.files.wheels, ctx.attr.shared_library)
    own = CcInfo(
        compilation_context = _compilation_context(ctx, ctx.files.wheels),
        linking_context = _linking_context(ctx, static, shared),
    )
    return [
        DefaultInfo(
            files = depset([library for library in [static, shared] if library]),
            runfiles = ctx.runfiles([shared] if shared else []).merge_all(
                [dep[DefaultInfo].default_runfiles for dep in ctx.attr.deps],
            ),
        ),
        cc_common.merge_cc_infos(
            direct_cc_infos = [own],
            cc_infos = [dep[CcInfo] for dep in ctx.attr.deps],
        ),
    ]

wheel_cc_library = rule(
    implementation = _wheel_cc_library_impl,
    attrs = {
        "deps": attr.label_list(providers = [CcInfo]),
        "includes": attr.string_list(
            doc = "Folders below site-packages for the include path, with the headers below them.",
        ),
        "linkopts": attr.string_list(),
        "shared_library": attr.string(
            doc = "A shared library below site-packages.",
        ),
        "static_library": attr.string(
            doc = "An archive below site-packages. With both, it depends on the program, as for a cc_library.",
        ),
        "wheels": attr.label_list(
            allow_files = True,
            doc = "The `:files` of distributions in one pip_site repository.",
            mandatory = True,
        ),
    },
    doc = "A cc_library whose headers and libraries come out of wheels.",
    fragments = ["cpp"],
    provides = [CcInfo],
    toolchains = use_cc_toolchain(),
)
