"""Addresses of services, and a front end that deals out the requests of services with several servers.

Each server of a service gets its planned part of the requests: in turn, or at random if the plan is made for random
routing. The front end is nginx, with weighted round robin or the method ``random``.
"""

import csv
import io
from collections.abc import Callable, Mapping, Sequence

from bench.deploy.servers import Server
from instances.grouping import grouped

CONFIGURATION, ENDPOINTS = "nginx.conf", "endpoints.csv"

CONTAINER_PORT = 8000
"""Port of a server in a container of its own."""

FIRST_SERVICE_PORT, FIRST_SERVER_PORT = 8001, 9001
"""First port of the front end, and first port of the servers that share a host's network."""

MOST_WEIGHT = 1000
"""Weight of the server with the largest rate; the other servers have weights in proportion, at least 1."""


def replicated(servers: Sequence[Server]) -> dict[str, list[Server]]:
    """Return the servers of each service with several servers, by the label of the service."""
    return {
        label: list(group)
        for label, group in grouped((server.service, server) for server in servers).items()
        if len(group) > 1
    }


def ports_of_services(servers: Sequence[Server]) -> dict[str, int]:
    """Return the port of the front end for each service with several servers."""
    return {label: FIRST_SERVICE_PORT + number for number, label in enumerate(replicated(servers))}


def nginx_configuration(
    servers: Sequence[Server],
    ports: Mapping[str, int],
    address_of: Callable[[Server], str],
    resolver: str | None = None,
) -> str:
    """Return the configuration of nginx.

    Parameters
    ----------
    ports
        Port of each service with several servers, by label.
    address_of
        Host and port of a server.
    resolver
        Address of a name server, if a server's name may get another address; nginx otherwise looks up names only when
        it starts.
    """
    at_random = any(server.random_routing for server in servers)
    workers = "auto" if at_random else "1"
    comment = "" if at_random else "# One worker, so that the turns of all requests are taken from one list.\n"
    blocks = [f"{comment}worker_processes {workers};\n{_LIMITS}"]
    if resolver is not None:
        blocks.append(f"  resolver {resolver} valid=5s ipv6=off;")
    for label, group in replicated(servers).items():
        most_rps = max(server.own_rate_rps for server in group)
        lines = [
            f"    server {address_of(server)} weight={max(1, round(MOST_WEIGHT * server.own_rate_rps / most_rps))}"
            f"{' resolve' if resolver is not None else ''};"
            for server in group
        ]
        zone = [f"    zone {label} {max(64, _ZONE_KIB * len(group))}k;"] if resolver is not None else []
        method = ["    random;"] if at_random else []
        blocks += [f"  upstream {label} {{", *zone, *method, *lines, "    keepalive 64;", "  }"]
        blocks += [f"  server {{\n    listen {ports[label]};\n    location / {{", f"      proxy_pass http://{label};"]
        blocks += ['      proxy_http_version 1.1;\n      proxy_set_header Connection "";\n    }\n  }']
    return "\n".join([*blocks, "}"]) + "\n"


_ZONE_KIB = 4
"""Shared memory of nginx for each server of a group, in KiB; a server resolved by name has two entries in it."""

_LIMITS = """\
# Every request in flight has two connections.
worker_rlimit_nofile 65536;
events {
  worker_connections 16384;
}
http {
  access_log off;
  # Requests may carry images: no limit on their size, and up to 4 MB without a detour through files.
  client_max_body_size 0;
  client_body_buffer_size 4m;
  # Answers are passed on as they come, token by token.
  proxy_buffering off;"""
"""Lines of the configuration for many requests in flight and for large requests; nginx's defaults are too low."""


def endpoints(servers: Sequence[Server], address_of: Callable[[Server], str]) -> str:
    """Return the table of services and the addresses at which their users reach them.

    Users reach a language model at its prefill, which sends the requests on to the address in the column ``decoding``.

    Parameters
    ----------
    address_of
        Address of the service, or the stage of a language model, that a server belongs to.
    """
    addresses: dict[str, dict[str, str]] = {}
    for server in servers:
        row = addresses.setdefault(server.language_service or server.workload, {})
        row["decoding" if server.decodes else "address"] = address_of(server)
    columns = ["address", "decoding"] if any(server.decodes for server in servers) else ["address"]
    text = io.StringIO()
    rows = ([name, *(row.get(column, "") for column in columns)] for name, row in addresses.items())
    csv.writer(text, lineterminator="\n").writerows([["service", *columns], *rows])
    return text.getvalue()
