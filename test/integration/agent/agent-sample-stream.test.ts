// The agent's end of the stream against the engine's own server.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "@jest/globals";
import { openEngineStreams, readPlainLink } from "../../../src/agent/engine-link/engine-stream.ts";
import {
  type Guidance,
  type Sample,
  Sample as SampleMessage,
  SamplesService,
} from "../../../src/contracts/gen/tidemark/samples/v1/samples.ts";
import { directEffects } from "../../../src/platform/process/effects/effects.ts";
import { serveOnSocket } from "../../../src/platform/process/grpc.ts";
import { createLogger } from "../../../src/platform/process/log.ts";
import { admitAnyone } from "../../../src/policy-engine/samples/sample-listener.ts";
import { createSampleServer, type SampleServer } from "../../../src/policy-engine/samples/sample-server.ts";
import { describeReal, LOOP_PARTS } from "../../harness/real-parts.ts";
import { waitFor } from "./agent-under-test.ts";

const sample = (volumeHandle: string, availableBytes: number): Sample =>
  SampleMessage.fromPartial({ volumeHandle, availableBytes });

/** More than fits on the way to an engine that does not read. */
const UNREAD_SAMPLES = 200;
const UNREAD_BYTES = 10_000;

interface Engine {
  readonly server: SampleServer;
  readonly heard: string[];
  close(): Promise<void>;
}

describeReal("streams of samples", LOOP_PARTS, () => {
  let directory: string;
  let newest: Sample[];
  let guided: Guidance[];
  let engines: Engine[];
  let streams: ReturnType<typeof openEngineStreams>;
  const pathOf = (name: string) => join(directory, `${name}.sock`);
  const startEngine = async (name: string): Promise<Engine> => {
    const heard: string[] = [];
    const events = {
      onHello: (node: string, epoch: number) => heard.push(`hello ${node} ${epoch}`),
      onSamples: (_node: string, samples: readonly Sample[]) =>
        heard.push(...samples.map(({ volumeHandle, availableBytes }) => `${volumeHandle} ${availableBytes}`)),
      onGone: () => {},
    };
    const server = createSampleServer(events, admitAnyone, createLogger("engine", "silent"));
    const serving = await serveOnSocket(pathOf(name), [server]);
    const engine = { server, heard, close: () => serving.close() };
    engines.push(engine);
    return engine;
  };
  /** It takes a stream and never reads it. */
  const startDeafEngine = async () => {
    let calls = 0;
    const implementation = { stream: () => void (calls += 1) };
    const serving = await serveOnSocket(pathOf("one"), [{ definition: SamplesService, implementation }]);
    return { called: () => calls > 0, close: () => serving.close() };
  };
  const openStreams = (...names: string[]): void => {
    const addresses = names.map((name) => `unix://${pathOf(name)}`);
    streams = openEngineStreams(addresses, {
      link: readPlainLink,
      nodeName: "node-a",
      highestEpoch: () => 7,
      newest: () => newest,
      guided: (guidance) => guided.push(...guidance),
      effects: directEffects,
      log: createLogger("test", "silent"),
    });
  };

  beforeEach(() => {
    directory = mkdtempSync(join(tmpdir(), "tidemark-stream-"));
    [newest, guided, engines] = [[sample("fs-a", 1), sample("fs-b", 2)], [], []];
  });
  afterEach(async () => {
    streams.stop();
    await Promise.all(engines.map((engine) => engine.close()));
    rmSync(directory, { recursive: true });
  });

  it("begin with who speaks, its highest epoch, and the newest sample of each volume", async () => {
    const engine = await startEngine("one");
    openStreams("one");
    await waitFor("the samples", () => engine.heard.length === 3);
    expect(engine.heard).toEqual(["hello node-a 7", "fs-a 1", "fs-b 2"]);
  });

  it("go to every engine", async () => {
    const [one, two] = [await startEngine("one"), await startEngine("two")];
    openStreams("one", "two");
    await waitFor("both", () => one.heard.length === 3 && two.heard.length === 3);
    streams.offer([sample("fs-a", 5)]);
    await waitFor("the change", () => one.heard.includes("fs-a 5") && two.heard.includes("fs-a 5"));
    expect(streams.connected()).toBe(2);
  });

  it("are opened again when an engine comes back, and begin with the newest", async () => {
    const before = await startEngine("one");
    openStreams("one");
    await waitFor("the first stream", () => before.heard.length === 3);
    await before.close();
    engines = [];
    newest = [sample("fs-a", 9)];
    const after = await startEngine("one");
    await waitFor("the second stream", () => after.heard.length === 2);
    expect(after.heard).toEqual(["hello node-a 7", "fs-a 9"]);
  });

  it("begin with nothing that an engine which has gone did not take", async () => {
    const unread = Array.from({ length: UNREAD_SAMPLES }, (_, index) =>
      sample(`fs-gone-${index}-${"x".repeat(UNREAD_BYTES)}`, 1),
    );
    const deaf = await startDeafEngine();
    openStreams("one");
    await waitFor("the first stream", () => deaf.called());
    for (const one of unread) {
      streams.offer([one]);
      await new Promise((resolve) => setImmediate(resolve));
    }
    await deaf.close();
    newest = [sample("fs-a", 9)];
    const after = await startEngine("one");
    await waitFor("the second stream", () => after.heard.includes("fs-a 9"));
    expect(after.heard).toEqual(["hello node-a 7", "fs-a 9"]);
  });

  it("bring the engine's guidance", async () => {
    const engine = await startEngine("one");
    openStreams("one");
    await waitFor("the hello", () => engine.heard.length > 0);
    engine.server.guide("node-a", { volumeHandle: "fs-a", nextExtendUsedBytes: 123 });
    await waitFor("the guidance", () => guided.length === 1);
    expect(guided).toEqual([{ volumeHandle: "fs-a", nextExtendUsedBytes: 123 }]);
  });
});
