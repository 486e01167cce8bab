// Who may speak on the stream of samples: by certificate, and by token.
import { ChannelCredentials, Metadata } from "@grpc/grpc-js";
import { afterEach, beforeEach, describe, expect, it } from "@jest/globals";
import { readPlainLink } from "../../../src/agent/engine-link/engine-stream.ts";
import { SamplesClient } from "../../../src/contracts/gen/tidemark/samples/v1/samples.ts";
import { EVENTS, SECRETS } from "../../../src/contracts/kubernetes/resources.ts";
import { CERTIFICATE_SECRETS, ENGINE_CERTIFICATE_NAME } from "../../../src/contracts/names.ts";
import { CERTIFICATE_TIMES } from "../../../src/platform/process/certificates/decide-certificates.ts";
import { issueLeaf, makeAuthority } from "../../../src/platform/process/certificates/issue-certificate.ts";
import type { KeyPair, StoredPair } from "../../../src/platform/process/certificates/key-pair.ts";
import { createMutualTls } from "../../../src/platform/process/certificates/mutual-tls.ts";
import { serveOverTls } from "../../../src/platform/process/grpc.ts";
import { createRecordingLog } from "../../fakes/recording-log.ts";
import { waitFor } from "../../harness/wait-for.ts";
import {
  type AgentEnd,
  DAY_MS,
  type EngineEnd,
  logged,
  mountPair,
  type SecretsCluster,
  startAgentEnd,
  startEngineEnd,
  startSecretsCluster,
} from "./sample-stream-under-test.ts";

/** pino's. */
const WARN_LEVEL = 40;
const AGENT = { commonName: "agent.tidemark.dev", usage: "client" } as const;

let cluster: SecretsCluster;
let engine: EngineEnd;
let agents: AgentEnd[];
const agentOf = (...args: Parameters<typeof startAgentEnd>): AgentEnd => {
  const agent = startAgentEnd(...args);
  agents.push(agent);
  return agent;
};

beforeEach(async () => {
  [agents, cluster] = [[], await startSecretsCluster()];
  engine = await startEngineEnd(cluster);
});
afterEach(async () => {
  for (const agent of agents) agent.stop();
  await engine.stop();
  await cluster.stop();
});

describe("an agent's certificate", () => {
  it("lets it speak when the engine's CA has signed it", async () => {
    const agent = agentOf(cluster, [engine.address], mountPair(cluster, "agent", await cluster.pair("agent")));
    await waitFor("its sample", () => engine.heard.includes("node-a fs-a") || undefined);
    expect(engine.heard).toEqual(["hello node-a", "node-a fs-a"]);
    expect(agent.connected()).toBe(1);
  });

  const refusals: readonly (readonly [
    string,
    (good: StoredPair, authority: StoredPair) => Promise<StoredPair>,
    RegExp,
  ])[] = [
    [
      "of another CA is refused",
      async (good) => {
        const other = await makeAuthority("other", Date.now(), CERTIFICATE_TIMES);
        return withPair(good, await issueLeaf(other, AGENT, Date.now(), CERTIFICATE_TIMES));
      },
      /no good certificate: (UNABLE_TO|SELF_SIGNED)/,
    ],
    [
      "that has expired is refused",
      async (good, authority) =>
        withPair(good, await issueLeaf(authority, AGENT, Date.now() - 400 * DAY_MS, CERTIFICATE_TIMES)),
      /no good certificate: CERT_HAS_EXPIRED/,
    ],
    [
      "that is the engine's own kind is refused",
      async (good, authority) =>
        withPair(good, await issueLeaf(authority, { ...AGENT, usage: "server" }, Date.now(), CERTIFICATE_TIMES)),
      /no good certificate: INVALID_PURPOSE/,
    ],
  ];
  it.each(refusals)("%s", async (_name, change, reason) => {
    const files = await change(await cluster.pair("agent"), await cluster.pair("authority"));
    const agent = agentOf(cluster, [engine.address], mountPair(cluster, "agent", files));
    await logged(agent.lines, /no stream of samples/);
    await logged(engine.lines, reason);
    expect(engine.heard).toEqual([]);
    expect(cluster.reviewer.asked()).toBe(0);
  });

  it("is asked for: without one nobody speaks, nor in the clear", async () => {
    const { bundlePem } = await cluster.pair("agent");
    const withoutCertificate = {
      credentials: ChannelCredentials.createSsl(Buffer.from(bundlePem)),
      options: { "grpc.ssl_target_name_override": ENGINE_CERTIFICATE_NAME },
      metadata: new Metadata(),
    };
    for (const { credentials, options, metadata } of [withoutCertificate, await readPlainLink()]) {
      const client = new SamplesClient(engine.address, credentials, options);
      const stream = client.stream(metadata);
      const failure = new Promise((resolve) => stream.on("error", resolve));
      stream.write({ message: { $case: "hello", value: { nodeName: "node-a", highestEpoch: 0 } } });
      expect(await failure).toMatchObject({ code: 14 });
      client.close();
    }
    expect(engine.heard).toEqual([]);
  });
});

