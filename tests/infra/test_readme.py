"""The page of the folder names what is in it."""

import re

from tests.infra.template import INFRA
from tests.support.pages import Page

PAGE = Page(INFRA / "README.md")


def test_it_names_everything_in_the_folder() -> None:
    told = set(re.findall(r"[\w.]+", PAGE.path.read_text(encoding="utf-8")))
    assert {path.name for path in INFRA.iterdir()} <= told | {"README.md"}


def test_its_links_lead_somewhere() -> None:
    links = PAGE.links()
    assert links
    assert all((INFRA / link.partition("#")[0]).exists() for link in links)
