// Who reads metrics, asked of a kube-apiserver with RBAC by each process under the rights that the component metrics-authentication gives it; and
// the processes themselves, as the bundle starts them, with an API server that goes away.
import { execFile } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, it } from "@jest/globals";
import { pino } from "pino";
import { Registry } from "prom-client";
import { freePort } from "../../demo/show/run/free-port.ts";
import { createKubeClient } from "../../src/platform/kube/client/http-client.ts";
import { makeOwnPair } from "../../src/platform/process/certificates/issue-certificate.ts";
import { directEffects } from "../../src/platform/process/effects/effects.ts";
import { startMetricsServer } from "../../src/platform/process/metrics/metrics-server.ts";
import { secureMetrics, UNKNOWN_TOKENS } from "../../src/platform/process/metrics/secured-metrics.ts";
import type { ApiUnderTest } from "../harness/api-under-test.ts";
import { type BundleProcess, createBundleProcess } from "../harness/bundle-process.ts";
import { askHttps } from "../harness/https-page.ts";
import { kustomizeWith } from "../harness/kustomize.ts";
import { createPrometheus } from "../harness/prometheus.ts";
import { describeReal } from "../harness/real-parts.ts";
import { waitFor } from "../harness/wait-for.ts";
import { startKubeApiServer } from "../real-api/kube-apiserver.ts";

const BUILD_LIMIT_MS = 3_600_000;
const LIMIT_MS = 180_000;
const PROCESSES = ["policy-engine", "operator", "agent", "extender"] as const;
const AUDIENCE = "tidemark-metrics";
const log = pino({ level: "silent" });

let api: ApiUnderTest;
let directory: string;
/** Of the account prometheus, which is bound to the reader's role; of one that is not. */
let tokens: Record<"reader" | "tenant" | "elsewhere", string>;

async function kubectl(...args: readonly string[]): Promise<string> {
  const { stdout } = await promisify(execFile)("kubectl", ["--server", api.url, ...args], { maxBuffer: 1 << 26 });
  return stdout.trim();
}

async function install(): Promise<void> {
  const file = join(directory, "all.yaml");
  const components = ["components/placement", "components/metrics-authentication"];
  writeFileSync(file, kustomizeWith("overlays/minimal", {}, components));
  await kubectl("apply", "--server-side", "-k", "kustomize/foundation");
  await kubectl("apply", "--server-side", "-f", file);
  await kubectl("create", "namespace", "monitoring");
  for (const account of ["prometheus", "tenant"]) await kubectl("-n", "monitoring", "create", "sa", account);
  const reader = ["--clusterrole=tidemark-metrics-reader", "--serviceaccount=monitoring:prometheus"];
  await kubectl("create", "clusterrolebinding", "prometheus", ...reader);
  const tokenOf = (...args: readonly string[]) => kubectl("-n", "monitoring", "create", "token", ...args);
  tokens = {
    reader: await tokenOf("prometheus"),
    tenant: await tokenOf("tenant"),
    elsewhere: await tokenOf("prometheus", `--audience=${AUDIENCE}`),
  };
}

interface Served {
  readonly port: number;
  /** Questions to the API server. */
  asked(): number;
  close(): Promise<void>;
}

/** In this process, under the account of that one. */
async function serveAs(account: string, audience?: string, tlsDirectory?: string): Promise<Served> {
  const headers = { "Impersonate-User": `system:serviceaccount:${account}` };
  const connection = { server: api.url, credentials: async () => ({ headers, tls: {} }) };
  const client = createKubeClient({ connection, effects: directEffects, log });
  let asked = 0;
  const create: typeof client.create = (...args) => {
    asked += 1;
    return client.create(...args);
  };
  const http = await startMetricsServer({
    host: "127.0.0.1",
    port: 0,
    registry: new Registry(),
    unhealthy: () => undefined,
    notReady: () => undefined,
    secured: secureMetrics({ audience, tlsDirectory }, { create }, log),
  });
  return {
    port: http.port,
    asked: () => asked,
    close: async () => {
      await http.close();
      await client.close();
    },
  };
}

const ask = async (port: number, token?: string): Promise<number> =>
  (await askHttps({ port, path: "/metrics", token })).status;
/** What the API server says: on a busy machine it may take longer than a process waits for it. */
const verdict = (port: number, token?: string): Promise<number> =>
  waitFor("an answer of the API server", async () => {
    const status = await ask(port, token);
    return status === 503 ? undefined : status;
  });

/** As the manifests start it, but for where it runs. */
function startProcess(name: (typeof PROCESSES)[number], port: number): BundleProcess {
  const at = (file: string): string => join(directory, file);
  mkdirSync(at("kubelet"), { recursive: true });
  const own: Record<(typeof PROCESSES)[number], string[]> = {
    "policy-engine": ["--samples-socket", at("samples.sock")],
    operator: ["--csi-socket", at("operator.sock")],
    agent: [
      ...["--storage", "simulated", "--node-name", "node-1", "--csi-socket", at("agent.sock")],
      ...["--kubelet-directory", at("kubelet"), "--state-directory", at("state"), "--member-directory", at("members")],
    ],
    extender: ["--extender-tls", "Off", "--extender-port", "0"],
  };
  const where = ["--server", api.url, "--http-host", "127.0.0.1", "--http-port", String(port)];
  const started = createBundleProcess(directory, name, [name, ...where, "--metrics-authentication", ...own[name]]);
  started.start();
  return started;
}

