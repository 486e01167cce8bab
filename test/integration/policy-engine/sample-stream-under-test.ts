// Engines that listen with TLS, and agents of theirs, in this process: real certificates in the Secrets of an API
// server, real TLS over loopback. The test plays kubelet (Secrets become files) and the API server's token review.
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openEngineStreams, securedLink } from "../../../src/agent/engine-link/engine-stream.ts";
import { type Sample, Sample as SampleMessage } from "../../../src/contracts/gen/tidemark/samples/v1/samples.ts";
import { NAMESPACES, SECRETS, type Secret } from "../../../src/contracts/kubernetes/resources.ts";
import { CERTIFICATE_SECRETS } from "../../../src/contracts/names.ts";
import type { KubeClient } from "../../../src/platform/kube/client/client.ts";
import { createKubeClient } from "../../../src/platform/kube/client/http-client.ts";
import { createEventRecorder } from "../../../src/platform/kube/events/events.ts";
import { hasPair, type StoredPair, storedPair } from "../../../src/platform/process/certificates/key-pair.ts";
import { directEffects } from "../../../src/platform/process/effects/effects.ts";
import { readConfig } from "../../../src/policy-engine/config.ts";
import { createAgentAdmission, createSampleListener } from "../../../src/policy-engine/samples/sample-listener.ts";
import { createSampleServer } from "../../../src/policy-engine/samples/sample-server.ts";
import { makeEmptySecrets } from "../../builders/empty-secrets.ts";
import { createRecordingLog, type LogLine } from "../../fakes/recording-log.ts";
import { AGENT_USERNAME, agentToken, createTokenReviewer } from "../../fakes/token-reviewer.ts";
import { startApiUnderTest } from "../../harness/api-under-test.ts";
import { waitFor } from "../../harness/wait-for.ts";

const NAMESPACE = "tidemark-system";
const HOUR_MS = 3_600_000;

export const DAY_MS = 24 * HOUR_MS;

export async function startSecretsCluster() {
  const { log, lines } = createRecordingLog();
  const controlPlane = await startApiUnderTest({ port: 0, log });
  const client = createKubeClient({ connection: { server: controlPlane.url }, effects: directEffects, log });
  const namespace = { apiVersion: "v1", kind: "Namespace", metadata: { name: NAMESPACE } };
  await client.create("test/namespace", NAMESPACES, namespace);
  await makeEmptySecrets(client, NAMESPACE, Object.values(CERTIFICATE_SECRETS));
  const directory = mkdtempSync(join(tmpdir(), "tidemark-tls-"));
  const secret = (name: keyof typeof CERTIFICATE_SECRETS): Promise<Secret | undefined> =>
    client.get(SECRETS, { namespace: NAMESPACE, name: CERTIFICATE_SECRETS[name] });
  const pair = (name: keyof typeof CERTIFICATE_SECRETS): Promise<StoredPair> =>
    waitFor(`the Secret of the ${name}`, async () => {
      const found = await secret(name);
      return found !== undefined && hasPair(found) ? storedPair(found) : undefined;
    });
  return {
    client,
    lines,
    directory,
    reviewer: createTokenReviewer(),
    namespace: NAMESPACE,
    secret,
    pair,
    stop: async () => {
      await client.close();
      await controlPlane.close();
      rmSync(directory, { recursive: true });
    },
  };
}

export type SecretsCluster = Awaited<ReturnType<typeof startSecretsCluster>>;

/** An engine's listener and stream, without its decisions. Its clock is wound by `clock`; it starts in the present. */
export async function startEngineEnd(cluster: SecretsCluster, clock = { nowMs: Date.now() }, port = 0) {
  const { log, lines } = createRecordingLog();
  const args = ["--samples-address", `127.0.0.1:${port}`, "--samples-tls", "SelfMade"];
  const config = readConfig(["--server", "http://127.0.0.1:1", ...args], {});
  const nowMs = () => clock.nowMs;
  const heard: string[] = [];
  const events = {
    onHello: (node: string) => void heard.push(`hello ${node}`),
    onSamples: (node: string, samples: readonly Sample[]) =>
      void heard.push(...samples.map(({ volumeHandle }) => `${node} ${volumeHandle}`)),
    onGone: (node: string) => void heard.push(`gone ${node}`),
  };
  const admit = createAgentAdmission({ client: cluster.reviewer, agentUsername: AGENT_USERNAME, nowMs: Date.now });
  const server = createSampleServer(events, admit, log);
  const client: KubeClient = cluster.client;
  const recorder = createEventRecorder({ client, component: "tidemark-policy-engine", nowMs: Date.now, log });
  const leadership = { isLeader: () => true };
  const listener = createSampleListener({ config, client, events: recorder, leadership, nowMs, log });
  const address = await listener.serve(server);
  return {
    address,
    heard,
    lines,
    server,
    /** Time has come to this moment, and the leader looks at its certificates. */
    at: (atMs: number) => {
      clock.nowMs = atMs;
      listener.leading();
    },
    stop: async () => {
      await listener.close();
      await recorder.flush();
    },
  };
}

export type EngineEnd = Awaited<ReturnType<typeof startEngineEnd>>;

/** Writes the Secret's content into files, as kubelet does; the files' directory is the result. */
export function mountPair(cluster: SecretsCluster, name: string, pair: StoredPair): string {
  const directory = join(cluster.directory, name);
  mkdirSync(directory, { recursive: true });
  writeFileSync(join(directory, "ca.crt"), pair.bundlePem);
  writeFileSync(join(directory, "tls.crt"), pair.certificatePem);
  writeFileSync(join(directory, "tls.key"), pair.keyPem);
  return directory;
}

export interface AgentEndOptions {
  readonly nodeName?: string;
  /** Of which node the token is; default: of its own. */
  readonly tokenNode?: string;
  /** What the first stream and each later one begins with. */
  readonly handle?: string;
}

export function startAgentEnd(
  cluster: SecretsCluster,
  addresses: readonly string[],
  tlsDirectory: string,
  { nodeName = "node-a", tokenNode = nodeName, handle = "fs-a" }: AgentEndOptions = {},
) {
  const { log, lines } = createRecordingLog();
  const tokenFile = join(cluster.directory, `token-${nodeName}-${tokenNode}`);
  // Started again, it has the same token still.
  if (!existsSync(tokenFile))
    writeFileSync(tokenFile, `${agentToken({ nodeName: tokenNode, expiresAtMs: Date.now() + HOUR_MS })}\n`);
  const streams = openEngineStreams(addresses, {
    link: securedLink(tlsDirectory, tokenFile),
    nodeName,
    highestEpoch: () => 0,
    newest: () => [sampleOf(handle)],
    guided: () => {},
    effects: directEffects,
    log,
  });
  return {
    lines,
    connected: () => streams.connected(),
    send: (volumeHandle: string) => streams.offer([sampleOf(volumeHandle)]),
    stop: () => streams.stop(),
  };
}

export type AgentEnd = ReturnType<typeof startAgentEnd>;

function sampleOf(volumeHandle: string): Sample {
  return SampleMessage.fromPartial({ volumeHandle });
}

/** The first line of the log that matches. */
export function logged(lines: readonly LogLine[], pattern: RegExp): Promise<string> {
  return waitFor(
    `${String(pattern)} in the log`,
    () => lines.map((line) => JSON.stringify(line)).find((line) => pattern.test(line)),
    { limitMs: 15_000, otherwise: () => lines.map((line) => JSON.stringify(line)).join("\n") },
  );
}
