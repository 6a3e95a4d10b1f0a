"""Documents that run as written: their blocks of code, what each needs, and a new user's shells to run them in.

The rules, which leave no block out unseen:
- Every block of code is fenced and names its language.
- `sh` runs in bash, where each command must succeed; `python` is pasted into one interpreter for each document, which
  has the shell's environment. A block that starts a server goes on, and the next one runs once it listens.
- `sql` is for Spark. `toml` is a file of settings that loads. `json` parses. INERT is for people and other programs.
- A block with a word of ENGINES needs more than the metastore, and runs with `make test-all`. One with a word of
  ELSEWHERE cannot run on any machine of ours. Comments do not count.
- `make` is asked whether it has the targets, and does not make them: continuous integration does.
- The ports of STAND_INS are replaced, since another run may use the same machine.
"""

from __future__ import annotations

import os
import re
import select
import shlex
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from markdown_it import MarkdownIt

from integration.faults import until

ROOT: Final = Path(__file__).parent.parent

RUN: Final = frozenset({"sh", "python", "sql"})
CHECKED: Final = frozenset({"toml", "json"})
INERT: Final = frozenset({"text", "nginx"})

#: What `make test-all` has beside a metastore and ZooKeeper, and the words by which a block asks for it.
ENGINES: Final = {
    "Spark": r"\b(py)?spark\b|\bspark-(sql|shell|submit)\b|\bbeeline\b|\biceberg-hms migrate\b",
    "S3": r"\bs3://|_S3_",
    "a package registry": r"\bpip (install|wheel)\b",
}
#: What nobody has who runs the tests, and the words by which a block asks for it.
ELSEWHERE: Final = {
    "root's rights on a host with systemd": r"^systemctl\b",
    "a container engine and a cluster": r"^(docker|kubectl)\b",
    "a service of the reader's": r"\bexample\.com\b",  # RFC 2606: nobody's
}
#: Where servers listen by default.
REST, MINIO, THRIFT_SERVER = "8181", "9000", "10000"
STAND_INS: Final = (REST, MINIO, THRIFT_SERVER)

_PORT: Final = re.compile(rf"(?<=[:=])({'|'.join(STAND_INS)})\b")
_SERVER: Final = re.compile(r"^iceberg-hms (local|serve)\b", re.MULTILINE)
_LISTENS: Final = '"event":"listening"'
_THRIFT_SERVER: Final = "HiveThriftServer2"
_COMMENT: Final = re.compile(r"(^|\s)#.*")
#: For one block, with a JVM or an installation in it, on a busy machine.
BLOCK_SECONDS: Final = 240
END_SECONDS: Final = 60

#: `python` at a terminal, where blocks are pasted, but for errors: they end it.
_INTERPRETER: Final = """
import code, os, sys, traceback

class Terminal(code.InteractiveConsole):
    def showtraceback(self):
        traceback.print_exc()
        sys.exit(1)

    def showsyntaxerror(self, filename=None, **others):
        self.showtraceback()

terminal = Terminal()
for line in sys.stdin:
    with open(line.rstrip("\\n"), encoding="utf-8") as file:
        for pasted in [*file.read().splitlines(), ""]:
            terminal.push(pasted)
    os.write(int(sys.argv[1]), b".")
"""


@dataclass(frozen=True)
class Block:
    """A block of code. place: its page and line. language: empty for one that is indented, not fenced."""

    place: str
    language: str
    code: str

    def needs(self, kinds: Mapping[str, str]) -> list[str]:
        """Which of ENGINES or ELSEWHERE it needs."""
        if self.language not in RUN:
            return []
        code = "\n".join(_COMMENT.sub("", line) for line in self.code.splitlines())
        found = [name for name, words in kinds.items() if re.search(words, code, re.MULTILINE)]
        return ["Spark", *found] if self.language == "sql" and "Spark" in kinds else found


def blocks_of(text: str, page: str) -> list[Block]:
    """The blocks of a page, from the top."""
    tokens = [token for token in MarkdownIt().parse(text) if token.type in ("fence", "code_block")]
    return [
        Block(f"{page}:{token.map[0] + 1}", token.info if token.type == "fence" else "", token.content)
        for token in tokens
        if token.map is not None
    ]


def read_blocks(page: str, heading: str = "") -> list[Block]:
    """The blocks of a page of the project; with a heading, those of its section alone."""
    text = (ROOT / page).read_text(encoding="utf-8")
    if heading:
        text = text.partition(f"\n{heading}\n")[2].partition("\n## ")[0]
    return blocks_of(text, page)


@dataclass
class NewUser:
    """Somebody who runs a document in a folder that is like a fresh checkout.

    log: a folder for what the blocks print. environ: of the shell; its blocks change it. ports: what stands for those
    of STAND_INS.
    """

    folder: Path
    log: Path
    environ: dict[str, str]
    ports: Mapping[str, str]
    _stack: ExitStack
    _interpreter: Interpreter | None = field(default=None, init=False)

    def run(self, block: Block) -> None:
        """Run a block. Raises AssertionError with its place and what it printed."""
        code = _PORT.sub(lambda written: self.ports[written[0]], block.code)
        log = self.log / f"{block.place.replace('/', '-')}.log"
        if block.language in ("python", "sql"):
            if self._interpreter is None:
                self._interpreter = self._stack.enter_context(_interpreter(self.folder, self.environ, self.log))
            self._interpreter.run(_by_spark(code) if block.language == "sql" else code, block.place)
        elif _SERVER.search(code):
            process = self._stack.enter_context(_bash(code, self.folder, self.environ, log))
            _await_listening(process, block.place, log, lambda: _LISTENS in log.read_text(errors="replace"))
        elif _THRIFT_SERVER in code:
            process = self._stack.enter_context(_bash(code, self.folder, self.environ, log))
            _await_listening(process, block.place, log, lambda: _accepts(self.ports[THRIFT_SERVER]))
        else:
            self._run_commands(code, log, block.place)

    def _run_commands(self, code: str, log: Path, place: str) -> None:
        after = self.log / "environment"
        code = f"{code}\nenv -0 > {shlex.quote(str(after))}"
        with _bash(code, self.folder, self.environ, log) as process:
            assert process.wait(BLOCK_SECONDS) == 0, _failed(place, log)
        pairs = (pair.partition("=") for pair in after.read_text(encoding="utf-8").split("\0") if pair)
        self.environ = {name: value for name, _, value in pairs}