describe("an engine's certificate", () => {
  it("is not believed when another CA has signed it", async () => {
    const agentPair = await cluster.pair("agent");
    const other = await makeAuthority("other", Date.now(), CERTIFICATE_TIMES);
    const files = mountPair(cluster, "agent", { ...agentPair, bundlePem: other.certificatePem });
    const agent = agentOf(cluster, [engine.address], files);
    await logged(agent.lines, /self-signed certificate in certificate chain|unable to verify/);
    expect(engine.heard).toEqual([]);
  });

  it("cannot be stood in for by an agent's", async () => {
    const agentPair = await cluster.pair("agent");
    const tls = createMutualTls(createRecordingLog().log);
    const impostor = await serveOverTls({ host: "127.0.0.1", port: 0 }, tls, [engine.server]);
    tls.replace(agentPair);
    const agent = agentOf(cluster, [`127.0.0.1:${impostor.port}`], mountPair(cluster, "agent", agentPair));
    await logged(agent.lines, /unsuitable certificate purpose|unsupported certificate|does not match|altnames/i);
    expect(engine.heard).toEqual([]);
    agent.stop();
    await impostor.close();
  });
});

describe("an agent's token", () => {
  it("of another node is refused, and both ends say why", async () => {
    const files = mountPair(cluster, "agent", await cluster.pair("agent"));
    const agent = agentOf(cluster, [engine.address], files, { nodeName: "node-a", tokenNode: "node-b" });
    const reason = /token is one of node .{1,4}node-b.{1,4}: it may not speak for node .{1,4}node-a/;
    await logged(agent.lines, reason);
    await logged(engine.lines, reason);
    expect(engine.heard).toEqual([]);
  });

  it("that is known opens a stream again while the API server is down; an unknown one does not", async () => {
    const files = mountPair(cluster, "agent", await cluster.pair("agent"));
    const first = agentOf(cluster, [engine.address], files);
    await waitFor("the first stream", () => engine.heard.includes("hello node-a") || undefined);
    cluster.reviewer.down(true);
    first.send("fs-b");
    await waitFor("what an open stream sends", () => engine.heard.includes("node-a fs-b") || undefined);
    first.stop();
    await waitFor("its end", () => engine.heard.includes("gone node-a") || undefined);
    engine.heard.length = 0;
    agentOf(cluster, [engine.address], files);
    await waitFor("the second stream", () => engine.heard.includes("hello node-a") || undefined);
    const stranger = agentOf(cluster, [engine.address], files, { nodeName: "node-b" });
    await logged(stranger.lines, /API server cannot be asked/);
    expect(engine.heard).not.toContain("hello node-b");
    cluster.reviewer.down(false);
    await waitFor("the stranger, later", () => engine.heard.includes("hello node-b") || undefined);
  });
});

it("the Secrets of a fresh installation are filled without a warning", async () => {
  for (const name of ["authority", "engine", "agent"] as const) await cluster.pair(name);
  const { items } = await cluster.client.list(EVENTS, { namespace: cluster.namespace });
  expect(items).toEqual([]);
  expect(engine.lines.filter(({ level }) => level >= WARN_LEVEL)).toEqual([]);
});

describe("a Secret whose content is broken", () => {
  it.each(["authority", "engine", "agent"] as const)(
    "of the %s is replaced, with an Event and no crash",
    async (name) => {
      await cluster.pair("agent");
      const before = await cluster.pair(name);
      const secret = await cluster.secret(name);
      if (secret === undefined) throw new Error("it was there");
      const data = { ...secret.data, "tls.key": Buffer.from("garbage").toString("base64") };
      await cluster.client.update("test/break", SECRETS, { ...secret, data });
      const after = await waitFor("a new key", async () => {
        const pair = await cluster.pair(name);
        return pair.keyPem.includes("PRIVATE KEY") ? pair : undefined;
      });
      expect(after.certificatePem).not.toBe(before.certificatePem);
      const event = await waitFor("the Event", async () => {
        const { items } = await cluster.client.list(EVENTS, { namespace: cluster.namespace });
        return items.find(({ reason }) => reason === "CertificateReplaced");
      });
      expect(event).toMatchObject({
        type: "Warning",
        involvedObject: { kind: "Secret", name: CERTIFICATE_SECRETS[name] },
        message: expect.stringContaining("its key is not a private key in PEM"),
      });
      const agent = agentOf(cluster, [engine.address], mountPair(cluster, "agent", await cluster.pair("agent")));
      await waitFor("a stream all the same", () => (agent.connected() === 1 && engine.heard.length > 0) || undefined);
    },
  );
});

it("not a private key ever stands in a log or an Event", async () => {
  const files = mountPair(cluster, "agent", await cluster.pair("agent"));
  const agent = agentOf(cluster, [engine.address], files, { tokenNode: "node-b" });
  await logged(agent.lines, /may not speak/);
  const pairs = await Promise.all((["authority", "engine", "agent"] as const).map((name) => cluster.pair(name)));
  const { items } = await cluster.client.list(EVENTS, { namespace: cluster.namespace });
  const written = JSON.stringify([...agent.lines, ...engine.lines, ...cluster.lines, ...items]);
  expect(written).not.toContain("PRIVATE KEY");
  expect(written).not.toContain("Bearer");
  for (const { keyPem } of pairs)
    for (const line of keyPem.split("\n").filter((text) => text.length > 20 && !text.startsWith("--")))
      expect(written).not.toContain(line);
});

function withPair({ bundlePem }: StoredPair, pair: KeyPair): StoredPair {
  return { bundlePem, ...pair };
}
