"""Archives that are published like Java's libraries, fetched by the Ivy that Spark brings."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tests.services.jars import spark_home
from tests.services.java import java_home
from tests.services.progress import run

if TYPE_CHECKING:
    from pathlib import Path

_MODULE = """<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">
  <info organisation="tests" module="tests"/>
  <dependencies>
    <dependency org="{group}" name="{name}" rev="{version}" transitive="false">
      <artifact name="{name}" type="{type}" ext="{type}" m:classifier="{classifier}"/>
    </dependency>
  </dependencies>
</ivy-module>
"""


class Artifact(NamedTuple):
    """Coordinates of a file."""

    group: str
    name: str
    version: str
    type: str
    classifier: str


def download(artifact: Artifact, folder: Path) -> Path:
    """Fetch a file into `folder / "download"`, and return it.

    Raises:
        ServiceError: It cannot be had.
    """
    work = folder / "download"
    work.mkdir(parents=True)
    module = work / "ivy.xml"
    module.write_text(_MODULE.format(**artifact._asdict()))
    (ivy,) = (spark_home() / "jars").glob("ivy-*.jar")
    target = work / f"{artifact.name}.{artifact.type}"
    home = [f"-Duser.home={work}", f"-Divy.default.ivy.user.dir={work / 'ivy'}"]
    java: list[str | Path] = [java_home() / "bin" / "java", *home, "-jar", ivy]
    command = [*java, "-ivy", module, "-warn"]
    run([*command, "-retrieve", work / "[artifact].[ext]"], folder=work)
    return target
