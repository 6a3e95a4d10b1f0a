"""What is read of spark-defaults.conf, PYSPARK_SUBMIT_ARGS and hive-site.xml."""

from __future__ import annotations

from pathlib import Path

import pytest

from iceberg_hms.errors import ConfigError
from iceberg_hms.spark.configuration import ICEBERG_RUNTIME, JARS, PACKAGES
from iceberg_hms.spark.s3 import AWS_BUNDLE
from iceberg_hms.spark.user_settings import SUBMIT_ARGS, SparkFiles, SubmitArguments, parse_properties, read_properties

RUNTIME = "iceberg-spark-runtime-4.1_2.13-1.11.0.jar"
CLASS_PATH = "spark.driver.extraClassPath"


def files(home: Path, **environ: str) -> SparkFiles:
    return SparkFiles({"SPARK_HOME": str(home), **environ})


def write(file: Path, text: str) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return file


def hive_site(folder: Path, uris: str) -> None:
    entry = f"<property><name>hive.metastore.uris</name><value> {uris}\n</value></property>"
    write(folder / "hive-site.xml", f"<configuration><property><name>x</name></property>{entry}</configuration>")


def test_properties_are_read_as_java_reads_them() -> None:
    text = (
        "# a comment\n! another\n\n  spark.a  b c  \nspark.d=e\nspark.f : g\\\n   h\\\\\n"
        "spark.\\u0069 j\\tk\r\nspark.l\nspark\\ m=\\=n\nspark.o p\\"
    )
    assert parse_properties(text) == {
        "spark.a": "b c  ",
        "spark.d": "e",
        "spark.f": "gh\\",
        "spark.i": "j\tk",
        "spark.l": "",
        "spark m": "=n",
        "spark.o": "p",
    }


def test_only_settings_of_spark_are_taken_and_their_ends_trimmed(tmp_path: Path) -> None:
    assert read_properties(write(tmp_path / "x.conf", "spark.a b  \nhive.c d\n")) == {"spark.a": "b"}
    assert read_properties(tmp_path / "none.conf") == {}


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "x.conf").write_bytes(b"spark.a \xff\n")
    with pytest.raises(ConfigError, match=r"x\.conf cannot be read"):
        read_properties(tmp_path / "x.conf")


def test_arguments_end_with_the_program() -> None:
    arguments = SubmitArguments.parse(
        "--conf spark.a='b = c' -c spark.d=e --packages=x:y:1 --supervise --name n --jars a.jar prog.py --packages no"
    )
    assert arguments.settings == {"spark.a": "b = c", "spark.d": "e", PACKAGES: "x:y:1", JARS: "a.jar"}
    assert arguments.words[arguments.end :] == ("prog.py", "--packages", "no")
    assert SubmitArguments.parse("").end == 0
    assert SubmitArguments.parse("--packages").settings == {PACKAGES: ""}


def test_other_packages_are_the_last_option() -> None:
    arguments = SubmitArguments.parse("--packages x --name 'a b' pyspark-shell")
    assert arguments.with_packages("x,y") == "--packages x --name 'a b' --packages x,y pyspark-shell"


def test_quotes_that_do_not_match_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=rf"{SUBMIT_ARGS} cannot be parsed"):
        files(tmp_path, **{SUBMIT_ARGS: "--name 'a"}).user_settings({})


def test_the_builder_wins_over_arguments_and_those_over_the_file(tmp_path: Path) -> None:
    defaults = write(tmp_path / "conf" / "spark-defaults.conf", "spark.a file\nspark.b file\nspark.c file\n")
    found = files(tmp_path, **{SUBMIT_ARGS: "--conf spark.b=args --conf spark.c=args x"}).user_settings({"spark.c": 1})
    assert found.settings == {"spark.a": "file", "spark.b": "args", "spark.c": 1}
    assert [found.origin(key) for key in ("spark.a", "spark.b", "spark.c")] == [
        str(defaults),
        SUBMIT_ARGS,
        "the builder",
    ]


def test_for_what_the_jvm_starts_with_arguments_win_over_the_builder(tmp_path: Path) -> None:
    found = files(tmp_path, **{SUBMIT_ARGS: "--packages args x"}).user_settings({PACKAGES: "builder", JARS: "builder"})
    assert found.settings == {PACKAGES: "args", JARS: "builder"}
    assert found.origin(PACKAGES) == SUBMIT_ARGS


def test_a_properties_file_replaces_the_defaults_unless_both_are_asked_for(tmp_path: Path) -> None:
    write(tmp_path / "conf" / "spark-defaults.conf", "spark.a defaults\nspark.b defaults\n")
    mine = write(tmp_path / "mine.conf", "spark.b mine\n")
    alone = files(tmp_path, **{SUBMIT_ARGS: f"--properties-file {mine} x"})
    assert alone.user_settings({}).settings == {"spark.b": "mine"}
    both = files(tmp_path, **{SUBMIT_ARGS: f"--load-spark-defaults --properties-file {mine} x"})
    assert both.user_settings({}).settings == {"spark.a": "defaults", "spark.b": "mine"}


