// `tidemark explain CLAIM`: asks the engine why a claim has the size it has, and prints it for a person. It decides nothing itself.
import { parseArgs } from "node:util";
import { Agent, type Dispatcher, request } from "undici";
import { printable } from "../api/printable.ts";
import type { Explanation } from "../policy-engine/index.ts";
import { isLoopback } from "../process/address.ts";
import { runExplainPod } from "./explain-pod.ts";
import { explanationLines } from "./explanation-lines.ts";

const USAGE = `Usage: tidemark explain CLAIM [--namespace NAME] [--engine URL] [--output json]
       tidemark explain --pod NAMESPACE/NAME [--output json]    which nodes take its volumes, and why others do not

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
  const [claim] = positionals;
  if (values.help || claim === undefined) {
    process.stdout.write(USAGE);
    return;
  }
  const explanation = await ask(values.engine, values.namespace, claim);
  const text =
    values.output === "json" ? JSON.stringify(explanation, null, 2) : explanationLines(explanation).join("\n");
  process.stdout.write(`${printable(text)}\n`);
}

async function ask(engine: string, namespace: string, claim: string): Promise<Explanation> {
  const url = `${engine}/explain/${encodeURIComponent(namespace)}/${encodeURIComponent(claim)}`;
  const dispatcher = dispatcherOf(new URL(url));
  try {
    const answer = await request(url, dispatcher && { dispatcher }).catch((error: unknown) => {
      const hint = "give its address with --engine";
      throw new Error(`the policy-engine does not answer at ${engine}: ${hint}`, { cause: error });
    });
    const body = (await answer.body.json()) as Explanation & { error?: string };
    if (answer.statusCode !== HTTP_OK) throw new Error(body.error ?? `${url} answered ${answer.statusCode}`);
    return body;
  } finally {
    await dispatcher?.close();
  }
}

const HTTP_OK = 200;

/** A port-forward leads to the pod that the API server names, and the engine's own certificate names no address: it is not checked there. */
function dispatcherOf({ protocol, hostname }: URL): Dispatcher | undefined {
  const isChecked = protocol !== "https:" || !isLoopback(hostname.replace(/^\[|\]$/g, ""));
  return isChecked ? undefined : new Agent({ connect: { rejectUnauthorized: false } });
}
