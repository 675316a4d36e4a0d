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

def _linking_context(ctx, files):
    cc_toolchain = find_cc_toolchain(ctx)
    feature_configuration = cc_common.configure_features(ctx = ctx, cc_toolchain = cc_toolchain)
    by_path = {_path_in_site(f): f for f in files}
    libraries = []
    for path in ctx.attr.libraries:
        if path not in by_path:
            fail("there is no {} in {}".format(path, ctx.attr.wheels))
        static = path.endswith(".a")
        libraries.append(cc_common.create_library_to_link(
            actions = ctx.actions,
            cc_toolchain = cc_toolchain,
            dynamic_library = None if static else by_path[path],
            feature_configuration = feature_configuration,
            # Wheels hold one archive each, built as position-independent code.
            pic_static_library = by_path[path] if static else None,
        ))
    return cc_common.create_linking_context(linker_inputs = depset([
        cc_common.create_linker_input(
            libraries = depset(libraries),
            owner = ctx.label,
            user_link_flags = ctx.attr.linkopts,
        ),
    ]))

def _wheel_cc_library_impl(ctx):
    own = CcInfo(
        compilation_context = _compilation_context(ctx, ctx.files.wheels),
        linking_context = _linking_context(ctx, ctx.files.wheels),
    )
    libraries = [f for f in ctx.files.wheels if _path_in_site(f) in ctx.attr.libraries]
    shared = [f for f in libraries if not f.basename.endswith(".a")]
    return [
        DefaultInfo(
            files = depset(libraries),
            runfiles = ctx.runfiles(shared).merge_all(
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
        "libraries": attr.string_list(
            doc = "Libraries (.a, .so) to link, as paths below site-packages.",
        ),
        "linkopts": attr.string_list(),
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
