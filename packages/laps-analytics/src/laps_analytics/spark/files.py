"""Files of this machine, written without a process for each.

Hadoop's local file system sets the mode of each file and folder that it makes. Without its native
library, which PySpark does not bring, it starts ``chmod`` for that: four processes for a small
Parquet file in a partition, checksum included, and most of the CPU of a write. Java can set a mode
itself. So where Spark runs in this process, its local file system is one that does.
"""

from __future__ import annotations

from typing import Any, Final

from pyspark.sql import SparkSession

__all__ = ["use_own_files"]

_RAW: Final = """
package laps;
public class RawFiles extends org.apache.hadoop.fs.RawLocalFileSystem {
    public void setPermission(
        org.apache.hadoop.fs.Path path, org.apache.hadoop.fs.permission.FsPermission mode
    ) throws java.io.IOException {
        if (mode.getStickyBit()) {
            super.setPermission(path, mode);
        } else {
            java.nio.file.Files.setPosixFilePermissions(
                pathToFile(path).toPath(),
                java.nio.file.attribute.PosixFilePermissions.fromString(mode.toString())
            );
        }
    }
}
"""

_FILES: Final = """
package laps;
public class Files extends org.apache.hadoop.fs.LocalFileSystem {
    public Files() {
        super(new laps.RawFiles());
        // A table takes the Parquet files alone: what is beside them was written for nothing.
        setWriteChecksum(false);
    }
}
"""


def use_own_files(spark: SparkSession) -> None:
    """Let Hadoop use our file system for ``file:`` in the JVM of a local session, from now on.

    It is compiled by the compiler that Spark has for its own code. Hadoop keeps one file system for
    all of a process; so what is there goes, and ours is made before anybody asks again.
    """
    jvm: Any = spark.sparkContext._jvm  # noqa: SLF001 - PySpark has no other way to Hadoop
    context: Any = spark.sparkContext._jsc  # noqa: SLF001
    hadoop = jvm.org.apache.hadoop
    here = jvm.java.net.URI.create("file:///")
    before = hadoop.fs.FileSystem.get(here, context.hadoopConfiguration())
    if before.getClass().getName() == "laps.Files":
        return
    loader = before.getClass().getClassLoader()
    for source in (_RAW, _FILES):
        compiler = jvm.org.codehaus.janino.SimpleCompiler()
        compiler.setParentClassLoader(loader)
        compiler.cook(source)
        loader = compiler.getClassLoader()
    conf = hadoop.conf.Configuration(context.hadoopConfiguration())
    conf.setClassLoader(loader)
    conf.set("fs.file.impl", "laps.Files")
    before.close()
    hadoop.fs.FileSystem.get(here, conf)
