"""The Spark session of loops: settings that make hops cheap, and a start without log lines.

A running session, such as a notebook's, is used as it is. Otherwise Spark starts with the settings
below; the caller's, and those of `spark-submit`, take precedence.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit
from urllib.request import getproxies

import pyspark
from py4j.java_gateway import JavaGateway
from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote as is_remote_mode

from vertexsdk.arrays.private_files import NotPrivateError, make_private, user_cache
from vertexsdk.errors import InputError
from vertexsdk.state.address import redacted
from vertexsdk.transport._spark_internals import executor_cores
from vertexsdk.transport.shipping import prepare_workers
from vertexsdk.transport.transport import is_remote

CONNECT_SECONDS = 3.0
EXECUTOR_SECONDS = 60.0
_CONNECT_PORT = 15002  # of a URL without one
# Executors with which dynamic allocation starts.
_AT_FIRST = (
    "spark.dynamicAllocation.minExecutors",
    "spark.dynamicAllocation.initialExecutors",
    "spark.executor.instances",
)
_MORE = 2  # slots for loaders and streams, beside the processors of graphs

SETTINGS = {
    # A TCP socket to a Python worker costs 40 ms a task in delayed acknowledgements.
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.python.worker.reuse": "true",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Blocks are dense numbers: compressing them costs more than moving them.
    "spark.shuffle.compress": "false",
    "spark.shuffle.spill.compress": "false",
    "spark.broadcast.compress": "false",
    # What tasks report counts as results, and the commands for them as part of the task.
    "spark.driver.maxResultSize": "4g",
    "spark.rpc.message.maxSize": "1024",
    # The files of a shuffle are deleted when the driver's JVM finds that they are not needed.
    "spark.cleaner.periodicGC.interval": "5min",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Passwords in URLs, which plans show that read a result; plans are logged.
    "spark.redaction.string.regex": r"(?<=://)[^/@\s]*:[^@\s]*(?=@)|(?<=[?&]password=)[^&\s,\]]+",
}

# On a local master, a command's JVM only schedules tasks and moves blocks. The first compiler's
# code is fast enough for that; the second compiler, and a garbage collector with several threads,
# would take the kernels' cores for the first minutes.
_LOCAL_JAVA = {"Tiered": "-XX:TieredStopAtLevel=1", "GC": "-XX:+UseSerialGC"}
_FEW_CORES = 4  # above which the JVM chooses its own collector
_JAVA_FROM = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS", "SPARK_SUBMIT_OPTS")
_MASTER = re.compile(r"local(\[[^\]]+\])?|local-cluster\[\d+,\d+,\d+\]|yarn|(spark|k8s)://.+")
_LOOPBACK = re.compile(r"local|spark://(127\.0\.0\.1|localhost):")
_NOISE = re.compile(
    rb"WARNING: Using incubator modules|Using Spark's default log4j profile"
    rb"|Setting default log level to|To adjust logging level use|Picked up J\w+_OPTIONS"
    # A Python worker whose socket was closed as Spark stopped.
    rb'|  File ".*pyspark/daemon\.py"|BrokenPipeError: |ConnectionResetError: '
)
_COMMAND = "sun.java.command"  # of a JVM
_TRACE = b"Traceback (most recent call last):\n"
_LOGGING = """\
rootLogger.level = {level}
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{{HH:mm:ss}} %p %c{{1}}: %m%n
"""


def session(master: str | None = None, app: str = "vertexsdk", **conf: str) -> SparkSession:
    """Return the running Spark session, or start one.

    Spark's log is off; the environment variable `VERTEXSDK_SPARK_LOG=WARN` (or any other level)
    turns it on.

    Args:
        master: a Spark master URL, such as `local[4]` or `spark://HOST:7077`; the default is that
            of `spark-submit`, or else `local` with two slots more than this machine has cores, as
            the processors of a graph keep one each. Or the URL of a Spark Connect server,
            `sc://HOST:15002`; the default is then `SPARK_REMOTE`. Ignored if a session is running.
        app: the name of the application, as Spark's web interface shows it.
        conf: Spark settings, with `__` for the dots: `spark__executor__memory="2g"`; or pass
            `**{"spark.executor.memory": "2g"}`.

    Returns:
        The session, with the settings that vertexsdk needs; a remote one has its server's.

    Raises:
        InputError: `master` is not a master URL, cannot be reached, or has no free worker.

    Example:
        >>> session() is spark  # a session is running
        True
    """
    running = SparkSession.getActiveSession()
    if running is None and SparkContext._active_spark_context is not None:
        running = SparkSession(SparkContext._active_spark_context)
    if running is not None:
        if not is_remote(running):
            prepare_workers(running.sparkContext)
        return running
    if master is None or master.startswith("sc://"):
        if master or is_remote_mode() or "SPARK_REMOTE" in os.environ:
            return remote_session(master, app, conf)
    overrides = {key.replace("__", "."): value for key, value in conf.items()}
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ  # a JVM with its own settings waits for us
    if master is not None or not submitted:
        overrides["spark.master"] = master = master or f"local[{(os.cpu_count() or 1) + _MORE}]"
        check_master(master)
        if _LOOPBACK.match(master) and not submitted:
            overrides.setdefault("spark.driver.host", "127.0.0.1")
            overrides.setdefault("spark.driver.bindAddress", "127.0.0.1")
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    if submitted:
        SparkContext._ensure_initialized()
        _hide_passwords()
        submit_conf = dict(SparkConf().getAll())
        settings = {k: v for k, v in SETTINGS.items() if k not in submit_conf} | overrides
        if "log4j" not in submit_conf.get("spark.driver.extraJavaOptions", ""):
            level = os.environ.get("VERTEXSDK_SPARK_LOG", "OFF")
            settings.setdefault("spark.log.level", submit_conf.get("spark.log.level", level))
    else:
        settings = {**SETTINGS, "spark.driver.memory": _driver_memory(), **overrides}
        os.environ.setdefault("SPARK_HOME", str(Path(pyspark.__file__).parent))
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    with _one_line(master):
        if not submitted:
            _start_quietly(settings)
        builder = SparkSession.builder.appName(app)
        for key, value in settings.items():
            builder = builder.config(key, value)
        spark = builder.getOrCreate()
    if master is not None and master.startswith(("spark://", "local-cluster")):
        _await_executors(spark, master)
    prepare_workers(spark.sparkContext)
    return spark


def remote_session(url: str | None, app: str, conf: dict[str, str]) -> SparkSession:
    """Return the process's remote session, or connect; starts no JVM."""
    server = urlsplit(url or os.environ.get("SPARK_REMOTE", ""))
    if server.scheme == "sc" and not getproxies():  # gRPC would try for ten minutes
        host, _, port = server.netloc.rpartition(":")
        if not _answers(host or port, port if host else str(_CONNECT_PORT)):
            raise InputError(f"no Spark Connect server answers at {server.netloc}; start it first")
    with _one_line(server.netloc or server.path):  # not the token
        builder: Any = SparkSession.builder
        if is_remote_mode():  # there was a session, perhaps another thread's
            from pyspark.sql.connect.session import SparkSession as RemoteSession

            builder = RemoteSession.builder
        builder = builder.appName(app) if url is None else builder.appName(app).remote(url)
        for key, value in conf.items():
            builder = builder.config(key.replace("__", "."), value)
        spark: SparkSession = builder.getOrCreate()
        return spark


