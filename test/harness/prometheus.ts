// A real Prometheus for tests: Debian's, with its data in a run directory, scraping what it is told to every second.
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, mkdirSync, openSync, readFileSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import { recordProcess } from "../../demo/show/run/run-directory.ts";
import { waitFor } from "./wait-for.ts";

export interface ScrapeTarget {
  readonly job: string;
  readonly port: number;
  /** Series of claims that match are dropped. */
  readonly dropClaims?: string;
  /** By HTTPS: the token in this file, and the certificate checked by this CA for this name. */
  readonly secured?: { readonly credentialsFile: string; readonly caFile: string; readonly serverName: string };
}

export interface Prometheus {
  readonly url: string;
  start(): Promise<void>;
  stop(): Promise<void>;
  /** The values that an instant query finds now. */
  query(expression: string): Promise<string[]>;
}

/** Made, not started. With a `webConfigFile` (its --web.config.file, with TLS) it asks who comes. Its process is recorded in the run directory, so that the directory's owner ends it. */
export async function createPrometheus(
  directory: string,
  port: number,
  targets: readonly ScrapeTarget[],
  webConfigFile?: string,
  scrapeInterval = "1s",
): Promise<Prometheus> {
  const url = `${webConfigFile === undefined ? "http" : "https"}://127.0.0.1:${port}`;
  const configPath = join(directory, "prometheus.json");
  const logPath = join(directory, "prometheus.log");
  mkdirSync(join(directory, "prometheus"), { recursive: true });
  writeFileSync(configPath, JSON.stringify(configOf(targets, scrapeInterval))); // YAML is a superset of JSON
  let child: ChildProcess | undefined;
  return {
    url,
    start: async () => {
      const log = openSync(logPath, "a");
      child = spawn(
        "/usr/bin/prometheus",
        [
          ...[`--config.file=${configPath}`, `--storage.tsdb.path=${join(directory, "prometheus")}`],
          ...[`--web.listen-address=127.0.0.1:${port}`, "--log.level=warn"],
          ...(webConfigFile === undefined ? [] : [`--web.config.file=${webConfigFile}`]),
        ],
        { stdio: ["ignore", log, log], detached: true },
      );
      closeSync(log);
      if (child.pid !== undefined) recordProcess(directory, child.pid);
      await waitFor("Prometheus to be ready", () => isReady(url, port), {
        otherwise: () => readFileSync(logPath, "utf8"),
      });
    },
    stop: async () => {
      if (child === undefined || child.exitCode !== null) return;
      const ended = once(child, "exit");
      child.kill("SIGTERM");
      await ended;
    },
    query: async (expression) => {
      const answer = await fetch(`${url}/api/v1/query?query=${encodeURIComponent(expression)}`);
      const { data } = (await answer.json()) as { data: { result: { value: [number, string] }[] } };
      return data.result.map(({ value }) => value[1]);
    },
  };
}

/** One that asks who comes shows nothing more than that it listens. */
async function isReady(url: string, port: number): Promise<true | undefined> {
  if (url.startsWith("http:")) return (await fetch(`${url}/-/ready`)).ok || undefined;
  const socket = connect(port, "127.0.0.1");
  try {
    await once(socket, "connect");
    return true;
  } finally {
    socket.destroy();
  }
}

/** What `promtool check metrics` says against a page of metrics; undefined: nothing. */
export function lintMetrics(page: string): string | undefined {
  try {
    execFileSync("/usr/bin/promtool", ["check", "metrics"], { input: page, stdio: ["pipe", "pipe", "pipe"] });
    return undefined;
  } catch (error) {
    return String((error as { stderr: Buffer }).stderr);
  }
}

function configOf(targets: readonly ScrapeTarget[], interval: string) {
  return {
    global: { scrape_interval: interval, scrape_timeout: interval },
    scrape_configs: targets.map(({ job, port, dropClaims, secured }) => ({
      job_name: job,
      honor_timestamps: true,
      ...(secured === undefined
        ? {}
        : {
            scheme: "https",
            authorization: { credentials_file: secured.credentialsFile },
            tls_config: { ca_file: secured.caFile, server_name: secured.serverName },
          }),
      static_configs: [{ targets: [`127.0.0.1:${port}`] }],
      metric_relabel_configs:
        dropClaims === undefined
          ? []
          : [{ source_labels: ["persistentvolumeclaim"], regex: dropClaims, action: "drop" }],
    })),
  };
}
