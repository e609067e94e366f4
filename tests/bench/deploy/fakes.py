"""Fake programs for the scripts of a deployment: an MPS daemon and servers, and a folder in which they run."""

import os
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

from bench.deploy.servers import PIPE_FOLDER

# The daemon runs as long as its file exists; each client has a file, too. With static partitions, it has
# CHUNKS chunks per GPU, and refuses to remove the partition of a client that runs.
_DAEMON = """\
#!/bin/sh
folder=$CUDA_MPS_PIPE_DIRECTORY
[ -d "$folder" ] || exit 1
if [ "${1:-}" = -d ]; then
    [ ! -f "$folder/daemon" ] || exit 1
    echo "${CUDA_VISIBLE_DEVICES:-all} ${2:-}" > "$folder/daemon"
    exit 0
fi
runs() {
    sed -n 's/^State:[[:space:]]*//p' "/proc/$1/status" 2>/dev/null | grep -q '^[^ZX]'
}
add() {
    reserved=$(cat "$folder/partitions/$1"/*/chunks 2>/dev/null | awk '{ sum += $1 } END { print sum + 0 }')
    if [ $((reserved + $2)) -gt "${CHUNKS:-16}" ]; then echo "not enough chunks"; return; fi
    number=$(ls "$folder/partitions" | wc -l)-$(ls "$folder/partitions/$1" 2>/dev/null | wc -l)
    mkdir -p "$folder/partitions/$1/D$number"
    echo "$2" > "$folder/partitions/$1/D$number/chunks"
    echo "Partition $1/D$number/AA= created"
}
remove() {
    for client in "$folder"/client-*; do
        [ -f "$client" ] || continue
        if [ "$(cat "$client")" = "$1/$2" ] && runs "${client##*-}"; then echo "$1/$2 is in use"; return; fi
    done
    rm -r "$folder/partitions/$1/${2%/*}"
}
[ -f "$folder/daemon" ] || exit 1
while read -r command rest; do
    case "$command $rest" in
        "sm_partition "*) grep -q -e -S "$folder/daemon" || exit 1 ;;
    esac
    case $command in
        sm_partition) set -- $rest; case $1 in add) add "$2" "$3" ;; rm) remove "$2" "$3" ;; esac ;;
        get_server_list) echo 4242 ;;
        get_client_list) ls "$folder" | sed -n 's/^client-//p' ;;
        quit) rm -f "$folder/daemon"; echo quit >> "$folder/quit.log" ;;
    esac
done
"""

# The server exits at once if FAILING is its service, and does not use MPS if BYPASSING is its service. It also
# exits if the daemon has static partitions and the server has none.
_SERVER = """\
#!/bin/sh
env | grep -E '^(CUDA|GPUSHARE)' > "$LOGS.$$" && mv "$LOGS.$$" "$LOGS/$$"
[ "$GPUSHARE_WORKLOAD" != "${FAILING:-}" ] || exit 1
if grep -qs -e -S "${CUDA_MPS_PIPE_DIRECTORY:-}/daemon"; then [ -n "${CUDA_MPS_SM_PARTITION:-}" ] || exit 1; fi
if [ "$GPUSHARE_WORKLOAD" != "${BYPASSING:-}" ] && [ -n "${CUDA_MPS_PIPE_DIRECTORY:-}" ]; then
    echo "${CUDA_MPS_SM_PARTITION:-}" > "$CUDA_MPS_PIPE_DIRECTORY/client-$$"
fi
exec sleep 60
"""


class Host:
    """Folder with the files of a deployment, and fake programs that find the daemon there.

    Attributes
    ----------
    folder
        Folder of the scripts.
    """

    def __init__(self, folder: Path, files: Mapping[str, str]) -> None:
        self.folder = folder
        (folder / "bin").mkdir()
        (folder / "logs").mkdir()
        for name, program in (
            ("nvidia-cuda-mps-control", _DAEMON),
            ("SERVER_COMMAND", _SERVER),
            ("tritonserver", _SERVER),
        ):
            (folder / "bin" / name).write_text(program)
            (folder / "bin" / name).chmod(0o755)
        for path, text in files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text.replace(PIPE_FOLDER, str(folder / "mps")))

    def run(self, script: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run a script of the deployment; its output goes through a file, since its servers would hold a pipe open."""
        environment = {
            **os.environ,
            "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}",
            "LOGS": str(self.folder / "logs"),
            **variables,
        }
        with (self.folder / "output").open("w+") as output:
            result = subprocess.run(
                ["sh", f"{self.folder}/{script}"],
                env=environment,
                cwd="/",
                stdout=output,
                stderr=output,
                text=True,
                check=False,
                timeout=60,
            )
            output.seek(0)
            result.stdout = output.read()
        return result

    def environments(self, count: int, within_s: float = 20.0) -> list[dict[str, str]]:
        """Return the environments of the servers that were started, once there are ``count``."""
        deadline = time.monotonic() + within_s
        while len(list((self.folder / "logs").iterdir())) < count and time.monotonic() < deadline:
            time.sleep(0.02)
        logs = [path.read_text().splitlines() for path in (self.folder / "logs").iterdir()]
        assert len(logs) == count
        return [dict(line.split("=", 1) for line in lines) for lines in logs]

    def pids(self) -> dict[str, int]:
        """Return the process ids of the servers by their names."""
        lines = (self.folder / "servers.pid").read_text().splitlines()
        return {name: int(pid) for pid, name, _ in (line.split() for line in lines)}

    def partitions(self) -> dict[str, list[int]]:
        """Return the sizes of the existing partitions in chunks, by GPU."""
        chunks: dict[str, list[int]] = {}
        for path in sorted(self.folder.glob("mps/partitions/*/*/chunks")):
            chunks.setdefault(path.parts[-3], []).append(int(path.read_text()))
        return chunks

    def daemons(self) -> list[Path]:
        """Return the files of all daemons that run."""
        return sorted(self.folder.glob("mps*/daemon"))


def ends(pid: int, within_s: float = 10.0) -> bool:
    """Return whether a process ends within a time; a zombie has ended."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except FileNotFoundError:
            return True
        time.sleep(0.02)
    return False
