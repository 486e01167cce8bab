// `tidemark explain CLAIM`: asks the engine why a claim has the size it has, and prints it for a person: the plan first, then its grounds.
// `tidemark explain --pod NAMESPACE/NAME`: which nodes take a pod's volumes. It decides nothing.
import { parseArgs } from "node:util";
import { Agent } from "undici";
import { parseObjectKey } from "../contracts/kubernetes/object.ts";
import { printable } from "../contracts/printable.ts";
import { formatDuration } from "../contracts/quantities/duration.ts";
import { formatBytes } from "../contracts/quantities/quantity.ts";
import { PLACEMENT_FLAGS, readPlacement } from "../extender/config.ts";
import type { ScoreParts } from "../extender/decide/decide-score.ts";
import { explainPod, type NodeVerdict, type PodExplanation } from "../extender/report/explain-placement.ts";
import { createKubeClient } from "../platform/kube/client/http-client.ts";
import { CONNECTION_FLAGS, connectionOf, readConnectionSettings } from "../platform/kube/client/kube-config.ts";
import { directEffects } from "../platform/process/effects/effects.ts";
import { isLoopback, oneOfFlag } from "../platform/process/flags.ts";
import type { ExplainedRule, Explanation } from "../policy-engine/index.ts";

const USAGE = `Usage: tidemark explain CLAIM [--namespace NAME] [--engine URL] [--output json]
       tidemark explain --pod NAMESPACE/NAME [--output json]    which nodes take its volumes, and why others do not

  --namespace    of the claim, also -n; default default
  --engine URL   the policy-engine's HTTP address; default http://127.0.0.1:9464, https://… with --metrics-authentication
                 (in a cluster: kubectl -n tidemark-system port-forward deployment/policy-engine 9464)
`;

export async function runExplain(args: readonly string[]): Promise<void> {
  if (args.some((arg) => arg === "--pod" || arg.startsWith("--pod="))) return runExplainPod(args);
  const { values, positionals } = parseArgs({
    args: [...args],
    allowPositionals: true,
    options: {
      namespace: { type: "string", short: "n", default: "default" },
      engine: { type: "string", default: "http://127.0.0.1:9464" },
      output: { type: "string", short: "o", default: "text" },
      help: { type: "boolean", short: "h", default: false },
    },
  });
  if (values.help) {
    process.stdout.write(USAGE);
    return;
  }
  const [claim, another] = positionals;
  if (claim === undefined || another !== undefined) throw new Error(`name one claim\n${USAGE}`);
  if (claim.includes("/")) throw new Error(`${claim} is not a claim's name: give its namespace with --namespace`);
  print(values.output, await ask(values.engine, values.namespace, claim), explanationLines);
}

function print<T>(output: string, explanation: T, linesOf: (explanation: T) => string[]): void {
  const form = oneOfFlag("output", output, ["text", "json"]);
  const text = form === "json" ? JSON.stringify(explanation, null, 2) : linesOf(explanation).join("\n");
  process.stdout.write(`${printable(text)}\n`);
}

