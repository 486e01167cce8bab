// `tidemark explain --pod NAMESPACE/NAME`: which nodes take a pod's volumes, which do not and why, by the objects as they are now.
import { parseArgs } from "node:util";
import { printable } from "../api/printable.ts";
import { PLACEMENT_FLAGS, readPlacement } from "../extender/config.ts";
import type { ScoreParts } from "../extender/decide/decide-score.ts";
import { explainPod, type NodeVerdict, type PodExplanation } from "../extender/report/explain-placement.ts";
import { CONNECTION_FLAGS, readConnectionSettings } from "../kube/client/connection-flags.ts";
import { createKubeClient } from "../kube/client/http-client.ts";
import { connectionOf } from "../kube/client/kube-config.ts";
import { parseObjectKey } from "../kube/object.ts";
import { directEffects } from "../process/effects.ts";

const USAGE = `Usage: tidemark explain --pod NAMESPACE/NAME [--output json] [--kubeconfig FILE | --server URL [--credentials DIRECTORY]]

  The flags of the extender's weights (--weight-free, --weight-growth, --weight-io, --default-divisor, --divisor CLASS=NUMBER)
  are taken, too: give those that it runs with.
`;

export async function runExplainPod(args: readonly string[]): Promise<void> {
  const { values } = parseArgs({
    args: [...args],
    options: {
      ...CONNECTION_FLAGS,
      ...PLACEMENT_FLAGS,
      pod: { type: "string" },
      output: { type: "string", short: "o", default: "text" },
      help: { type: "boolean", short: "h", default: false },
    },
  });
  if (values.help || !values.pod) {
    process.stdout.write(USAGE);
    return;
  }
  const connection = await connectionOf(readConnectionSettings(values, {}));
  const client = createKubeClient({ connection, effects: directEffects, userAgent: "tidemark-cli" });
  try {
    const { namespace = "default", name } = parseObjectKey(values.pod);
    const explanation = await explainPod(client, { namespace, name }, readPlacement(values), Date.now());
    const text =
      values.output === "json" ? JSON.stringify(explanation, null, 2) : podExplanationLines(explanation).join("\n");
    process.stdout.write(`${printable(text)}\n`);
  } finally {
    await client.close();
  }
}

export function podExplanationLines({ pod, message, nodes }: PodExplanation): string[] {
  if (message !== undefined) return [`${pod}: ${message}`];
  const width = Math.max(0, ...nodes.map(({ nodeName }) => nodeName.length));
  const fitting = nodes.filter(({ fits }) => fits).length;
  return [
    `${pod}: ${fitting} of ${nodes.length} nodes take its volumes`,
    "",
    ...nodes.map((node) => `  ${node.nodeName.padEnd(width)}  ${verdictOf(node)}`),
  ];
}

function verdictOf({ message, score, parts }: NodeVerdict): string {
  return message ?? `score ${score} (${partsOf(parts)})`;
}

function partsOf(parts: ScoreParts): string {
  const names = ["free", "growth", "io"] as const;
  return names.map((name) => `${name} ${parts[name]?.toFixed(1) ?? "not known"}`).join(", ");
}
