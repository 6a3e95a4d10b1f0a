"""The links of the documentation lead somewhere: each file and each heading that one names exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def broken_links(page: Path) -> list[str]:
    """The links of a page to a file or heading of the project that does not exist."""
    links = re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8"))
    return [link for link in links if "://" not in link and not _exists(page, link)]


def _exists(page: Path, link: str) -> bool:
    path, _, heading = link.partition("#")
    target = page.parent / path if path else page
    if not target.exists():
        return False
    return not heading or heading in {_anchor(line) for line in target.read_text(encoding="utf-8").splitlines()}


def _anchor(line: str) -> str:
    """As GitHub makes it of a heading."""
    title = re.fullmatch(r"#+ (.*)", line)
    return "" if title is None else re.sub(r"[^\w\- ]", "", title[1].lower()).replace(" ", "-")


@pytest.mark.parametrize("page", [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")], ids=lambda page: page.name)
def test_every_link_leads_somewhere(page: Path) -> None:
    assert broken_links(page) == []


def test_a_broken_link_is_found(tmp_path: Path) -> None:
    (tmp_path / "other.md").write_text("# One, two: `three`\n", encoding="utf-8")
    page = tmp_path / "page.md"
    good = "[a](other.md) [b](other.md#one-two-three) [c](#here) [d](https://example.org/x#y)\n\n## Here\n"
    page.write_text(good + "[e](gone.md) [f](other.md#four) [g](#there)\n", encoding="utf-8")
    assert broken_links(page) == ["gone.md", "other.md#four", "#there"]


def missing_paths(page: str) -> list[str]:
    """The modules and rooms of the package, and of the folders beside it, that a page names and that do not exist. A
    name without a folder is that of any module."""
    named = re.findall(r"`((?:\w+/)*\w+\.py|(?:\w+/)+)`", page)
    modules = [path.relative_to(ROOT).as_posix() for path in ROOT.glob("*/**/*.py")]
    return [
        path
        for path in named
        if not any(f"/{module}".endswith(f"/{path}") or f"/{path}" in f"/{module}" for module in modules)
    ]


@pytest.mark.parametrize("page", ["ARCHITECTURE.md", "docs/failures.md", "docs/decisions.md"])
def test_the_modules_that_a_page_names_are_there(page: str) -> None:
    assert missing_paths((ROOT / page).read_text(encoding="utf-8")) == []


def test_a_missing_module_is_found() -> None:
    text = "`cli/serve.py` `serve.py` `cli/` `cli/gone.py` `gone.py` `gone/` `er/serve.py`"
    assert missing_paths(text) == ["cli/gone.py", "gone.py", "gone/", "er/serve.py"]