def _driver_memory() -> str:
    """A sixth of the machine, 1 to 8 GiB: graphs live in the Python workers, not in the JVM."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return f"{min(max(total // 6 >> 20, 1024), 8192)}m"


def _hide_passwords() -> None:
    """Take passwords in URLs out of the command line, which Spark logs and shows as a property."""
    with contextlib.suppress(Py4JError, AttributeError):
        system: Any = SparkContext._jvm.java.lang.System  # type: ignore[union-attr]
        system.setProperty(_COMMAND, without_secrets(system.getProperty(_COMMAND) or ""))


def without_secrets(command: str) -> str:
    return re.sub(r"[a-z0-9+]+://\S+", lambda url: redacted(url[0]), command)


def check_master(master: str) -> None:
    """Raise InputError unless the URL is valid and, if it is a standalone master's, answers."""
    if not _MASTER.fullmatch(master):
        raise InputError(
            f"master {master!r} is not a Spark master; "
            "give local[N], local-cluster[N,CORES,MB], spark://HOST:PORT, yarn, k8s://... or "
            "sc://HOST:PORT"
        )
    if not master.startswith("spark://"):
        return
    addresses = [a.rpartition(":") for a in master.removeprefix("spark://").split(",")]
    if not any(_answers(host, port) for host, _, port in addresses):
        raise InputError(f"no Spark master answers at {master}; start it, or correct the address")