def test_the_folder_of_the_environment_wins_over_that_of_the_installation(tmp_path: Path) -> None:
    write(tmp_path / "conf" / "spark-defaults.conf", "spark.a home\n")
    write(tmp_path / "own" / "spark-defaults.conf", "spark.a own\n")
    assert files(tmp_path).user_settings({}).settings == {"spark.a": "home"}
    assert files(tmp_path, SPARK_CONF_DIR=str(tmp_path / "own")).user_settings({}).settings == {"spark.a": "own"}


def test_without_spark_nothing_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("iceberg_hms.spark.user_settings.find_spec", lambda name: None)
    nothing = SparkFiles({})
    assert nothing.user_settings({}).settings == {}
    assert nothing.metastore({}) is None
    assert nothing.lacking({}, [ICEBERG_RUNTIME]) == [ICEBERG_RUNTIME]


def test_the_first_hive_site_on_the_class_path_names_the_metastore(tmp_path: Path) -> None:
    found = files(tmp_path, HADOOP_CONF_DIR=str(tmp_path / "hadoop"), YARN_CONF_DIR=str(tmp_path / "yarn"))
    assert found.metastore({}) is None
    hive_site(tmp_path / "yarn", "thrift://yarn:1")
    assert found.metastore({}) == "thrift://yarn:1"
    hive_site(tmp_path / "hadoop", "thrift://hadoop:1")
    assert found.metastore({}) == "thrift://hadoop:1"
    hive_site(tmp_path / "conf", "thrift://conf:1")
    assert found.metastore({}) == "thrift://conf:1"
    hive_site(tmp_path / "first", "thrift://first:1,thrift://second:1")
    assert found.metastore({CLASS_PATH: f"/x.jar:{tmp_path / 'first'}"}) == "thrift://first:1,thrift://second:1"
    assert found.metastore({"spark.hive.metastore.uris": "thrift://setting:1"}) == "thrift://setting:1"


def test_a_hive_site_without_a_metastore_hides_those_behind_it(tmp_path: Path) -> None:
    hive_site(tmp_path / "conf", "")
    hive_site(tmp_path / "hadoop", "thrift://hadoop:1")
    assert files(tmp_path, HADOOP_CONF_DIR=str(tmp_path / "hadoop")).metastore({}) is None


def test_a_hive_site_that_is_no_xml_is_named(tmp_path: Path) -> None:
    write(tmp_path / "conf" / "hive-site.xml", "<configuration>")
    with pytest.raises(ConfigError, match=r"hive-site\.xml cannot be read"):
        files(tmp_path).metastore({})


@pytest.mark.parametrize(
    ("settings", "has"),
    [
        ({}, False),
        ({JARS: f"/a.jar, /jars/{RUNTIME}"}, True),
        ({JARS: f"https://h/jars/{RUNTIME}"}, True),
        ({JARS: "file:{home}/lib/*.jar"}, True),
        ({CLASS_PATH: f"/a:/jars/{RUNTIME}"}, True),
        ({CLASS_PATH: "{home}/lib/*"}, True),
        ({CLASS_PATH: "{home}/lib"}, False),
        ({PACKAGES: "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.10.0"}, True),
        ({PACKAGES: "org.x:y:1", JARS: "/a.jar"}, False),
    ],
)
def test_the_runtime_is_known_by_its_name(settings: dict[str, str], has: bool, tmp_path: Path) -> None:
    write(tmp_path / "lib" / RUNTIME, "")
    placed: dict[str, object] = {key: value.format(home=tmp_path) for key, value in settings.items()}
    lacking = files(tmp_path).lacking(placed, [ICEBERG_RUNTIME, AWS_BUNDLE])
    assert lacking == ([AWS_BUNDLE] if has else [ICEBERG_RUNTIME, AWS_BUNDLE])


def test_the_runtime_is_found_among_the_jars_of_the_installation(tmp_path: Path) -> None:
    write(tmp_path / "jars" / RUNTIME, "")
    assert files(tmp_path).lacking({}, [ICEBERG_RUNTIME]) == []


@pytest.mark.parametrize("settings", [{JARS: "/jars/iceberg-aws-bundle-1.11.0.jar"}, {PACKAGES: f"{AWS_BUNDLE}.1"}])
def test_the_library_of_aws_is_known_by_its_name(settings: dict[str, str], tmp_path: Path) -> None:
    assert files(tmp_path).lacking(settings, [ICEBERG_RUNTIME, AWS_BUNDLE]) == [ICEBERG_RUNTIME]
