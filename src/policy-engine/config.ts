// What the policy-engine gets from outside: flags, and the environment for the pod's cluster and for faults. The only file of
// this process that reads either.
import { randomUUID } from "node:crypto";
import { hostname } from "node:os";
import { fileURLToPath } from "node:url";
import {
  CONNECTION_FLAGS,
  type ConnectionSettings,
  readConnectionSettings,
} from "../platform/kube/client/kube-config.ts";
import {
  type Address,
  addressFlag,
  durationFlag,
  isLoopback,
  oneOfFlag,
  ownNamespace,
  PROCESS_FLAGS,
  type ProcessSettings,
  portFlag,
  readFlags,
  readProcessSettings,
} from "../platform/process/flags.ts";
import {
  METRICS_FLAGS,
  type MetricsAuthentication,
  readMetricsAuthentication,
} from "../platform/process/metrics/secured-metrics.ts";
import type { PrometheusServer } from "./gather/prometheus/prometheus-server.ts";

export interface PolicyEngineConfig extends ProcessSettings {
  readonly connection: ConnectionSettings;
  /** Undefined: who reaches the port reads metrics. */
  readonly metricsAuthentication: MetricsAuthentication | undefined;
  /** This start's name on the lease. */
  readonly identity: string;
  readonly leaseNamespace: string;
  /** Unix socket on which agents stream their samples; not served where there is an address. */
  readonly samplesSocket: string;
  /** Where agents of all nodes stream their samples. */
  readonly samplesAddress: Address | undefined;
  /** "SelfMade": mutual TLS with certificates that the leader makes, and agents' tokens are checked. */
  readonly samplesTls: (typeof TLS_KINDS)[number];
  /** The agents' service account, in our namespace. */
  readonly agentServiceAccount: string;
  /** Undefined: no slow path; agents' samples alone decide. */
  readonly prometheus: PrometheusServer | undefined;
  readonly scrapeIntervalMs: number;
  readonly evaluationIntervalMs: number;
  /** Where the policy webhook is served; undefined: it is off. */
  readonly policyWebhookPort: number | undefined;
  /** The bundled thread of the policy webhook. */
  readonly reviewWorkerPath: string;
}

const TLS_KINDS = ["Off", "SelfMade"] as const;

const PROMETHEUS_FLAGS = {
  prometheus: { type: "string" },
  "prometheus-token-file": { type: "string" },
  "prometheus-user": { type: "string" },
  "prometheus-password-file": { type: "string" },
  "prometheus-ca-file": { type: "string" },
  "prometheus-certificate-file": { type: "string" },
  "prometheus-key-file": { type: "string" },
  "prometheus-header": { type: "string", multiple: true },
} as const;

const FLAGS = {
  ...CONNECTION_FLAGS,
  ...PROCESS_FLAGS,
  ...METRICS_FLAGS,
  "http-port": { type: "string", default: "9464" },
  identity: { type: "string", default: hostname() },
  "lease-namespace": { type: "string" },
  "samples-socket": { type: "string", default: "/run/tidemark/policy-engine.sock" },
  "samples-address": { type: "string" },
  "samples-tls": { type: "string", default: "Off" },
  "agent-service-account": { type: "string", default: "tidemark-agent" },
  ...PROMETHEUS_FLAGS,
  "scrape-interval": { type: "string", default: "15s" },
  "evaluation-interval": { type: "string", default: "15s" },
  "policy-webhook-port": { type: "string" },
  "review-worker": { type: "string", default: fileURLToPath(new URL("./review-worker.mjs", import.meta.url)) },
} as const;

/** Shorter ones would leave the process no time but for rounds over all volumes. */
const LEAST_INTERVAL_MS = 100;

/** Throws with a sentence for the user on anything it cannot read. */
export function readConfig(args: readonly string[], environment: NodeJS.ProcessEnv = process.env): PolicyEngineConfig {
  const values = readFlags(FLAGS, args);
  const interval = (flag: "scrape-interval" | "evaluation-interval"): number =>
    durationFlag(flag, values[flag], LEAST_INTERVAL_MS);
  return {
    ...readProcessSettings(values, environment),
    connection: readConnectionSettings(values, environment),
    metricsAuthentication: readMetricsAuthentication(values),
    identity: `${values.identity}_${randomUUID()}`,
    leaseNamespace: values["lease-namespace"] ?? ownNamespace(environment),
    samplesSocket: values["samples-socket"],
    ...readSamplesListener(values["samples-address"], oneOfFlag("samples-tls", values["samples-tls"], TLS_KINDS)),
    agentServiceAccount: values["agent-service-account"],
    prometheus: readPrometheusServer(values),
    scrapeIntervalMs: interval("scrape-interval"),
    evaluationIntervalMs: interval("evaluation-interval"),
    policyWebhookPort:
      values["policy-webhook-port"] === undefined
        ? undefined
        : portFlag("policy-webhook-port", values["policy-webhook-port"]),
    reviewWorkerPath: values["review-worker"],
  };
}