def _answers(host: str, port: str) -> bool:
    with contextlib.suppress(OSError, ValueError, OverflowError):
        socket.create_connection((host, int(port)), CONNECT_SECONDS).close()
        return True
    return False


def _await_executors(spark: SparkSession, master: str) -> None:
    """Wait until no more executors register, so that the anchor spreads partitions over all.

    Raises:
        InputError: no executor registered, so a job would wait for ever.
    """
    conf = spark.sparkContext.getConf()
    if conf.get("spark.dynamicAllocation.enabled") == "true" and not any(
        int(conf.get(name) or 0) for name in _AT_FIRST
    ):
        return  # executors come when jobs ask for them
    expected = int(master[len("local-cluster[") :].split(",")[0]) if "[" in master else None
    start = changed = time.monotonic()
    executors = 0
    while executors == 0 or (executors != expected and time.monotonic() < changed + 1.0):
        count = len(executor_cores(spark.sparkContext))
        if count != executors:
            executors, changed = count, time.monotonic()
        if executors == 0 and time.monotonic() > start + EXECUTOR_SECONDS:
            spark.stop()
            raise InputError(
                f"{master} gave no executor in {EXECUTOR_SECONDS:.0f} s: "
                "start a worker, or ask for fewer cores and less memory"
            )
        time.sleep(0.05)


@contextlib.contextmanager
def _one_line(master: str | None) -> Iterator[None]:
    """Turn exceptions of Spark's start into an InputError of one line."""
    try:
        yield
    except (Py4JError, PySparkException, ImportError, OSError, RuntimeError) as error:
        text = str(getattr(error, "java_exception", error)).strip() or type(error).__name__
        if "JAVA_GATEWAY_EXITED" in text or isinstance(error, FileNotFoundError):
            text = "Java did not start; install Java 17 or newer and set JAVA_HOME to it"
        if isinstance(error, ImportError):  # also one of PySpark's exceptions
            text = "a remote session needs more packages: pip install 'vertexsdk[connect]'"
        raise InputError(f"Spark did not start on {master}: {text.splitlines()[0]}") from error


def _start_quietly(settings: dict[str, str]) -> None:
    """Start the JVM with Spark's log off, and without the lines it prints before that."""
    with SparkContext._lock:
        if SparkContext._gateway is not None:
            return
    level = os.environ.get("VERTEXSDK_SPARK_LOG", "OFF")
    with tempfile.TemporaryDirectory(prefix="vertexsdk-") as directory:
        logging = Path(directory, "log4j2.properties")
        logging.write_text(_LOGGING.format(level=level))
        option = f"-Dlog4j2.configurationFile={logging.as_uri()}"
        java = settings.get("spark.driver.extraJavaOptions", "")
        archive = archive_options(f"{java} {_environment_options()}")
        try:
            gateway, conf = _launch(settings, f"{java} {archive} {option}")
        except PySparkException:
            if not delete_archive(archive):
                raise
            gateway, conf = _launch(settings, f"{java} {option}")  # the archive was damaged
        # The JVM has read its log settings once it has made a logger.
        gateway.jvm.org.apache.logging.log4j.LogManager.getRootLogger()
    SparkContext._ensure_initialized(gateway=gateway, conf=conf)


