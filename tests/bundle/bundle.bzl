"""`gpu_bundle`: programs with everything they need, in one archive for a machine without Bazel."""

load("@rules_python//python:py_info.bzl", "PyInfo")

def _entry(file):
    return "{}\t{}".format(file.short_path, file.path)

def _gpu_bundle_impl(ctx):
    archive = ctx.actions.declare_file(ctx.label.name + ".tar.gz")
    files = []
    args = ctx.actions.args()
    args.use_param_file("@%s", use_always = True)
    args.set_param_file_format("multiline")
    args.add("--archive", archive)
    args.add("--name", ctx.label.name)
    args.add("--run", ctx.file.run)
    args.add_all(ctx.attr.exclude, before_each = "--exclude")
    for target, command in ctx.attr.programs.items():
        executable = target[DefaultInfo].files_to_run.executable
        args.add("--program", "{}={}".format(command, executable.short_path))
        files += [depset([executable]), target[DefaultInfo].default_runfiles.files]
    imports = []
    for target in ctx.attr.data:
        files += [target[DefaultInfo].files, target[DefaultInfo].default_runfiles.files]
        if PyInfo in target:
            imports.append(target[PyInfo].imports)
    args.add_all(depset(transitive = imports), before_each = "--import")
    all_files = depset([ctx.file.run], transitive = files)
    args.add_all(all_files, before_each = "--file", expand_directories = False, map_each = _entry)
    ctx.actions.run(
        arguments = [args],
        executable = ctx.executable._make_bundle,
        inputs = all_files,
        mnemonic = "GpuBundle",
        outputs = [archive],
        progress_message = "Bundling %{label}",
    )
    return [DefaultInfo(files = depset([archive]))]

gpu_bundle = rule(
    implementation = _gpu_bundle_impl,
    attrs = {
        "data": attr.label_list(
            doc = "Python libraries (to be imported) and files that go in as well.",
        ),
        "exclude": attr.string_list(
            doc = "Globs over runfiles paths of what stays out.",
        ),
        "programs": attr.label_keyed_string_dict(
            doc = "Executables and the commands of run.py that start them.",
        ),
        "run": attr.label(
            allow_single_file = True,
            default = Label("//tests/bundle:run.py"),
        ),
        "_make_bundle": attr.label(
            cfg = "exec",
            default = Label("//tests/bundle:make_bundle"),
            executable = True,
        ),
    },
    doc = "Packs programs with their runfiles, in the layout of a runfiles tree, so that they find their libraries.",
)
