// Certificates that are replaced while agents stream, and engines that make them at the same time.
import { X509Certificate } from "node:crypto";
import { afterEach, beforeEach, expect, it } from "@jest/globals";
import { CERTIFICATE_TIMES } from "../../../src/platform/process/certificates/decide-certificates.ts";
import { isIssuedBy, readBundle } from "../../../src/platform/process/certificates/key-pair.ts";
import { waitFor } from "../../harness/wait-for.ts";
import {
  type AgentEnd,
  DAY_MS,
  type EngineEnd,
  mountPair,
  type SecretsCluster,
  startAgentEnd,
  startEngineEnd,
  startSecretsCluster,
} from "./sample-stream-under-test.ts";

let cluster: SecretsCluster;
let stoppables: { stop(): unknown }[];
const engineAt = async (...args: Parameters<typeof startEngineEnd>): Promise<EngineEnd> => {
  const engine = await startEngineEnd(...args);
  stoppables.push(engine);
  return engine;
};
const agentOf = (...args: Parameters<typeof startAgentEnd>): AgentEnd => {
  const agent = startAgentEnd(...args);
  stoppables.push(agent);
  return agent;
};
/** The certificate that the Secret has once it is another than `before`. */
const replaced = (name: "authority" | "engine" | "agent", before: string): Promise<string> =>
  waitFor(`a new certificate of the ${name}`, async () => {
    const { certificatePem } = await cluster.pair(name);
    return certificatePem === before ? undefined : certificatePem;
  });
const mountAgent = async (): Promise<string> => mountPair(cluster, "agent", await cluster.pair("agent"));
/** A stream that begins now, with the files as they are. */
const opens = async (engine: EngineEnd, files: string, nodeName: string): Promise<void> => {
  const agent = agentOf(cluster, [engine.address], files, { nodeName });
  await waitFor(`the stream of ${nodeName}`, () => engine.heard.includes(`hello ${nodeName}`) || undefined);
  agent.stop();
};

beforeEach(async () => {
  [stoppables, cluster] = [[], await startSecretsCluster()];
});
afterEach(async () => {
  for (const each of [...stoppables].reverse()) await each.stop();
  await cluster.stop();
});

it("leaves are replaced under a running stream, which goes on; new streams come with either", async () => {
  const engine = await engineAt(cluster, { nowMs: Date.now() - 300 * DAY_MS });
  const before = { engine: await cluster.pair("engine"), agent: await cluster.pair("agent") };
  const files = await mountAgent();
  const agent = agentOf(cluster, [engine.address], files);
  await waitFor("the stream", () => engine.heard.includes("node-a fs-a") || undefined);

  engine.at(Date.now());
  await replaced("engine", before.engine.certificatePem);
  await replaced("agent", before.agent.certificatePem);
  agent.send("fs-b");
  await waitFor("what the stream sends", () => engine.heard.includes("node-a fs-b") || undefined);
  expect(engine.heard.filter((line) => line.startsWith("hello"))).toHaveLength(1);

  await opens(engine, files, "node-with-old-files");
  await opens(engine, await mountAgent(), "node-with-new-files");
});

it("a CA is replaced, and at no step is anybody cut off, not even with the files of the step before", async () => {
  const switching = Date.now() - 3 * DAY_MS;
  const clock = { nowMs: switching - CERTIFICATE_TIMES.authorityLifeMs + 60 * DAY_MS };
  const engine = await engineAt(cluster, clock);
  const first = await cluster.pair("authority");
  const firstLeaves = [await cluster.pair("engine"), await cluster.pair("agent")] as const;
  // Those have long expired; the ones to look at are of the CA's last year.
  engine.at(switching - 70 * DAY_MS);
  await replaced("engine", firstLeaves[0].certificatePem);
  await replaced("agent", firstLeaves[1].certificatePem);
  const oldFiles = mountPair(cluster, "old", await cluster.pair("agent"));
  const running = agentOf(cluster, [engine.address], oldFiles, { nodeName: "node-running" });
  await waitFor("the stream", () => engine.heard.includes("hello node-running") || undefined);

  // 1: the next CA is trusted, the old one's leaves go on.
  engine.at(switching);
  const next = await replaced("authority", first.certificatePem);
  await waitFor("both CAs with the agents", async () => {
    const { bundlePem } = await cluster.pair("agent");
    return readBundle(bundlePem).length === 2 || undefined;
  });
  expect(isIssuedBy(new X509Certificate((await cluster.pair("engine")).certificatePem), first.certificatePem)).toBe(
    true,
  );
  await opens(engine, oldFiles, "node-1-old");
  const overlapFiles = mountPair(cluster, "overlap", await cluster.pair("agent"));
  await opens(engine, overlapFiles, "node-1-new");

  // 2: leaves of the next CA; the old CA is trusted still.
  const oldLeaf = (await cluster.pair("engine")).certificatePem;
  engine.at(switching + 2 * DAY_MS);
  const newLeaf = await replaced("engine", oldLeaf);
  expect(isIssuedBy(new X509Certificate(newLeaf), next)).toBe(true);
  await waitFor("agents' leaf of the next CA", async () => {
    const { certificatePem } = await cluster.pair("agent");
    return isIssuedBy(new X509Certificate(certificatePem), next) || undefined;
  });
  await opens(engine, overlapFiles, "node-2-old");
  const newFiles = await mountAgent();
  await opens(engine, newFiles, "node-2-new");

  // 3: the old CA is trusted no more.
  engine.at(switching + 4 * DAY_MS);
  await waitFor("one CA", async () => readBundle((await cluster.pair("engine")).bundlePem).length === 1 || undefined);
  await opens(engine, newFiles, "node-3");
  running.send("fs-b");
  await waitFor("what the stream sends", () => engine.heard.includes("node-running fs-b") || undefined);
  expect(engine.heard.filter((line) => line === "hello node-running")).toHaveLength(1);
});

it("two engines that begin at once end with one CA, and an agent streams to both", async () => {
  const [one, two] = await Promise.all([engineAt(cluster), engineAt(cluster)]);
  const agent = agentOf(cluster, [one.address, two.address], await settledFiles());
  await waitFor("both streams", () => agent.connected() === 2 || undefined);
  const { certificatePem } = await cluster.pair("authority");
  for (const name of ["engine", "agent"] as const) {
    const leaf = await cluster.pair(name);
    expect(isIssuedBy(new X509Certificate(leaf.certificatePem), certificatePem)).toBe(true);
    expect(readBundle(leaf.bundlePem)).toEqual([certificatePem]);
  }
});

it("an engine that starts again takes the certificates that there are", async () => {
  const one = await engineAt(cluster);
  const files = await settledFiles();
  const before = await Promise.all((["authority", "engine", "agent"] as const).map((name) => cluster.pair(name)));
  await one.stop();
  stoppables = [];
  const two = await engineAt(cluster);
  await opens(two, files, "node-a");
  expect(await Promise.all((["authority", "engine", "agent"] as const).map((name) => cluster.pair(name)))).toEqual(
    before,
  );
});

/** The agents' files, once they are issued by the CA that there is. */
async function settledFiles(): Promise<string> {
  return waitFor("certificates of one CA", async () => {
    const authority = await cluster.pair("authority");
    const agent = await cluster.pair("agent");
    const issued = isIssuedBy(new X509Certificate(agent.certificatePem), authority.certificatePem);
    return issued ? mountPair(cluster, "agent", agent) : undefined;
  });
}
