"""Which packages //kernels has."""

ARCHITECTURES = [
    "sm_90a",
    "sm_100f",
    "sm_120f",
]

# Suffix of the packages' names to the set that they hold.
SETS = {
    "": "cast",
    "_full": "full",
    "_training": "training",
}

def ready_packages(suffix = ""):
    """Returns the labels of the packages with a suffix, one for each architecture."""
    return ["//kernels:" + arch + suffix for arch in ARCHITECTURES]
