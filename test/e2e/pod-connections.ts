// The TCP connections into the pods of a cluster of ours, as the kernel has them in each pod's own network namespace.
import type { Cluster } from "../cluster/cluster-state.ts";
import { onNode } from "./node-shell.ts";

export interface PodConnection {
  readonly podAddress: string;
  readonly port: number;
  readonly from: string;
}

interface SocketLine {
  readonly local: { readonly address: string; readonly port: number };
  readonly remote: { readonly address: string; readonly port: number };
  readonly isListener: boolean;
}

const NAMESPACE_MARK = "namespace";
/** Each network namespace once; a process may end meanwhile. */
const SCRIPT = `seen=" "
for process in /proc/[0-9]*; do
  namespace=$(readlink "$process/ns/net") || continue
  case "$seen" in *" $namespace "*) continue ;; esac
  seen="$seen$namespace "
  echo ${NAMESPACE_MARK}
  cat "$process/net/tcp" "$process/net/tcp6" || true
done 2>/dev/null`;
const LISTEN_STATE = "0A";
const ANY_ADDRESS = "0.0.0.0";

/** Into these pods, by address. */
export async function podConnections(
  cluster: Cluster,
  node: string,
  pods: ReadonlySet<string>,
): Promise<PodConnection[]> {
  const said = await onNode(cluster, node, "sh", "-c", SCRIPT);
  const connections: PodConnection[] = [];
  for (const part of said.split(`${NAMESPACE_MARK}\n`)) {
    const lines = part.split("\n").flatMap(socketLine);
    const podAddress = lines.map(({ local }) => local.address).find((address) => pods.has(address));
    if (podAddress === undefined) continue;
    const open = lines.filter(
      ({ isListener, local }) => isListener && [ANY_ADDRESS, podAddress].includes(local.address),
    );
    const ports = new Set(open.map(({ local }) => local.port));
    for (const { local, remote, isListener } of lines)
      if (!isListener && local.address === podAddress && ports.has(local.port))
        connections.push({ podAddress, port: local.port, from: remote.address });
  }
  return connections;
}

/** "  0: 0B01F40A:24FE 0100F40A:D2A4 01 …", as proc(5) has it; none of a line that is another. */
function socketLine(line: string): SocketLine[] {
  const [, local, remote, state] =
    /^\s*\d+: ([0-9A-F]+:[0-9A-F]{4}) ([0-9A-F]+:[0-9A-F]{4}) ([0-9A-F]{2}) /.exec(line) ?? [];
  if (local === undefined || remote === undefined) return [];
  return [{ local: endOf(local), remote: endOf(remote), isListener: state === LISTEN_STATE }];
}

/** The last four bytes are all that there is of an IPv4 address, mapped into IPv6 or not; of none they are 0. */
function endOf(text: string): { address: string; port: number } {
  const [address = "", port = ""] = text.split(":");
  const bytes = [...Buffer.from(address.slice(-8), "hex")].reverse();
  return { address: bytes.join("."), port: Number.parseInt(port, 16) };
}
