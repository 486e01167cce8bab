// Where the user of another terminal can look at a run, as lines to copy from. Pure; the views and `--keep` show the same ones.

export interface Places {
  /** Of the control plane; undefined until that listens. */
  readonly kubeconfig?: string | undefined;
  /** Undefined until it is mounted. */
  readonly mountPath?: string | undefined;
  /** A simulated disk is nothing that df could show. */
  readonly storage?: "real" | "simulated";
  /** Of each process; undefined until they are started. */
  readonly metricsUrls?: MetricsUrls | undefined;
}

export type MetricsUrls = Readonly<Record<"policy-engine" | "operator" | "agent", string>>;

/** One command a line; only what is there already. */
function placeCommands({ kubeconfig, mountPath, storage, metricsUrls }: Places): string[] {
  const commands: string[] = [];
  if (mountPath !== undefined && storage !== "simulated")
    commands.push(`df -h ${mountPath}`, "# df on btrfs may show what was written up to 30 s late");
  if (kubeconfig !== undefined) commands.push(`KUBECONFIG=${kubeconfig} kubectl get fs -w`); // kubectl watches one kind at a time
  if (metricsUrls === undefined) return commands;
  const engine = new URL(metricsUrls["policy-engine"]);
  const ports = Object.values(metricsUrls).map((url) => new URL(url).port);
  return [
    ...commands,
    `node dist/tidemark.mjs explain demo --engine ${engine.origin}`,
    `curl -s ${engine.protocol}//${engine.hostname}:{${ports.join(",")}}/metrics`,
  ];
}

/** Under a heading of its own line: a terminal of 80 columns holds each of them. */
export function placeLines(heading: string, places: Places): string[] {
  const commands = placeCommands(places);
  return commands.length === 0 ? [] : [heading, ...commands.map((command) => `  ${command}`)];
}