@dataclass(frozen=True)
class Interpreter:
    """A `python` that runs one block after the other among the same names."""

    process: subprocess.Popen[str]
    done: int
    log: Path
    folder: Path

    def run(self, code: str, place: str) -> None:
        """Raises AssertionError with the place and what was printed."""
        file = self.folder / f"{place.replace('/', '-').replace(':', '-')}.py"
        file.write_text(code, encoding="utf-8")
        assert self.process.stdin is not None
        self.process.stdin.write(f"{file}\n")
        self.process.stdin.flush()
        ready, _, _ = select.select([self.done], [], [], BLOCK_SECONDS)
        assert ready, f"{place} runs for more than {BLOCK_SECONDS} s"
        # The pipe's end says that the process has ended.
        assert os.read(self.done, 1) == b".", _failed(place, self.log)


@contextmanager
def new_user(folder: Path, known_ports: Mapping[str, str], **environ: str) -> Iterator[NewUser]:
    """A new user, until the block ends; then the servers that they started end. folder: may have other files.
    known_ports: of servers that run already, in place of STAND_INS. environ: more variables."""
    checkout, log, tools = (folder / name for name in ("checkout", "log", "tools"))
    for made in (checkout, log, tools):
        made.mkdir()
    for path in ROOT.iterdir():
        if path.name in ("Makefile", "README.md", "LICENSE", "NOTICE", "MANIFEST.in", "conf", "iceberg_hms") or (
            path.suffix in (".cfg", ".toml")
        ):
            (checkout / path.name).symlink_to(path)
    (checkout / ".venv").symlink_to(sys.prefix)
    _write_make(tools / "make")
    foreign = ("ICEBERG_HMS_", "PYICEBERG_", "AWS_", "MAKE", "MFLAGS", "PYTEST_", "SPARK_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    ports = {port: known_ports.get(port) or str(_free_port()) for port in STAND_INS}
    own = {
        "PATH": f"{tools}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        "ICEBERG_HMS_REST_PORT": ports[REST],
        # The environment of the tests may have been made for another checkout.
        "PYTHONPATH": str(ROOT),
    }
    with ExitStack() as stack:
        yield NewUser(checkout, log, {**kept, **own, **environ}, ports, stack)


def _write_make(file: Path) -> None:
    """A `make` that says whether the checkout's own has its targets."""
    make = shutil.which("make")
    assert make is not None, "the documents need make"
    file.write_text(f'#!/bin/sh\nexec {make} --dry-run -C {shlex.quote(str(ROOT))} "$@" > /dev/null\n')
    file.chmod(0o755)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def _interpreter(folder: Path, environ: Mapping[str, str], log: Path) -> Iterator[Interpreter]:
    done, written = os.pipe()
    output = (log / "python.log").open("wb")
    process = subprocess.Popen(
        ["python", "-c", _INTERPRETER, str(written)],
        cwd=folder,
        env=environ,
        stdin=subprocess.PIPE,
        stdout=output,
        stderr=output,
        text=True,
        pass_fds=[written],
    )
    os.close(written)
    with output, process:
        try:
            yield Interpreter(process, done, log / "python.log", log)
            assert process.stdin is not None
            process.stdin.close()
            assert process.wait(END_SECONDS) == 0, _failed("the interpreter's end", log / "python.log")
        finally:
            process.kill()
            os.close(done)


@contextmanager
def _bash(code: str, folder: Path, environ: Mapping[str, str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Commands, each of which must succeed. What is left of them ends with the block, and with this process."""
    launcher = ["setpriv", "--pdeathsig", "TERM"] if shutil.which("setpriv") else []
    # bash answers signals between commands alone, so it waits for one in the background.
    script = f"trap 'trap - TERM; kill 0' TERM\n{{\n{code}\n}} &\nwait $!"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*launcher, "bash", "-euo", "pipefail", "-c", script],
            cwd=folder,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            process_group=0,
        )
    with process:
        try:
            yield process
        finally:
            # The group outlives its leader as long as anything runs in it.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(END_SECONDS)
            finally:
                process.kill()


def _await_listening(process: subprocess.Popen[bytes], place: str, log: Path, listens: Callable[[], bool]) -> None:
    until(lambda: process.poll() is not None or listens(), f"{place} listens")
    assert process.poll() is None, _failed(place, log)


def _accepts(port: str) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", int(port))) == 0


def _by_spark(statements: str) -> str:
    """Python that runs statements of SQL in a session on iceberg-hms."""
    each = [statement for part in re.sub("--.*", "", statements).split(";") if (statement := part.strip())]
    session = "iceberg_hms.spark.configure(SparkSession.builder).getOrCreate()"
    imports = "import iceberg_hms.spark\nfrom pyspark.sql import SparkSession\n"
    return f"{imports}for statement in {each!r}:\n    {session}.sql(statement)\n"


def _failed(place: str, log: Path) -> str:
    return f"{place} failed:\n{log.read_text(errors='replace')[-4000:]}"
