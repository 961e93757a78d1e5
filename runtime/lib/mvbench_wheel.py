"""Builds the wheel of mvbench.py for `pip install .` (PEP 517), with the library that make has built; and the sdist.

It needs nothing but the standard library. MVBENCH_BUILD: the build folder, by default build.
"""
import base64
import hashlib
import io
import os
import pathlib
import re
import subprocess
import sysconfig
import tarfile
import zipfile

LIB = pathlib.Path(__file__).resolve().parent
ROOT = LIB.parent.parent

METADATA = """Metadata-Version: 2.4
Name: mvbench
Version: {version}
Summary: Parameter tables, reductions and averaged gradients for training loops of several processes
License-Expression: MIT
License-File: LICENSE
Requires-Python: >=3.8
Classifier: Intended Audience :: Science/Research
Classifier: Operating System :: POSIX :: Linux
Classifier: Programming Language :: Python :: 3
Classifier: Topic :: Scientific/Engineering :: Artificial Intelligence
Provides-Extra: multiverso
Requires-Dist: numpy; extra == "multiverso"
Description-Content-Type: text/markdown

"""


def _version():
    return re.search(r'MVB_VERSION "([^"]+)"', (LIB / "libmvbench.h").read_text()).group(1)


def _metadata():
    return (METADATA.format(version=_version()) + (LIB / "PYTHON.md").read_text()).encode()


def build_sdist(sdist_directory, config_settings=None):
    """Writes the sources of the checkout into the folder, and returns the archive's name. `pip install` of them needs
    make before, as a checkout does."""
    listed = subprocess.run(["git", "-C", ROOT, "ls-files", "-z"], stdout=subprocess.PIPE, check=False)
    names = [n for n in listed.stdout.decode().split("\0") if n and (ROOT / n).is_file()]
    if not names:  # unpacked sources
        names = sorted(str(p.relative_to(ROOT)) for p in ROOT.rglob("*") if p.is_file()
                       and p.relative_to(ROOT).parts[0] != "build" and "__pycache__" not in p.parts)
    stem = f"mvbench-{_version()}"
    with tarfile.open(pathlib.Path(sdist_directory) / f"{stem}.tar.gz", "w:gz", format=tarfile.PAX_FORMAT) as archive:
        for name in names:
            if name != "PKG-INFO":
                archive.add(ROOT / name, f"{stem}/{name}")
        data = _metadata()
        info = tarfile.TarInfo(f"{stem}/PKG-INFO")
        info.size = len(data)
        archive.addfile(info, io.BytesIO(data))
    return f"{stem}.tar.gz"


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    """For `pip install -e .`: the wheel has only the paths of the checkout and of the build folder."""
    return build_wheel(wheel_directory, editable=True)


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None, editable=False):
    """Writes the wheel into the folder, and returns its name. FileNotFoundError: make has not been run."""
    build = pathlib.Path(os.environ.get("MVBENCH_BUILD", ROOT / "build"))
    version = _version()
    tag = f"py3-none-{re.sub('[-.]', '_', sysconfig.get_platform())}"
    info = f"mvbench-{version}.dist-info"
    contents = {"mvbench.py": LIB / "mvbench.py", "mvbench_layers.py": LIB / "mvbench_layers.py",
                "mvbench_abi.py": build / "mvbench_abi.py", "mvbench.libs/libmvbench.so": build / "libmvbench.so",
                "mvbench-stubs/__init__.pyi": LIB / "mvbench.py",  # a module's own annotations, for type checkers
                "mvbench_layers-stubs/__init__.pyi": LIB / "mvbench_layers.py",
                f"{info}/licenses/LICENSE": ROOT / "LICENSE"}
    for path in (LIB / "multiverso").rglob("*"):
        if path.suffix == ".py" or path.name == "py.typed":
            contents[str(path.relative_to(LIB))] = path
    for path in contents.values():
        if not path.exists():
            raise FileNotFoundError(f"{path} is missing" + (": run make first" if build in path.parents else ""))
    contents = {name: path.read_bytes() for name, path in contents.items() if not editable or info in name}
    if editable:
        contents["mvbench.pth"] = f"{LIB}\n{build.resolve()}\n".encode()
    # The wheel has no library of another project: Open MPI's are the machine's.
    contents[f"{info}/METADATA"] = _metadata()
    contents[f"{info}/WHEEL"] = f"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: {tag}\n".encode()
    record = []
    for name, data in contents.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        record.append(f"{name},sha256={digest},{len(data)}\n")
    contents[f"{info}/RECORD"] = "".join([*record, f"{info}/RECORD,,\n"]).encode()
    wheel = f"mvbench-{version}-{tag}.whl"
    with zipfile.ZipFile(pathlib.Path(wheel_directory) / wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in contents.items():
            archive.writestr(name, data)
    return wheel
