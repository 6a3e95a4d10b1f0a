"""HDFS for tests, on loopback, in a JVM of its own: one name node, or a pair of which one is active. The jars come
through Maven (`engines/hdfs/pom.xml`)."""

from __future__ import annotations

import os
from typing import Any, Final

from iceberg_hms.local.gateway import JavaGateway
from iceberg_hms.local.server import LocalServer
from integration.engines.downloads import downloaded
from integration.engines.site_files import write_site

NAME_SERVICE: Final = "pair"
#: With one alone, a client has written a block before the name node hears of it, and waits half a second at each close.
_DATA_NODES: Final = 3
_PROXY_PROVIDER: Final = "org.apache.hadoop.hdfs.server.namenode.ha.ConfiguredFailoverProxyProvider"
#: A client that comes before the other name node is active asks again soon.
_QUICK_FAILOVER: Final = {
    "dfs.client.failover.sleep.base.millis": "50",
    "dfs.client.failover.sleep.max.millis": "500",
}


class LocalHdfs(LocalServer):
    """A cluster with three data nodes, with LocalServer's life. Its superuser is the user of this process.

    pair: two name nodes behind the name service `pair`, the first of them active. Nothing but `fail_over` changes that.
    """

    name = "HDFS"
    log_name = "hdfs"

    def __init__(self, directory: str | os.PathLike[str], *, pair: bool = False) -> None:
        super().__init__(directory, 0)
        self._name_nodes = 2 if pair else 1
        self._cluster: Any = None
        self._stopped_data_nodes: list[Any] = []
        #: The number of the name node that is active.
        self.active = 0
        #: The folder with core-site.xml and hdfs-site.xml, as clients need them.
        self.config_dir = self._directory / "conf"

    @property
    def address(self) -> str:
        """The URI of the filesystem, without a slash at its end."""
        return f"hdfs://{NAME_SERVICE}" if self._name_nodes == 2 else f"hdfs://127.0.0.1:{self.port}"

    @property
    def settings(self) -> dict[str, str]:
        """What its clients are configured with, as in the files of `config_dir`."""
        settings = {"fs.defaultFS": self.address}
        if self._name_nodes == 2:
            prefix = f"dfs.namenode.rpc-address.{NAME_SERVICE}"
            settings |= {
                "dfs.nameservices": NAME_SERVICE,
                f"dfs.ha.namenodes.{NAME_SERVICE}": "nn1,nn2",
                f"{prefix}.nn1": f"127.0.0.1:{self.name_node_port(0)}",
                f"{prefix}.nn2": f"127.0.0.1:{self.name_node_port(1)}",
                f"dfs.client.failover.proxy.provider.{NAME_SERVICE}": _PROXY_PROVIDER,
                **_QUICK_FAILOVER,
            }
        return settings

    def name_node_port(self, number: int) -> int:
        return int(self._cluster.getNameNodePort(number))

    def stop_name_node(self, number: int) -> None:
        """End a name node; its connections break."""
        self._cluster.shutdownNameNode(number)

    def start_name_node(self, number: int) -> None:
        """Start a name node that was stopped, at its old port; one of a pair is a standby, and the other must run."""
        assert self._gateway is not None
        java = self._gateway.jvm.java
        no_arguments = java.lang.reflect.Array.newInstance(java.lang.Class.forName("java.lang.String"), 0)
        self._cluster.restartNameNode(number, False, no_arguments)
        self._cluster.waitActive(number)
        # It knows of no block yet, and a data node reports to all its name nodes: each of them must run.
        self._cluster.triggerBlockReports()

    def fail_over(self) -> None:
        """The other name node becomes the active one; if the active one runs, it becomes a standby first."""
        if self._cluster.isNameNodeUp(self.active):
            self._cluster.transitionToStandby(self.active)
        self.active = 1 - self.active
        self._cluster.transitionToActive(self.active)

    def stop_data_nodes(self) -> None:
        self._stopped_data_nodes = [self._cluster.stopDataNode(0) for _ in range(_DATA_NODES)]

    def start_data_nodes(self) -> None:
        """Start them again, at their old ports."""
        for each in self._stopped_data_nodes:
            self._cluster.restartDataNode(each, True)
        self._cluster.waitActive(self.active)

    def _launch(self) -> JavaGateway:
        return JavaGateway(
            self._directory,
            self.log_name,
            options=["-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"],
            classes=[downloaded("hdfs") / "jars" / "*"],
        )

    def _serve(self, gateway: JavaGateway) -> int:
        hdfs = gateway.jvm.org.apache.hadoop.hdfs
        conf = gateway.jvm.org.apache.hadoop.conf.Configuration()
        conf.set("hdfs.minidfs.basedir", str(self._directory / "data"))
        builder = hdfs.MiniDFSCluster.Builder(conf).numDataNodes(_DATA_NODES)
        if self._name_nodes == 2:
            builder = builder.nnTopology(_pair(hdfs.MiniDFSNNTopology))
        self._cluster = builder.build()
        if self._name_nodes == 2:
            self._cluster.transitionToActive(self.active)
        self._cluster.waitActive(self.active)
        self.port = self.name_node_port(0)
        self.config_dir.mkdir(exist_ok=True)
        write_site(self.config_dir / "core-site.xml", {"fs.defaultFS": self.address})
        write_site(self.config_dir / "hdfs-site.xml", self.settings)
        return self.port

    def _stop_serving(self) -> None:
        """Nothing: all nodes end with their JVM, while a shutdown in order may wait for a stopped one."""


def _pair(topology: Any) -> Any:
    """The topology of a name service with two name nodes."""
    service = topology.NSConf(NAME_SERVICE)
    for name in ("nn1", "nn2"):
        service = service.addNN(topology.NNConf(name))
    return topology().addNameservice(service)
