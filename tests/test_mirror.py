"""A test file mirrors a module or its room: each module has tests at its own path or in the file of its room, which is
the folder that it lies in, and each test file has its module or room.

iceberg_hms/format/schema/schema.py  <->  tests/format/schema/test_schema.py, or tests/format/test_schema.py
simulation/engine/scheduler.py       <->  tests/simulation/engine/test_scheduler.py, or tests/simulation/test_engine.py

The file of a room suits modules that are small parts of one thing, which their tests use together.
"""

from __future__ import annotations

from pathlib import Path, PurePosixPath

ROOT = Path(__file__).parent.parent

#: Tests of the project itself: they mirror no module.
OF_THE_PROJECT = {
    "test_tidy.py",
    "test_mirror.py",
    "test_layers.py",
    "test_links.py",
    "test_readme.py",
    "test_deploy_files.py",
    "test_locks.py",
    "test_makefile.py",
    "test_exports.py",
    "test_glossary.py",
}

#: Tests by topic, each of many modules: they mirror none. Attacks; operations that overtake each other; random ones.
TOPICS = ("security/", "outcomes/", "random_operations/")

#: Modules that hold interfaces and plain records alone: the contract suites of iceberg_hms.testing are their tests.
INTERFACES = {
    "catalog/services.py",
    "coordinator/ports.py",
    "coordinator/hive_ports.py",
    "coordinator/view_ports.py",
    "lock_record.py",
    "migration/work.py",
    "simulation/mutants/mutant.py",
}

#: Modules that are data alone: one test file, named beside them, checks all that serve one purpose.
DATA = {
    "simulation/mutants/planted_*.py": "simulation/mutants/test_planted.py",
    "simulation/scenarios/catalog_operations.py": "simulation/scenarios/test_catalogue.py",
    "simulation/scenarios/locks.py": "simulation/scenarios/test_catalogue.py",
    "simulation/scenarios/writers.py": "simulation/scenarios/test_catalogue.py",
}


def expected_test(module: str) -> str:
    """Path of a module below iceberg_hms/ -> path of its own test file below tests/."""
    path = PurePosixPath(module)
    for pattern, test in DATA.items():
        if path.match(pattern):
            return test
    return (path.parent / f"test_{path.stem.strip('_')}.py").as_posix()


def room_test(module: str) -> str:
    """Path of a module below iceberg_hms/ -> path of its room's test file below tests/; "" for the package's own."""
    room = PurePosixPath(module).parent
    return room.with_name(f"test_{room.name}.py").as_posix() if room.name else ""


def unmirrored(modules: set[str], tests: set[str]) -> tuple[set[str], set[str]]:
    """Modules without tests, and test files without their module or room."""
    tests_of = {module: {expected_test(module), room_test(module)} for module in modules}
    optional = INTERFACES | {module for module in modules if PurePosixPath(module).name == "__init__.py"}
    missing = {module for module, may_be in tests_of.items() if not may_be & tests and module not in optional}
    ours = {test for test in tests if not test.startswith(TOPICS)}
    return missing, ours.difference(OF_THE_PROJECT, *tests_of.values())


def files_below(folder: Path, pattern: str) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob(pattern)}


def test_every_module_has_its_tests_and_every_test_file_its_module_or_room() -> None:
    modules = files_below(ROOT / "iceberg_hms", "*.py")
    modules |= {f"simulation/{module}" for module in files_below(ROOT / "simulation", "*.py")}
    tests = files_below(ROOT / "tests", "test_*.py")
    missing, stray = unmirrored(modules, tests)
    lines = [f"{module}: write tests/{expected_test(module)}, or the file of its room" for module in sorted(missing)]
    lines += [
        f"tests/{test}: tests no module and no room; move it beside the one that it tests" for test in sorted(stray)
    ]
    assert not lines, "\n" + "\n".join(lines)


def test_a_module_without_tests_is_found() -> None:
    assert unmirrored({"format/schema/schema.py", "clock.py"}, {"test_clock.py"}) == (
        {"format/schema/schema.py"},
        set(),
    )


def test_a_test_file_of_the_wrong_folder_does_not_count() -> None:
    assert unmirrored({"format/schema/schema.py"}, {"test_schema.py"}) == (
        {"format/schema/schema.py"},
        {"test_schema.py"},
    )


def test_the_test_file_of_a_room_has_the_tests_of_its_modules_but_not_of_rooms_in_it() -> None:
    modules = {"format/schema/schema.py", "format/schema/types.py", "format/avro/avro_file.py"}
    assert unmirrored(modules, {"format/test_schema.py"}) == ({"format/avro/avro_file.py"}, set())
    assert unmirrored(modules, {"test_format.py"}) == (modules, {"test_format.py"})


def test_no_test_file_is_the_whole_package_s() -> None:
    assert unmirrored({"clock.py"}, {"test_.py"}) == ({"clock.py"}, {"test_.py"})


def test_tests_by_topic_need_no_module() -> None:
    assert unmirrored(set(), {"security/test_bombs.py", "outcomes/test_a.py", "rest/security/test_bombs.py"}) == (
        set(),
        {"rest/security/test_bombs.py"},
    )


def test_modules_of_data_share_one_test_file_which_must_be_there() -> None:
    modules = {"simulation/mutants/planted_locks.py", "simulation/mutants/planted_groups.py"}
    assert unmirrored(modules, {"simulation/mutants/test_planted.py"}) == (set(), set())
    assert unmirrored(modules, set()) == (modules, set())


def test_a_package_may_have_tests_and_need_not() -> None:
    assert unmirrored({"format/__init__.py"}, set()) == (set(), set())
    assert unmirrored({"format/__init__.py"}, {"format/test_init.py"}) == (set(), set())
