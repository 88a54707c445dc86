import tomllib
from pathlib import Path

from oncue.version import VERSION


def test_house1_version_is_that_of_the_distribution() -> None:
    project = Path(__file__).parents[2] / "pyproject.toml"
    assert tomllib.loads(project.read_text("utf-8"))["project"]["version"] == VERSION
