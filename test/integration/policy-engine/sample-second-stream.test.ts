// Two streams for one node, as a DaemonSet's rollout may have them.
import { EventEmitter } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  type ClientDuplexStream,
  credentials,
  type handleBidiStreamingCall,
  Metadata,
  type ServerDuplexStream,
  type ServiceError,
  status,
} from "@grpc/grpc-js";
import { afterEach, beforeEach, describe, expect, it } from "@jest/globals";
import {
  type AgentMessage,
  type EngineMessage,
  Sample,
  SamplesClient,
} from "../../../src/contracts/gen/tidemark/samples/v1/samples.ts";
import { serveOnSocket } from "../../../src/platform/process/grpc.ts";
import { admitAnyone } from "../../../src/policy-engine/samples/sample-listener.ts";
import { createSampleServer, type SampleServer } from "../../../src/policy-engine/samples/sample-server.ts";
import { createRecordingLog } from "../../fakes/recording-log.ts";
import { waitFor } from "../../harness/wait-for.ts";

interface Stream {
  readonly raw: ClientDuplexStream<AgentMessage, EngineMessage>;
  readonly guided: string[];
  readonly ended: Promise<ServiceError>;
}

describe("a second stream for a node", () => {
  let directory: string;
  let heard: string[];
  let engine: SampleServer;
  let server: { close(): Promise<void> };
  let clients: SamplesClient[];

  const open = (): Stream => {
    const client = new SamplesClient(`unix://${join(directory, "engine.sock")}`, credentials.createInsecure());
    clients.push(client);
    const raw = client.stream();
    const guided: string[] = [];
    raw.on("data", ({ guidance }: EngineMessage) => guided.push(...guidance.map(({ volumeHandle }) => volumeHandle)));
    const ended = new Promise<ServiceError>((resolve) => raw.on("error", (error) => resolve(error as ServiceError)));
    return { raw, guided, ended };
  };
  const hello = ({ raw }: Stream, nodeName: string): void =>
    void raw.write({ message: { $case: "hello", value: { nodeName, highestEpoch: 0 } } });
  const send = ({ raw }: Stream, volumeHandle: string): void =>
    void raw.write({ message: { $case: "batch", value: { samples: [Sample.fromPartial({ volumeHandle })] } } });
  const hears = (line: string): Promise<true> => waitFor(line, () => heard.includes(line) || undefined);

  beforeEach(async () => {
    directory = mkdtempSync(join(tmpdir(), "tidemark-second-"));
    [heard, clients] = [[], []];
    const events = {
      onHello: (node: string) => void heard.push(`hello ${node}`),
      onSamples: (_node: string, samples: readonly Sample[]) =>
        void heard.push(...samples.map(({ volumeHandle }) => volumeHandle)),
      onGone: (node: string) => void heard.push(`gone ${node}`),
    };
    engine = createSampleServer(events, admitAnyone, createRecordingLog().log);
    server = await serveOnSocket(join(directory, "engine.sock"), [engine]);
  });
  afterEach(async () => {
    for (const client of clients) client.close();
    await server.close();
    rmSync(directory, { recursive: true });
  });

  it("ends the older one, of which nothing more is taken", async () => {
    const older = open();
    hello(older, "node-a");
    send(older, "from-older");
    await hears("from-older");
    const newer = open();
    hello(newer, "node-a");
    for (let sent = 0; sent < 200; sent += 1) send(older, `late-${sent}`);
    const { code, details } = await older.ended;
    expect(code).toBe(status.ABORTED);
    expect(details).toBe('a newer stream speaks for node "node-a"');
    send(newer, "from-newer");
    await hears("from-newer");
    const since = heard.slice(heard.lastIndexOf("hello node-a"));
    expect(since).toEqual(["hello node-a", "from-newer"]);
  });

  it("leaves nothing to be taken of what the older one had sent, and the engine had not read yet", async () => {
    const calls = [0, 1].map(() =>
      Object.assign(new EventEmitter(), {
        metadata: new Metadata(),
        cancelled: false,
        getPeer: () => "peer",
        end() {},
      }),
    );
    const say = (index: number, message: AgentMessage["message"]) => calls[index]?.emit("data", { message });
    const batch = (volumeHandle: string): AgentMessage["message"] => ({
      $case: "batch",
      value: { samples: [Sample.fromPartial({ volumeHandle })] },
    });
    const stream = engine.implementation["stream"] as handleBidiStreamingCall<AgentMessage, EngineMessage>;
    for (const call of calls) stream(call as EventEmitter as ServerDuplexStream<AgentMessage, EngineMessage>);
    await waitFor("both listened to", () => calls.every((call) => call.listenerCount("data") > 0) || undefined);
    for (const index of [0, 1]) say(index, { $case: "hello", value: { nodeName: "node-a", highestEpoch: 0 } });
    say(0, batch("from-older"));
    say(1, batch("from-newer"));
    expect(heard).toEqual(["hello node-a", "hello node-a", "from-newer"]);
  });

  it("is the one that gets guidance, and only its end is the node's", async () => {
    const older = open();
    hello(older, "node-a");
    await hears("hello node-a");
    const newer = open();
    hello(newer, "node-a");
    await older.ended;
    engine.guide("node-a", { volumeHandle: "fs-a", nextExtendUsedBytes: 1 });
    await waitFor("guidance", () => newer.guided.length === 1 || undefined);
    expect(older.guided).toEqual([]);
    expect(heard).not.toContain("gone node-a");
    newer.raw.end();
    await hears("gone node-a");
  });

  it("leaves other nodes' streams alone", async () => {
    const [a, b] = [open(), open()];
    hello(a, "node-a");
    hello(b, "node-b");
    await hears("hello node-b");
    send(a, "of-a");
    send(b, "of-b");
    await Promise.all([hears("of-a"), hears("of-b")]);
    expect(heard.filter((line) => line.startsWith("gone"))).toEqual([]);
  });

  it("is refused where a stream changes the node it speaks for, or names none", async () => {
    const changing = open();
    hello(changing, "node-a");
    await hears("hello node-a");
    hello(changing, "node-b");
    expect(await changing.ended).toMatchObject({ code: status.PERMISSION_DENIED });
    await hears("gone node-a");
    const nameless = open();
    hello(nameless, "");
    expect(await nameless.ended).toMatchObject({ code: status.PERMISSION_DENIED });
    expect(heard).not.toContain("hello node-b");
  });
});
