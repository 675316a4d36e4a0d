"""`cc_archives`: the static libraries that a cc target is linked from."""

load("@rules_cc//cc/common:cc_info.bzl", "CcInfo")

def _cc_archives_impl(ctx):
    archives = []
    for dep in ctx.attr.deps:
        for linker_input in dep[CcInfo].linking_context.linker_inputs.to_list():
            for library in linker_input.libraries:
                archive = library.pic_static_library or library.static_library
                if archive:
                    archives.append(archive)
    return [DefaultInfo(
        files = depset(archives),
        runfiles = ctx.runfiles(files = archives),
    )]

cc_archives = rule(
    implementation = _cc_archives_impl,
    attrs = {"deps": attr.label_list(providers = [CcInfo])},
    doc = "The static libraries of its dependencies and all theirs.",
)