describeReal("metrics that are read by token", ["cluster", "bundle", "prometheus"], () => {
  beforeAll(async () => {
    directory = mkdtempSync(join(tmpdir(), "tidemark-metrics-"));
    api = await startKubeApiServer(0, "RBAC");
    await install();
  }, BUILD_LIMIT_MS);
  afterAll(async () => {
    await api?.close();
    rmSync(directory, { recursive: true, force: true });
  }, LIMIT_MS);

  it.each(PROCESSES)(
    "are given by the %s, with the rights that it has, to who may read them alone",
    async (name) => {
      const served = await serveAs(`tidemark-system:${name}`);
      expect(await verdict(served.port)).toBe(401);
      expect(await verdict(served.port, "a.b.c")).toBe(401);
      expect(await verdict(served.port, tokens.elsewhere)).toBe(401);
      expect(await verdict(served.port, tokens.tenant)).toBe(403);
      expect(await verdict(served.port, tokens.reader)).toBe(200);
      await served.close();
    },
    LIMIT_MS,
  );

  it("are for tokens of an audience where one is set, and for no others", async () => {
    const served = await serveAs("tidemark-system:operator", AUDIENCE);
    expect(await verdict(served.port, tokens.elsewhere)).toBe(200);
    expect(await verdict(served.port, tokens.reader)).toBe(401);
    await served.close();
  });

  it(
    "are scraped by Prometheus, which checks the certificate and has a token for metrics alone",
    async () => {
      const at = (file: string): string => join(directory, file);
      const serverName = "metrics.tidemark.dev";
      const { certificatePem, keyPem, bundlePem } = await makeOwnPair(serverName, Date.now());
      const files = { "tls.crt": certificatePem, "tls.key": keyPem, "ca.crt": bundlePem };
      const tokenFiles = { "for-metrics": tokens.elsewhere, "for-the-api-server": tokens.reader };
      for (const [name, text] of Object.entries({ ...files, ...tokenFiles })) writeFileSync(at(name), text);
      const served = await serveAs("tidemark-system:policy-engine", AUDIENCE, directory);
      const secured = { credentialsFile: at("for-metrics"), caFile: at("ca.crt"), serverName };
      const prometheus = await createPrometheus(directory, await freePort(), [
        { job: "checked", port: served.port, secured },
        { job: "another-name", port: served.port, secured: { ...secured, serverName: "other.tidemark.dev" } },
        { job: "another-token", port: served.port, secured: { ...secured, credentialsFile: at("for-the-api-server") } },
      ]);
      await prometheus.start();
      try {
        const up = (job: string) => prometheus.query(`up{job="${job}"}`);
        await waitFor("a scrape", async () => (await up("checked"))[0] === "1" || undefined);
        for (const job of ["another-name", "another-token"])
          await waitFor(`a look of ${job}`, async () => (await up(job)).length === 1 || undefined);
        expect(await prometheus.query('max_over_time(up{job=~"another-.*"}[5m])')).toEqual(["0", "0"]);
      } finally {
        await prometheus.stop();
        await served.close();
      }
    },
    LIMIT_MS,
  );

  it("are given to no one by a process that may not ask", async () => {
    const served = await serveAs("monitoring:tenant");
    expect(await ask(served.port, tokens.reader)).toBe(503);
    await served.close();
  });

  it("cost the API server few questions in a flood of bad tokens, and their reader sees nothing of it", async () => {
    const served = await serveAs("tidemark-system:agent");
    expect(await verdict(served.port, tokens.reader)).toBe(200);
    const [before, beganMs] = [served.asked(), Date.now()];
    const statuses = await Promise.all(Array.from({ length: 100 }, (_, at) => ask(served.port, `bad.${at}`)));
    for (const status of statuses) expect([401, 503]).toContain(status);
    const earned = Math.ceil((Date.now() - beganMs) / UNKNOWN_TOKENS.intervalMs);
    expect(served.asked() - before).toBeLessThanOrEqual(UNKNOWN_TOKENS.burst + earned);
    expect(await verdict(served.port, tokens.reader)).toBe(200);
    await served.close();
  });

  it(
    "are so of each process as it is started, and of none while the API server is away",
    async () => {
      const ports = await Promise.all(PROCESSES.map(() => freePort()));
      const processes = PROCESSES.map((name, at) => startProcess(name, ports[at] ?? 0));
      try {
        for (const [at, port] of ports.entries()) {
          await waitFor(
            `${PROCESSES[at]} to be healthy`,
            async () => (await askHttps({ port, path: "/healthz" })).status === 200 || undefined,
            { otherwise: () => processes[at]?.log() ?? "" },
          );
          expect(await verdict(port)).toBe(401);
          expect(await verdict(port, tokens.tenant)).toBe(403);
          expect(await verdict(port, tokens.reader)).toBe(200);
          const { body } = await askHttps({ port, path: "/metrics", token: tokens.reader });
          expect(body).toContain("process_cpu_seconds_total");
        }
        await api.close();
        for (const port of ports) {
          expect(await ask(port, `${tokens.reader}x`)).toBe(503);
          expect((await askHttps({ port, path: "/healthz" })).status).toBe(200);
        }
      } finally {
        for (const one of processes) await one.kill();
      }
    },
    LIMIT_MS,
  );
});
