"""Builds the wheel of mvbench.py for `pip install .` (PEP 517), with the library that make has built.

It needs nothing but the standard library. MVBENCH_BUILD: the build folder, by default build.
"""
import base64
import hashlib
import os
import pathlib
import re
import sysconfig
import zipfile

LIB = pathlib.Path(__file__).resolve().parent


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """Writes the wheel into the folder, and returns its name. FileNotFoundError: make has not been run."""
    build = pathlib.Path(os.environ.get("MVBENCH_BUILD", LIB.parent.parent / "build"))
    version = re.search(r'MVB_VERSION "([^"]+)"', (LIB / "libmvbench.h").read_text()).group(1)
    tag = f"py3-none-{re.sub('[-.]', '_', sysconfig.get_platform())}"
    info = f"mvbench-{version}.dist-info"
    contents = {"mvbench.py": LIB / "mvbench.py", "mvbench_layers.py": LIB / "mvbench_layers.py",
                "mvbench_abi.py": build / "mvbench_abi.py", "mvbench.libs/libmvbench.so": build / "libmvbench.so",
                f"{info}/licenses/LICENSE": LIB.parent.parent / "LICENSE"}
    for path in contents.values():
        if not path.exists():
            raise FileNotFoundError(f"{path} is missing" + (": run make first" if build in path.parents else ""))
    contents = {name: path.read_bytes() for name, path in contents.items()}
    # The wheel has no library of another project: Open MPI's are the machine's.
    contents[f"{info}/METADATA"] = (f"Metadata-Version: 2.4\nName: mvbench\nVersion: {version}\n"
                                    "License-Expression: MIT\nLicense-File: LICENSE\n").encode()
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