def _launch(settings: dict[str, str], java: str) -> tuple[JavaGateway, SparkConf]:
    conf = SparkConf(loadDefaults=False).setAll(
        list({**settings, "spark.driver.extraJavaOptions": java}.items())
    )
    reader, writer = os.pipe()
    try:
        return launch_gateway(conf, {"stderr": writer}), conf  # type: ignore[no-untyped-call]
    finally:
        os.close(writer)
        threading.Thread(target=pass_on, args=(os.fdopen(reader, "rb"),), daemon=True).start()


def light_java(master: str | None) -> dict[str, str]:
    """Settings for a command's session on a local master, unless the user chose Java options.

    Not for a session in which the user's own queries run: those need the JVM's best code.

    Example:
        >>> light_java("yarn")
        {}
    """
    if "PYSPARK_GATEWAY_PORT" in os.environ or not re.match(r"local(\[|$)", master or "local"):
        return {}
    options = _environment_options()
    few = (os.cpu_count() or 1) <= _FEW_CORES
    chosen = [
        option
        for word, option in _LOCAL_JAVA.items()
        if word not in options and (few or word != "GC")
    ]
    return {"spark.driver.extraJavaOptions": " ".join(chosen)} if chosen else {}


def _environment_options() -> str:
    return " ".join(os.environ.get(name, "") for name in _JAVA_FROM)


def pass_on(lines: IO[bytes]) -> None:
    """Copy the JVM's standard error to ours, without the noise of starting and stopping."""
    pending = b""  # the head of a traceback, until its next line shows whether it is noise
    with lines:
        for line in lines:
            if line == _TRACE:
                pending = line
                continue
            if not _NOISE.match(line):
                with contextlib.suppress(OSError, ValueError):
                    os.write(2, pending + line)
            pending = b""


# An archive of the classes that Spark loads, from which later JVMs start in half the time.
#
# This is the JDK's class data sharing: the JVM writes the archive as it ends, after its driver
# has ended, where there is none for this Java and this PySpark. It takes some 150 MB in the
# user's cache directory. A JVM that the archive does not fit ignores it.

_QUIET = "-Xlog:cds=off -Xlog:cds+dynamic=off"
_BYTES = 1 << 30  # that must be free to write one
_ABANDONED = 300.0  # seconds after which a JVM that began to write an archive has died


def archive_options(chosen: str) -> str:
    """Return Java options by which a JVM uses the archive, or writes it.

    Args:
        chosen: the user's Java options; none are added where they share classes already.
    """
    java = _java()
    if java is None or "-Xshare" in chosen or "Archive" in chosen:
        return ""
    try:
        path = make_private(os.path.join(user_cache(), "java")) / f"{_digest(java)}.jsa"
        if _complete(path):
            return f"-XX:SharedArchiveFile={path} {_QUIET}"
        being_written = path.exists() and time.time() - path.stat().st_mtime < _ABANDONED
        if being_written or shutil.disk_usage(path.parent).free < _BYTES or " " in str(path):
            return ""
        return f"-XX:ArchiveClassesAtExit={path} {_QUIET}"
    except (OSError, NotPrivateError):
        return ""


def delete_archive(options: str) -> bool:
    """Delete the archive that a JVM with these options was to use; return whether there was one.

    A JVM does not start from an archive that was cut off by a power cut.
    """
    _, uses, path = options.partition("-XX:SharedArchiveFile=")
    if uses:
        Path(path.split()[0]).unlink(missing_ok=True)
    return bool(uses)


def _java() -> Path | None:
    """The program that PySpark starts."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=os.path.join(home, "bin") if home else None)
    return None if java is None else Path(java).resolve()


def _digest(java: Path) -> str:
    """Return a digest of what an archive is bound to: the JDK, and Spark's jars."""
    spark = os.environ.get("SPARK_HOME") or os.path.dirname(pyspark.__file__)
    parts = [pyspark.__version__, spark, str(java)]
    parts += [str(os.stat(path).st_mtime_ns) for path in (java, os.path.join(spark, "jars"))]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:24]


def _complete(path: Path) -> bool:
    """Return whether there is an archive; the JVM writes its first bytes last."""
    try:
        with path.open("rb") as file:
            return file.read(4) not in (b"", bytes(4))
    except FileNotFoundError:
        return False