async function ask(engine: string, namespace: string, claim: string): Promise<Explanation> {
  if (!/^https?:\/\//.test(engine)) throw new Error(`--engine ${engine} is not a URL: write http://${engine}`);
  const url = new URL(`${engine}/explain/${encodeURIComponent(namespace)}/${encodeURIComponent(claim)}`);
  const { origin, pathname: path } = url;
  const agent = agentFor(url);
  try {
    const { statusCode, body } = await agent.request({ origin, path, method: "GET" }).catch((error: unknown) => {
      throw new Error(`${(error as Error).message || "no answer"} from ${engine}\n${UNANSWERED}`, { cause: error });
    });
    const answer = parsed(await body.text());
    if (answer === undefined)
      throw new Error(`${url.href} answered ${statusCode}, which is not a policy-engine's answer`);
    if (statusCode === HTTP_OK) return answer;
    throw new Error(answer.error ?? `${url.href} answered ${statusCode}`);
  } finally {
    await agent.destroy();
  }
}

const UNANSWERED = `the policy-engine does not answer. In a cluster: kubectl -n tidemark-system port-forward deployment/policy-engine 9464
Does one lead? kubectl -n tidemark-system get pods,leases. Another address: --engine URL`;

/** Undefined: what answers there is another program. */
function parsed(text: string): (Explanation & { error?: string }) | undefined {
  try {
    const value = JSON.parse(text) as unknown;
    return typeof value === "object" && value !== null ? (value as Explanation & { error?: string }) : undefined;
  } catch {
    return undefined;
  }
}

const HTTP_OK = 200;
const ANSWER_LIMIT_MS = 10_000;

/** A port-forward leads to the pod that the API server names, and the engine's own certificate names no address: it is not checked there. */
function agentFor({ protocol, hostname }: URL): Agent {
  const isChecked = protocol !== "https:" || !isLoopback(hostname.replace(/^\[|\]$/g, ""));
  const limits = { headersTimeout: ANSWER_LIMIT_MS, bodyTimeout: ANSWER_LIMIT_MS };
  return new Agent({
    ...limits,
    connect: { timeout: ANSWER_LIMIT_MS, ...(isChecked ? {} : { rejectUnauthorized: false }) },
  });
}

const VERDICT_MARKS: Readonly<Record<ExplainedRule["verdict"], string>> = {
  holds: "yes",
  "does not hold": "no ",
  unknown: "?  ",
};

function explanationLines(explanation: Explanation): string[] {
  return [
    `${explanation.claim}, decided by ${explanation.policy ?? "no policy"}`,
    "",
    ...planLines(explanation),
    "",
    "Facts",
    ...aligned(explanation.facts.map(({ name, value, ageMs }) => [name, `${value}${age(ageMs)}`])),
    "",
    "Rules",
    ...(explanation.rules.length === 0 ? ["  none"] : explanation.rules.flatMap(ruleLines)),
    ...explanation.problems.map(
      ({ field, message, hint }) => `  ${field}: ${message}${hint === undefined ? "" : ` (${hint})`}`,
    ),
    "",
    "Bounds",
    ...aligned([
      ["never under", explanation.lowerBy],
      ["never over", explanation.upperBy],
      ["next extend at", nextExtend(explanation.nextExtendUsedBytes)],
    ]),
  ];
}

function planLines({ plan, atMs }: Explanation): string[] {
  const lines = [`  ${plan.kind}: ${plan.reason}`, `  ${plan.message}`];
  if (plan.kind !== "hold") return lines;
  if (plan.preview !== undefined) lines.push(`  would: ${plan.preview}`);
  if (plan.nextEligibleMs !== undefined)
    lines.push(`  earliest change: in ${formatDuration(Math.max(0, plan.nextEligibleMs - atMs))}`);
  return lines;
}

function ruleLines(rule: ExplainedRule): string[] {
  const lines = [`  ${VERDICT_MARKS[rule.verdict]}  ${rule.name} (${rule.action}): ${rule.when}`];
  if (rule.because !== undefined) lines.push(`       ${rule.because}`);
  if (rule.verdict === "holds" && rule.forMs > 0)
    lines.push(`       for ${formatDuration(rule.heldForMs)} of ${formatDuration(rule.forMs)}`);
  if (rule.candidateBytes !== undefined) lines.push(`       would make it ${formatBytes(rule.candidateBytes)}`);
  return lines;
}

function nextExtend(usedBytes: number | undefined): string {
  return usedBytes === undefined ? "nothing would extend it" : `${formatBytes(usedBytes)} used`;
}

function age(ageMs: number | undefined): string {
  return ageMs === undefined ? "" : `, ${formatDuration(Math.max(0, ageMs))} old`;
}

function aligned(pairs: readonly (readonly [name: string, value: string])[]): string[] {
  const width = Math.max(...pairs.map(([name]) => name.length));
  return pairs.map(([name, value]) => `  ${name.padEnd(width)}  ${value}`);
}

// Which nodes take a pod's volumes, which do not and why, by the objects as they are now.

const POD_USAGE = `Usage: tidemark explain --pod NAMESPACE/NAME [--output json] [--kubeconfig FILE | --server URL [--credentials DIRECTORY]]

  The flags of the extender's weights (--weight-free, --weight-growth, --weight-io, --default-divisor, --divisor CLASS=NUMBER)
  are taken, too: give those that it runs with.
`;

async function runExplainPod(args: readonly string[]): Promise<void> {
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
    process.stdout.write(POD_USAGE);
    return;
  }
  const connection = await connectionOf(readConnectionSettings(values, {}));
  const client = createKubeClient({ connection, effects: directEffects, userAgent: "tidemark-cli" });
  try {
    const { namespace = "default", name } = parseObjectKey(values.pod);
    const explanation = await explainPod(client, { namespace, name }, readPlacement(values), Date.now());
    print(values.output, explanation, podExplanationLines);
  } finally {
    await client.close();
  }
}

function podExplanationLines({ pod, message, nodes }: PodExplanation): string[] {
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