/** A client of an open port could speak for any node: without TLS no other machine may. */
function readSamplesListener(
  text: string | undefined,
  samplesTls: PolicyEngineConfig["samplesTls"],
): Pick<PolicyEngineConfig, "samplesAddress" | "samplesTls"> {
  if (text === undefined) {
    if (samplesTls === "Off") return { samplesAddress: undefined, samplesTls };
    throw new Error(`--samples-tls ${samplesTls} needs a --samples-address to serve on`);
  }
  const samplesAddress = addressFlag("samples-address", text);
  if (samplesTls === "Off" && !isLoopback(samplesAddress.host))
    throw new Error(
      `--samples-address ${text} can be reached from outside this machine, and --samples-tls is Off: any client could speak ` +
        "for any node. Give --samples-tls SelfMade, or an address of loopback",
    );
  return { samplesAddress, samplesTls };
}

type PrometheusFlagValues = Readonly<
  Partial<Record<Exclude<keyof typeof PROMETHEUS_FLAGS, "prometheus-header">, string>>
> & {
  readonly "prometheus-header"?: readonly string[];
};

function readPrometheusServer(flags: PrometheusFlagValues): PrometheusServer | undefined {
  const url = flags.prometheus;
  const others = Object.keys(PROMETHEUS_FLAGS).filter((flag) => flag !== "prometheus");
  const given = others.find((flag) => flags[flag as keyof PrometheusFlagValues] !== undefined);
  if (url === undefined) {
    if (given !== undefined) throw new Error(`--${given} needs a --prometheus to ask`);
    return undefined;
  }
  const server: PrometheusServer = {
    url: prometheusUrl(url),
    tokenFile: flags["prometheus-token-file"],
    user: flags["prometheus-user"],
    passwordFile: flags["prometheus-password-file"],
    caFile: flags["prometheus-ca-file"],
    certificateFile: flags["prometheus-certificate-file"],
    keyFile: flags["prometheus-key-file"],
    headers: readHeaders(flags["prometheus-header"] ?? []),
  };
  refuseHalves(server);
  return server;
}

/** It stands in logs and in the status of volumes: a password in it would, too. */
function prometheusUrl(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined || !/^https?:$/.test(url.protocol))
    throw new Error("--prometheus is not an address such as http://prometheus.monitoring:9090");
  if (url.username !== "" || url.password !== "")
    throw new Error(
      "--prometheus has a user or a password in it: give --prometheus-user and --prometheus-password-file",
    );
  if (url.search !== "" || url.hash !== "") throw new Error(`--prometheus ${text} has more than a path after its port`);
  return text.replace(/\/$/, "");
}

function refuseHalves({
  url,
  tokenFile,
  user,
  passwordFile,
  caFile,
  certificateFile,
  keyFile,
}: PrometheusServer): void {
  const isSecured = url.startsWith("https:");
  if (tokenFile !== undefined && user !== undefined)
    throw new Error("--prometheus-token-file and --prometheus-user: give one of them");
  if ((user === undefined) !== (passwordFile === undefined))
    throw new Error("--prometheus-user and --prometheus-password-file: give both");
  if ((certificateFile === undefined) !== (keyFile === undefined))
    throw new Error("--prometheus-certificate-file and --prometheus-key-file: give both");
  if (!isSecured && (tokenFile ?? user) !== undefined && !isLoopback(new URL(url).hostname))
    throw new Error(`--prometheus ${url}: a token or a password is sent to an https address only`);
  if (!isSecured && (caFile ?? certificateFile) !== undefined)
    throw new Error(`--prometheus ${url}: certificates are for an https address`);
}

const HEADER = /^([!#$%&'*+.^_`|~0-9A-Za-z-]+)=([ -~]*)$/;
/** Set by us; a second one would contradict it. */
const OWN_HEADERS = new Set([
  "authorization",
  "content-type",
  "content-length",
  "host",
  "transfer-encoding",
  "connection",
]);

function readHeaders(texts: readonly string[]): Readonly<Record<string, string>> {
  return Object.fromEntries(
    texts.map((text) => {
      const [, name = "", value = ""] = HEADER.exec(text) ?? [];
      if (name === "") throw new Error("--prometheus-header is not NAME=VALUE, such as X-Scope-OrgID=platform");
      if (OWN_HEADERS.has(name.toLowerCase()))
        throw new Error(`--prometheus-header ${name} is set by Tidemark; for a token there is --prometheus-token-file`);
      return [name, value];
    }),
  );
}
